// Package leastsquares finds the parameters that explain measurements best, where
// single ones are spoilt. It is pure.
package leastsquares

import (
	"math"

	"gonum.org/v1/gonum/mat"
)

// Robust moves x, from start and by no more than span in each direction, to where
// Σ 2s²(√(1 + (r/s)²) − 1) over n residuals r is least: as r² for residuals below s,
// as 2s|r| for larger ones (pseudo-Huber loss). It is Levenberg and Marquardt's
// method (Numerical Recipes, 3rd ed., 15.5.2) with weights.
func Robust(start []float64, span, s float64, n int, residuals func(x, out []float64)) []float64 {
	return RobustStep(start, span, s, 1e-4, 1e-6, n, residuals)
}

// RobustStep is Robust with derivatives over h, ending where a step improves the sum by less than the share least.
func RobustStep(start []float64, span, s, h, least float64, n int, residuals func(x, out []float64)) []float64 {
	f := &problem{residuals: residuals, s: s, h: h, n: n, low: make([]float64, len(start)), high: make([]float64, len(start)), jacobian: make([]float64, n*len(start)), moved: make([]float64, n)}
	for i, v := range start {
		f.low[i], f.high[i] = v-span, v+span
	}
	x, r := append([]float64(nil), start...), make([]float64, n)
	residuals(x, r)
	cost, damping := f.cost(r), 1e-2
	for range 80 {
		hessian, gradient := f.normal(x, r)
		better := false
		for range 10 {
			next, ok := f.step(x, hessian, gradient, damping)
			if ok {
				residuals(next, f.moved)
				if c := f.cost(f.moved); c < cost {
					better = cost-c > least*cost
					x, cost, damping = next, c, max(damping/5, 1e-9)
					copy(r, f.moved)
					break
				}
			}
			damping *= 6
		}
		if !better {
			break
		}
	}
	return x
}

type problem struct {
	residuals       func(x, out []float64)
	s, h            float64
	n               int
	low, high       []float64
	jacobian, moved []float64
}

func (f *problem) cost(r []float64) float64 {
	sum := 0.0
	for _, v := range r {
		sum += 2 * f.s * f.s * (math.Sqrt(1+v*v/(f.s*f.s)) - 1)
	}
	return sum
}

// normal is the weighted Gauss-Newton Hessian and gradient at x, where the residuals
// are r; derivatives are forward differences.
func (f *problem) normal(x, r []float64) (*mat.SymDense, *mat.VecDense) {
	h := f.h
	d := len(x)
	at := append([]float64(nil), x...)
	for j := range d {
		at[j] += h
		f.residuals(at, f.moved)
		at[j] = x[j]
		for i := range f.n {
			f.jacobian[i*d+j] = (f.moved[i] - r[i]) / h
		}
	}
	hessian, gradient := make([]float64, d*d), make([]float64, d)
	for i, v := range r {
		weight := 1 / math.Sqrt(1+v*v/(f.s*f.s))
		row := f.jacobian[i*d : i*d+d]
		for a, slope := range row {
			gradient[a] += weight * slope * v
			for b := a; b < d; b++ {
				hessian[a*d+b] += weight * slope * row[b]
			}
		}
	}
	return mat.NewSymDense(d, hessian), mat.NewVecDense(d, gradient)
}

// step is where a damped step down the gradient leads.
func (f *problem) step(x []float64, hessian *mat.SymDense, gradient *mat.VecDense, damping float64) ([]float64, bool) {
	damped := mat.NewSymDense(len(x), nil)
	damped.CopySym(hessian)
	for i := range x {
		damped.SetSym(i, i, hessian.At(i, i)*(1+damping)+1e-9)
	}
	var cholesky mat.Cholesky
	by := mat.NewVecDense(len(x), nil)
	if !cholesky.Factorize(damped) || cholesky.SolveVecTo(by, gradient) != nil {
		return nil, false
	}
	next := make([]float64, len(x))
	for i := range x {
		const most = 1.5
		next[i] = min(max(x[i]-min(max(by.AtVec(i), -most), most), f.low[i]), f.high[i])
	}
	return next, true
}
