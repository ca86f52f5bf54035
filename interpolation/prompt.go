package interpolation

import (
	"math"
	"slices"
)

// prompts splits TTFT over ISL into what the prompts of one step share and what
// each of them pays for itself:
//
//	T(x) = zero + outside·x + perToken·max(0, x − hidden) + own(x)      in one step
//	     + (k − 1)·full, and the third term of each of its chunks        in k steps
//
// A step reads all weights once. As long as it holds fewer tokens than hidden,
// their arithmetic is done while it waits for that; beyond, each costs
// perToken. Both count the tokens of the whole step, decoding ones too. outside is the
// tokenizer's. own is what remains, attention above all, which grows with the prompt's
// own length.
type prompts struct {
	ttft     *Prefill
	zero     float64 // ns
	perToken float64 // ns
	hidden   float64 // tokens
	outside  float64 // ns

	chunk   float64 // tokens of a step, where prompts are longer; 0 = they are not
	full    float64 // ns, of each step
	squared float64 // ns: own is that times x², where prompts are cut
}

// tokenizing is the time per prompt token that engines spend outside of their steps, ns.
// A surface cannot tell it apart from arithmetic. The fits of engine/latency have 1 to
// 5 µs, by engine and model (2026). Too large a value would make steps too short.
const tokenizing = 2000

// leastForKnee is how many samples tell a knee and a curve apart.
const leastForKnee = 5

// newPrompts fits T(x) = zero + perToken·max(0, x−hidden) + a·x² by least squares
// of relative errors, the knee by search. own is the difference from the
// measured curve, so that the split never changes T.
//
// An engine that cuts prompts into chunks has a T that rises in stairs. The curve treats
// stairs as noise, so the split then uses the measured values, and own is the parabola.
func newPrompts(p *Prefill, chunk, full float64) prompts {
	x, y := p.isl, slices.Clone(p.fit)
	last := len(x) - 1
	if chunk <= 0 || chunk >= x[last] {
		chunk = 0
	} else {
		y = slices.Clone(p.measured)
		for i := range y {
			y[i] = max(y[i]/2, y[i]-full*(steps(x[i], chunk)-1))
		}
	}
	outside := min(tokenizing, max(0, y[last]-y[0])/max(1, x[last]-x[0])/2)
	for i := range y {
		outside = min(outside, y[i]/x[i]/2)
	}
	for i := range y {
		y[i] -= outside * x[i]
	}
	best, least := proportional(x, y), math.Inf(1)
	// A knee below the shortest prompt leaves nothing to see it by; beyond the
	// last few samples too little is left to tell a line from a parabola.
	for knee := x[0]; len(x) >= leastForKnee && knee <= x[len(x)-4] && (chunk == 0 || knee < chunk); knee *= 1.05 {
		c, off := hinge(x, y, func(x float64) float64 { return paid(x, knee, chunk) })
		if off < least {
			best, least = prompts{zero: c[0], perToken: c[1], hidden: knee, squared: c[2]}, off
		}
	}
	best.zero = min(best.zero, slices.Min(y)) // noise may put a prompt below it
	best.ttft, best.outside, best.chunk, best.full = p, outside, chunk, full
	return best
}

// steps is how many a prompt of x tokens takes.
func steps(x, chunk float64) float64 { return max(1, math.Ceil(x/chunk)) }

// paid is how many of a prompt's tokens are beyond hidden in their steps.
func paid(x, hidden, chunk float64) float64 {
	if chunk == 0 {
		return max(0, x-hidden)
	}
	whole := steps(x, chunk) - 1
	return whole*max(0, chunk-hidden) + max(0, x-whole*chunk-hidden)
}

// proportional is the split of a surface that is too small to show a knee: a straight
// line through its first two samples, or in proportion for a single one.
func proportional(x, y []float64) prompts {
	slope := y[0] / x[0] // for one prompt length
	if len(x) > 1 {
		slope = min((y[1]-y[0])/(x[1]-x[0]), slope)
	}
	if slope <= 0 {
		slope = y[0] / x[0] // TTFT does not rise
	}
	return prompts{zero: y[0] - slope*x[0], perToken: slope}
}

// hinge fits y = c0 + c1·paid(x) + c2·x², none negative, and gives the sum
// of squares of the relative errors.
func hinge(x, y []float64, paid func(x float64) float64) (c [most]float64, off float64) {
	columns := func(i int) [most]float64 {
		return [most]float64{1 / y[i], paid(x[i]) / y[i], x[i] * x[i] / y[i]}
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
	} else if p.chunk > 0 {
		return p.squared * x * x
	} else if x < low {
		return p.own(low) * x / low
	}
	return p.ttft.nanos(x) - p.zero - p.outside*x - p.shared(0, x)
}
