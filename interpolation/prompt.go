package interpolation

import (
	"math"
	"slices"
)

// prompts splits TTFT over ISL into what the prompts of one step share and what
// each of them pays for itself:
//
//	T(x) = zero + perToken·max(0, x − hidden) + own(x)
//
// A step reads all weights once. As long as it holds fewer tokens than hidden,
// their arithmetic is done while it waits for that; beyond, each costs
// perToken. Both count the tokens of the whole step, decoding ones too. own is
// what remains, attention above all, which grows with the prompt's own length.
type prompts struct {
	ttft     *Prefill
	zero     float64 // ns
	perToken float64 // ns
	hidden   float64 // tokens
}

// leastForKnee is how many samples tell a knee and a curve apart.
const leastForKnee = 5

// newPrompts fits T(x) = zero + perToken·max(0, x−hidden) + a·x² by least squares
// of relative errors, the knee by search. own is the difference from the
// measured curve, so that the split never changes T.
func newPrompts(p *Prefill) prompts {
	x, y := p.isl, p.fit
	best, least := proportional(p), math.Inf(1)
	// A knee below the shortest prompt leaves nothing to see it by; beyond the
	// last few samples too little is left to tell a line from a parabola.
	for knee := x[0]; len(x) >= leastForKnee && knee <= x[len(x)-4]; knee *= 1.05 {
		c, off := hinge(x, y, knee)
		if off < least {
			best, least = prompts{ttft: p, zero: c[0], perToken: c[1], hidden: knee}, off
		}
	}
	best.zero = min(best.zero, slices.Min(y)) // noise may put a prompt below it
	return best
}

// proportional is the split of a surface that is too small to show a knee: a straight
// line through its first two samples, or in proportion for a single one.
func proportional(p *Prefill) prompts {
	low := p.ttft.first()
	at := p.ttft.at(low)
	slope := at / low // for one prompt length
	if len(p.isl) > 1 {
		slope = min((p.fit[1]-p.fit[0])/(p.isl[1]-p.isl[0]), slope)
	}
	if slope <= 0 {
		slope = at / low // TTFT does not rise
	}
	return prompts{ttft: p, zero: at - slope*low, perToken: slope}
}

// hinge fits y = c0 + c1·max(0, x−knee) + c2·x², none negative, and gives the sum
// of squares of the relative errors.
func hinge(x, y []float64, knee float64) (c [most]float64, off float64) {
	columns := func(i int) [most]float64 {
		return [most]float64{1 / y[i], max(0, x[i]-knee) / y[i], x[i] * x[i] / y[i]}
	}
	var a [most][most]float64
	var b [most]float64
	for i := range x {
		v := columns(i)
		for j := range v {
			b[j] += v[j]
			for k := range v {
				a[j][k] += v[j] * v[k]
			}
		}
	}
	c = nonNegative(a, b, 3)
	for i := range x {
		e := -1.0
		for j, v := range columns(i) {
			e += c[j] * v
		}
		off += e * e
	}
	return c, off
}

// shared is what tokens cost that a step holds beside others, in ns.
func (p *prompts) shared(beside, tokens float64) float64 {
	return p.perToken * (max(0, beside+tokens-p.hidden) - max(0, beside-p.hidden))
}

// own is what a prompt of x tokens pays for itself, in ns.
func (p *prompts) own(x float64) float64 {
	if low := p.ttft.ttft.first(); x <= 0 {
		return 0
	} else if x < low {
		return p.own(low) * x / low
	}
	return p.ttft.nanos(x) - p.zero - p.shared(0, x)
}
