package interpolation

import (
	"cmp"
	"math"
	"slices"
)

// sample is one measured decode point in the terms of the model: n requests in
// flight, each with context tokens, step time itl in ns, and efficiency, the
// measured throughput over n/ITL/GPUs (1 in a steady state, by Little's law).
type sample struct {
	n, context, itl, efficiency float64
	doubt                       float64 // by how much it contradicts itself, relative
}

// sureBelow is the doubt from which a sample is not asked for its efficiency.
const sureBelow = 0.1

// row is the surface at one context, over n.
type row struct {
	context    float64
	low, high  float64   // contexts of its samples
	n, itl     []float64 // the loads measured, and ns of the fit there
	rest       curve     // ns: ITL without the bend, at more loads than were measured
	errors     line      // relative, of ITL
	efficiency line
	fall       float64 // slope at the curve's lower end, per ITL there
}

func (r *row) min() float64 { return r.n[0] }
func (r *row) max() float64 { return r.n[len(r.n)-1] }

// at is the rest of ITL in ns at n. Outside the curve, which reaches further than
// the samples, its end's slope goes on, and does not lead below 0 at n = 0.
func (r *row) at(n float64) float64 {
	switch lo, hi := r.rest.first(), r.rest.last(); {
	case n < lo:
		return r.rest.y[0] * (1 - r.fall*(lo-n))
	case n > hi:
		return r.rest.at(hi) + r.rest.slope()*(n-hi)
	default:
		return r.rest.at(n)
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
// rowTolerance of.
func newRows(samples []sample) []row {
	s := slices.Clone(samples)
	slices.SortStableFunc(s, func(a, b sample) int {
		return cmp.Or(cmp.Compare(a.context, b.context), cmp.Compare(a.n, b.n))
	})
	tolerance := rowTolerance
	if labelled(s) {
		tolerance = 0
	}
	var rows []row
	for len(s) > 0 {
		k, sum := 1, s[0].context // a group's size and sum; equal contexts stay together whatever rounding does to the mean
		for k < len(s) && (s[k].context == s[k-1].context || s[k].context <= sum/float64(k)*(1+tolerance)) {
			sum += s[k].context
			k++
		}
		rows = append(rows, newRow(s[:k], sum/float64(k)))
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

// newRow has the loads and efficiencies of samples; those of one load are one.
// Samples in doubt say nothing of efficiency where others do.
func newRow(s []sample, context float64) row {
	r := row{context: context, low: s[0].context, high: s[len(s)-1].context}
	if r.low == r.high {
		r.context = r.low // the mean of equal numbers may differ in the last bit
	}
	s = slices.Clone(s)
	slices.SortStableFunc(s, func(a, b sample) int { return cmp.Compare(a.n, b.n) })
	var all, sure line
	for len(s) > 0 {
		k := 1
		for k < len(s) && sameLoad(s[k].n, s[0].n) {
			k++
		}
		var n, eff, doubt float64
		for _, x := range s[:k] {
			n, eff, doubt = n+x.n/float64(k), eff+x.efficiency/float64(k), max(doubt, x.doubt)
		}
		r.n = append(r.n, n)
		all.add(n, eff)
		if doubt < sureBelow {
			sure.add(n, eff)
		}
		s = s[k:]
	}
	if r.efficiency = sure; len(sure.x) == 0 {
		r.efficiency = all
	}
	return r
}

// sameLoad takes loads for equal that differ by rounding: n comes from a product
// and a quotient of what the file holds.
func sameLoad(a, b float64) bool { return math.Abs(a-b) <= 1e-6*math.Abs(b) }

const (
	fineLoad = 1.5 // ratio of two neighbouring loads of a row's curve
	reach    = 1.5 // of the highest load measured, to where a row's curve goes
)

// draw makes the row's curves. They go on below and above what was measured
// there, by what the other rows say of it.
func (r *row) draw(f *field) {
	ends := r.n
	if low := min(1, ends[0]); !sameLoad(low, ends[0]) {
		ends = append([]float64{low}, ends...)
	}
	knots := between(append(slices.Clone(ends), reach*r.max()), fineLoad)
	y, off := make([]float64, len(knots)), make([]float64, len(knots))
	for i, n := range knots {
		p := point{n, r.context}
		y[i], off[i] = f.at(p)-f.trend.bent(n), f.unsure(p)
	}
	rising(y)
	r.rest, r.errors = newCurve(knots, y), line{knots, off}
	if len(knots) > 1 && y[0] > 0 {
		r.fall = min((y[1]-y[0])/(knots[1]-knots[0])/y[0], 1/knots[0])
	}
	for _, n := range r.n {
		r.itl = append(r.itl, r.at(n)+f.trend.bent(n))
	}
}
