package interpolation

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"
)

// fitting holds the columns of a least-squares problem of relative errors.
type fitting struct {
	p        []point
	y, trust []float64
	column   [most][]float64 // values of the terms, then of the bend, over y
	terms, n int             // columns without the bend's, and with it where there is one
	w, off   []float64       // of each sample: weight, and relative error of the last solution
	weighted []float64       // for solve: a column times the weights
}

// newFitting uses as many terms as there are samples.
func newFitting(p []point, y, trust []float64, t *trend) *fitting {
	f := &fitting{
		p: p, y: y, trust: trust, terms: len(t.terms), n: min(len(t.terms), len(p)),
		w: slices.Clone(trust), off: make([]float64, len(p)), weighted: make([]float64, len(p)),
	}
	for i, k := range t.terms {
		f.column[i] = make([]float64, len(p))
		for j := range p {
			f.column[i][j] = k.at(p[j]) / y[j]
		}
	}
	f.column[f.terms] = make([]float64, len(p))
	return f
}

// bend makes b the last column.
func (f *fitting) bend(b bend) {
	for j := range f.p {
		f.column[f.terms][j] = b.at(f.p[j].x) / f.y[j]
	}
	if f.n = min(f.terms, len(f.p)); b.kind != straight {
		f.n = f.terms + 1
	}
}

// robust fits the weights by least absolute relative errors, reweighting squares,
// and gives the score of the result.
func (f *fitting) robust(t *trend) float64 {
	copy(f.w, f.trust)
	off := 0.0
	for range reweighted {
		f.solve(t)
		off = 0
		sum := 0.0
		for i, e := range f.off {
			e = math.Abs(e)
			off, sum = off+f.trust[i]*e, sum+f.trust[i]
			f.w[i] = f.trust[i] / max(e, leastOff)
		}
		if off /= sum; off < exact {
			break
		}
	}
	n := float64(len(f.p))
	k := float64(t.active())
	if t.weight[len(t.terms)] > 0 {
		k += bendPrice
	}
	return 2*n*math.Log(max(off, exact)) + k*math.Log(n)
}

// refine goes on from the robust fit with Tukey's bisquare weights.
func (f *fitting) refine(t *trend) {
	f.robust(t)
	abs := make([]float64, len(f.off))
	for range reweighted {
		for i, e := range f.off {
			abs[i] = math.Abs(e)
		}
		scale := max(1.4826*median(abs), exact) * bisquare
		for i := range f.w {
			u := min(abs[i]/scale, 1)
			f.w[i] = f.trust[i] * max((1-u*u)*(1-u*u), noTrust)
		}
		f.solve(t)
	}
}

// solve fits the weights by least squares, none negative.
func (f *fitting) solve(t *trend) {
	var a [most][most]float64
	var b [most]float64
	for j := range f.n {
		floats.MulTo(f.weighted, f.w, f.column[j])
		for k := range j + 1 {
			a[j][k] = floats.Dot(f.weighted, f.column[k])
			a[k][j] = a[j][k]
		}
		b[j] = floats.Sum(f.weighted)
	}
	t.weight = nonNegative(a, b, f.n)
	for i := range f.off {
		f.off[i] = -1
	}
	for j := range f.n {
		if t.weight[j] > 0 {
			floats.AddScaled(f.off, t.weight[j], f.column[j])
		}
	}
}

func median(v []float64) float64 {
	s := slices.Sorted(slices.Values(v))
	return (s[(len(s)-1)/2] + s[len(s)/2]) / 2
}
