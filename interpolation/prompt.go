package interpolation

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"
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
	x, y := p.ttft.x, p.ttft.y
	best, least := line(p), math.Inf(1)
	// A knee below the shortest prompt leaves nothing to see it by; beyond the
	// last few samples too little is left to tell a line from a parabola.
	for knee := x[0]; len(x) >= leastForKnee && knee <= x[len(x)-4]; knee *= 1.05 {
		c, off, ok := hinge(x, y, knee)
		if ok && off < least {
			best, least = prompts{ttft: p, zero: c[0], perToken: c[1], hidden: knee}, off
		}
	}
	best.zero = min(best.zero, slices.Min(y)) // noise may put a prompt below it
	return best
}

// line is the split of a surface that is too small to show a knee: a straight
// line through its first two samples, or in proportion for a single one.
func line(p *Prefill) prompts {
	low := p.ttft.first()
	at := p.ttft.at(low)
	slope := min(p.ttft.firstSlope(), at/low)
	if slope <= 0 {
		slope = at / low // one prompt length, or TTFT that falls
	}
	return prompts{ttft: p, zero: at - slope*low, perToken: slope}
}

// hinge fits y = c0 + c1·max(0, x−knee) + c2·x² and gives the sum of squares of
// the relative errors; false where a coefficient comes out negative.
func hinge(x, y []float64, knee float64) (c [3]float64, off float64, ok bool) {
	a, b := mat.NewDense(len(x), 3, nil), mat.NewVecDense(len(x), nil)
	for i := range x {
		a.SetRow(i, []float64{1 / y[i], max(0, x[i]-knee) / y[i], x[i] * x[i] / y[i]})
		b.SetVec(i, 1)
	}
	var v mat.VecDense
	if err := v.SolveVec(a, b); err != nil {
		return c, 0, false
	}
	for i := range c {
		if c[i] = v.AtVec(i); c[i] < 0 {
			return c, 0, false
		}
	}
	for i := range x {
		e := (c[0]+c[1]*max(0, x[i]-knee)+c[2]*x[i]*x[i])/y[i] - 1
		off += e * e
	}
	return c, off, true
}

// shared is what tokens cost that a step holds beside others, in ns.
func (p *prompts) shared(beside, tokens float64) float64 {
	return p.perToken * (max(0, beside+tokens-p.hidden) - max(0, beside-p.hidden))
}

// own is what a prompt of x tokens pays for itself, in ns.
func (p *prompts) own(x float64) float64 {
	if low := p.ttft.ttft.first(); x < low {
		return p.own(low) * x / low
	}
	return p.ttft.nanos(x) - p.zero - p.shared(0, x)
}
