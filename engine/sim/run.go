package sim

import (
	"math"
	"math/bits"

	"plimsoll/engine"
)

// DecodeTimer is a StepTimer that knows whole runs of decode steps.
type DecodeTimer interface {
	StepTimer
	// DecodeRun times the coming steps of a batch that only decodes: seqs
	// sequences with context tokens in all, each growing by one a step. For
	// 0 ≤ i < steps, step i takes first + i·growth, exactly StepTime's answer;
	// steps is at least 1.
	DecodeRun(seqs int, context int64) (first, growth engine.Picoseconds, steps int64)
}

// Run is a run of coming steps in which no request gets its first or last
// token, starts, or is preempted. Step i of it, from 0, takes
// First + i·Growth, which is never negative.
type Run struct {
	First, Growth engine.Picoseconds
	Steps         int64
	Seqs          int // requests that get a token in each step
	// Ends says that the step after the run, which gives a last token, is known
	// too: it only decodes, and takes First + Steps·Growth (BeginLast).
	Ends bool
}

// Whole is how long all steps take, the one in which it Ends too.
func (r Run) Whole() engine.Picoseconds {
	if r.Ends {
		return r.Length(r.Steps + 1)
	}
	return r.Length(r.Steps)
}

// Length is how long the first n steps take, 0 ≤ n ≤ Steps:
// n·First + Growth·n(n−1)/2, exactly; what is beyond 106 days stays there.
func (r Run) Length(n int64) engine.Picoseconds {
	if n <= 0 {
		return 0
	}
	high, low := bits.Mul64(uint64(n), uint64(r.First))
	if r.Growth != 0 && n > 1 {
		a, b := uint64(n), uint64(n-1)
		if a%2 == 0 {
			a /= 2
		} else {
			b /= 2
		}
		// A triangle beyond 64 bits means at least 2⁶³ ps: where growth is
		// negative, no step being so, half of n·First remains.
		beyond, triangle := bits.Mul64(a, b)
		if beyond != 0 {
			return math.MaxInt64
		}
		var carry uint64
		if r.Growth > 0 {
			h, l := bits.Mul64(triangle, uint64(r.Growth))
			low, carry = bits.Add64(low, l, 0)
			high, _ = bits.Add64(high, h, carry)
		} else {
			h, l := bits.Mul64(triangle, uint64(-r.Growth))
			low, carry = bits.Sub64(low, l, 0)
			high, _ = bits.Sub64(high, h, carry)
		}
	}
	if high != 0 || low > math.MaxInt64 {
		return math.MaxInt64
	}
	return engine.Picoseconds(low)
}

// Reach is the least n with Length(n) ≥ d, or Steps where there is none.
func (r Run) Reach(d engine.Picoseconds) int64 {
	if d <= 0 || r.Steps <= 0 {
		return 0
	}
	n := r.estimate(d)
	below, reached := n, n
	for w := int64(1); below > 0 && r.Length(below) >= d; w *= 2 {
		below, reached = max(below-w, 0), below
	}
	for w := int64(1); reached < r.Steps && r.Length(reached) < d; w *= 2 {
		below, reached = reached, reached+min(w, r.Steps-reached)
	}
	for reached-below > 1 {
		if mid := below + (reached-below)/2; r.Length(mid) >= d {
			reached = mid
		} else {
			below = mid
		}
	}
	return reached
}

// estimate solves Length(n) = d for a real n, in a form without cancellation
// for positive growth, and rounds up into 1 … Steps.
func (r Run) estimate(d engine.Picoseconds) int64 {
	half := float64(r.Growth) / 2
	b := float64(r.First) - half
	n := math.Ceil(2 * float64(d) / (b + math.Sqrt(b*b+4*half*float64(d))))
	switch {
	case !(n < float64(r.Steps)): // NaN too: never reached
		return r.Steps
	case n < 1:
		return 1
	}
	return int64(n)
}

// Plus is the sum of two spans, or of an instant and a span, that are not
// negative; what is beyond 106 days stays there.
func Plus(a, b engine.Picoseconds) engine.Picoseconds {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// times is n times a span, neither being negative, within 106 days.
func times(n int, p engine.Picoseconds) engine.Picoseconds {
	high, low := bits.Mul64(uint64(n), uint64(p))
	if high != 0 || low > math.MaxInt64 {
		return math.MaxInt64
	}
	return engine.Picoseconds(low)
}
