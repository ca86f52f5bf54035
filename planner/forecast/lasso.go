package forecast

import "gonum.org/v1/gonum/mat"

// lasso is least squares with priors on the coefficients: Laplace ones on the
// first, normal ones on the others. Offsets and slopes without change points and
// seasons are among the others; there are two of these at least.
type lasso struct {
	changes      int           // coefficients with a Laplace prior
	gram         *mat.SymDense // Σ x x'
	moments      *mat.VecDense // Σ x y
	squares      float64       // Σ y²
	precisions   []float64     // of the normal priors
	coefficients *mat.VecDense
}

func newLasso(rows [][]float64, values []float64, changes int, precisions []float64) *lasso {
	k := len(rows[0])
	l := &lasso{changes: changes, precisions: precisions, gram: mat.NewSymDense(k, nil), moments: mat.NewVecDense(k, nil), coefficients: mat.NewVecDense(k, nil)}
	for i, row := range rows {
		x := mat.NewVecDense(k, row)
		l.gram.SymRankOne(l.gram, 1, x)
		l.moments.AddScaledVec(l.moments, values[i], x)
		l.squares += values[i] * values[i]
	}
	return l
}

// solve minimizes Σe²/(2·variance) + Σ|b_j|/scale + Σ precision_k·b_k²/2 over all
// coefficients, from those that it has. The normal part is solved for exactly,
// given the others, which leaves a lasso of the others alone. False where rounding
// makes that impossible.
func (l *lasso) solve(variance, scale float64) bool {
	k, c := l.gram.SymmetricDim(), l.changes
	normal := mat.NewSymDense(k-c, nil)
	for i := range k - c {
		for j := i; j < k-c; j++ {
			normal.SetSym(i, j, l.gram.At(c+i, c+j))
		}
		normal.SetSym(i, i, normal.At(i, i)+variance*l.precisions[i])
	}
	var chol mat.Cholesky
	if !chol.Factorize(normal) {
		return false
	}
	moments := l.moments.SliceVec(c, k)
	others := l.coefficients.SliceVec(c, k).(*mat.VecDense)
	if c == 0 {
		return chol.SolveVecTo(others, moments) == nil
	}
	across := mat.DenseCopyOf(l.gram).Slice(c, k, 0, c)
	var inverse, reduced mat.Dense
	var pull mat.VecDense
	if chol.SolveTo(&inverse, across) != nil {
		return false
	}
	reduced.Mul(across.T(), &inverse)
	pull.MulVec(inverse.T(), moments)
	laplace := l.coefficients.SliceVec(0, c).(*mat.VecDense)
	for i := range c {
		pull.SetVec(i, l.moments.AtVec(i)-pull.AtVec(i))
		for j := range c {
			reduced.Set(i, j, l.gram.At(i, j)-reduced.At(i, j))
		}
	}
	signed{&reduced, &pull, variance / scale}.minimize(laplace)
	var rest mat.VecDense
	rest.MulVec(across, laplace)
	rest.SubVec(moments, &rest)
	return chol.SolveVecTo(others, &rest) == nil
}

// residualSquares is Σe².
func (l *lasso) residualSquares() float64 {
	return max(0, l.squares-2*mat.Dot(l.moments, l.coefficients)+mat.Inner(l.coefficients, l.gram, l.coefficients))
}
