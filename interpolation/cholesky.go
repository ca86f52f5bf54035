package interpolation

import (
	"math"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/lapack/lapack64"
)

// cholesky solves equations of one symmetric matrix, the upper triangle of which
// is kept row by row. It is gonum's LAPACK without the estimate of the condition
// that mat.Cholesky makes, which takes longer than the factors do at a surface's size.
type cholesky struct {
	n int
	a []float64 // n·n: the matrix, then its factor
}

// lost is the part of a diagonal element that rounding hides: where the elements
// before leave less of it, the matrix is not definite for all that is known.
const lost = 1e-13

func newCholesky(n int) *cholesky { return &cholesky{n: n, a: make([]float64, n*n)} }

// factor takes a copy of m, of the same kind, with more on its diagonal; false
// where that is not definite.
func (c *cholesky) factor(m, more []float64) bool {
	copy(c.a, m)
	for i, x := range more {
		c.a[i*c.n+i] += x
	}
	if _, ok := lapack64.Potrf(blas64.Symmetric{N: c.n, Stride: c.n, Data: c.a, Uplo: blas.Upper}); !ok {
		return false
	}
	for i, x := range more {
		d := c.a[i*c.n+i]
		if !(d*d > lost*(m[i*c.n+i]+x)) || math.IsInf(d, 1) {
			return false
		}
	}
	return true
}

func (c *cholesky) triangle() blas64.Triangular {
	return blas64.Triangular{N: c.n, Stride: c.n, Data: c.a, Uplo: blas.Upper, Diag: blas.NonUnit}
}

// solve makes b the solution of the equations with b as right side.
func (c *cholesky) solve(b []float64) {
	lapack64.Potrs(c.triangle(), blas64.General{Rows: c.n, Cols: 1, Stride: 1, Data: b})
}

// half makes b such that its square is that of b in the metric of the inverse.
func (c *cholesky) half(b []float64) {
	blas64.Trsv(blas.Trans, c.triangle(), blas64.Vector{N: c.n, Data: b, Inc: 1})
}

func (c *cholesky) logDet() float64 {
	s := 0.0
	for i := range c.n {
		s += 2 * math.Log(c.a[i*c.n+i])
	}
	return s
}

// inverseDiagonal is the diagonal of the matrix's inverse.
func (c *cholesky) inverseDiagonal() []float64 {
	d := make([]float64, c.n)
	b := make([]float64, c.n)
	for i := range d {
		clear(b)
		b[i] = 1
		c.half(b)
		d[i] = blas64.Dot(blas64.Vector{N: c.n, Data: b, Inc: 1}, blas64.Vector{N: c.n, Data: b, Inc: 1})
	}
	return d
}
