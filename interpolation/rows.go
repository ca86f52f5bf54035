package interpolation

import (
	"cmp"
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"
)

// sample is one measured decode point in the terms of the model: n requests in
// flight, each with context tokens, step time itl in ns, and efficiency, the
// measured throughput over n/ITL/GPUs (1 in a steady state, by Little's law).
type sample struct {
	n, context, itl, efficiency float64
}

// row is what was measured at one context, over n.
type row struct {
	context    float64
	low, high  float64 // contexts of its samples
	itl        curve   // ns
	efficiency curve
}

func (r *row) min() float64 { return r.itl.first() }
func (r *row) max() float64 { return r.itl.last() }

// at is the ITL in ns at n. Below the first sample the first chord goes on, so
// that an engine affine in n stays exact, with a slope that neither falls with
// load nor leads below 0 at n = 0. Above the last, the last chord goes on.
func (r *row) at(n float64) float64 {
	switch lo, hi := r.min(), r.max(); {
	case n < lo:
		y := r.itl.at(lo)
		slope := min(max(r.itl.firstSlope(), 0), y/lo)
		return y - slope*(lo-n)
	case n > hi:
		return r.itl.at(hi) + max(r.itl.lastSlope(), 0)*(n-hi)
	default:
		return r.itl.at(n)
	}
}

// rowTolerance is by how much the context of a sample may be off its row's mean.
// Contexts are what was seen, so the loads of one row scatter by a few per cent.
const rowTolerance = 0.08

// labelGap is the least relative gap between contexts that repeat exactly for
// them to be labels, each a row of its own.
const labelGap = 0.04

// newRows groups samples by context and makes each group a row at its mean
// context. Where contexts are labels that repeat, equal ones are a row. Where
// they were seen, a sample belongs to the row whose mean it is within
// rowTolerance of, and its ITL is brought to the row's context.
func newRows(samples []sample) []row {
	s := slices.Clone(samples)
	slices.SortStableFunc(s, func(a, b sample) int {
		return cmp.Or(cmp.Compare(a.context, b.context), cmp.Compare(a.n, b.n))
	})
	tolerance := rowTolerance
	if labelled(s) {
		tolerance = 0
	}
	slope := contextSlope(s)
	var rows []row
	for len(s) > 0 {
		k, sum := 1, s[0].context // a group's size and sum; equal contexts stay together whatever rounding does to the mean
		for k < len(s) && (s[k].context == s[k-1].context || s[k].context <= sum/float64(k)*(1+tolerance)) {
			sum += s[k].context
			k++
		}
		rows = append(rows, newRow(s[:k], sum/float64(k), slope))
		s = s[k:]
	}
	return rows
}

// labelled reports whether sorted samples carry contexts asked for, not seen:
// at least two samples to each on average, and well apart.
func labelled(s []sample) bool {
	distinct := 1
	for i := 1; i < len(s); i++ {
		switch a, b := s[i-1].context, s[i].context; {
		case a == b:
		case b < a*(1+labelGap):
			return false
		default:
			distinct++
		}
	}
	return 2*distinct <= len(s)
}

// newRow brings samples to one context and pools those of equal n.
func newRow(s []sample, context, slope float64) row {
	r := row{context: context, low: s[0].context, high: s[len(s)-1].context}
	if r.low == r.high {
		r.context = r.low // the mean of equal numbers may differ in the last bit
	}
	s = slices.Clone(s)
	slices.SortStableFunc(s, func(a, b sample) int { return cmp.Compare(a.n, b.n) })
	var n, itl, eff []float64
	for i := 0; i < len(s); {
		k := i
		var sum sample
		for ; k < len(s) && sameLoad(s[k].n, s[i].n); k++ {
			sum.n += s[k].n
			sum.itl += max(s[k].itl+slope*s[k].n*(r.context-s[k].context), s[k].itl/2)
			sum.efficiency += s[k].efficiency
		}
		m := float64(k - i)
		n, itl, eff = append(n, sum.n/m), append(itl, sum.itl/m), append(eff, sum.efficiency/m)
		i = k
	}
	r.itl, r.efficiency = newCurve(n, itl), newCurve(n, eff)
	return r
}

// sameLoad takes loads for equal that differ by rounding: n comes from a product
// and a quotient of what the file holds.
func sameLoad(a, b float64) bool { return math.Abs(a-b) <= 1e-6*math.Abs(b) }

// contextSlope is c ≥ 0 of the least-squares fit ITL = a + b·n + c·n·context,
// in ns per token; 0 where the samples do not determine it. It is used only to
// shift samples within a row, by a few per cent of their context.
func contextSlope(s []sample) float64 {
	if len(s) < 4 || s[len(s)-1].context == s[0].context {
		return 0
	}
	var nMax, cMax float64
	for _, p := range s {
		nMax, cMax = max(nMax, p.n), max(cMax, p.n*p.context)
	}
	a := mat.NewDense(len(s), 3, nil)
	y := mat.NewVecDense(len(s), nil)
	for i, p := range s {
		a.SetRow(i, []float64{1, p.n / nMax, p.n * p.context / cMax}) // scaled to 1: conditions the fit
		y.SetVec(i, p.itl)
	}
	var x mat.VecDense
	if err := x.SolveVec(a, y); err != nil {
		return 0 // the columns depend on each other: there is no slope to speak of
	}
	if c := x.AtVec(2) / cMax; finite(c) {
		return max(c, 0)
	}
	return 0
}
