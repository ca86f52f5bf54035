package interpolation

import (
	"fmt"
	"math"
	"time"

	"plimsoll/profile"
)

// together is what each further prompt adds to a step that has one already, over
// ISL, from prompts that were measured several at once.
type together struct {
	more   curve   // ns
	budget float64 // prompt tokens of a step
	most   float64 // prompts of a step
}

// WithBatched is p that knows what prefill does with several prompts at once. Of k
// that take C together where one takes T alone, each further one adds
// (C − T)/(k − 1).
func (p Prefill) WithBatched(b profile.BatchedPrefill) (Prefill, error) {
	if err := b.Check(); err != nil {
		return p, fmt.Errorf("batched prefill: %w", err)
	}
	t := together{budget: float64(b.MaxBatchedTokens)}
	var x, more []float64
	for _, s := range b.Samples {
		isl, k := float64(s.ISL), float64(s.K)
		alone, one := p.nanos(isl), p.ThroughputPerGPU(isl).Value
		if !(one > 0) {
			return p, fmt.Errorf("batched prefill: at ISL %d the surface of one prompt at a time has a throughput of %v", s.ISL, one)
		}
		all := k * alone * one / s.ThroughputPerGPU // both per GPU
		x, more = append(x, isl), append(more, max(0, (all-alone)/(k-1)))
		t.most = max(t.most, k)
	}
	t.more = newCurve(x, more)
	p.together, p.from = &t, profile.Weakest(p.from, b.Provenance)
	return p, nil
}

// Batch is how an engine takes prompts of one length that wait together: the first
// takes Alone, and each further one of at most Most adds More.
type Batch struct {
	Most             int
	Alone, More      time.Duration
	ThroughputPerGPU float64 // prompt tokens/s/GPU of Most at once
}

// Takes is how long n prompts take at once, 1 ≤ n ≤ Most.
func (b Batch) Takes(n float64) time.Duration {
	return b.Alone + time.Duration(math.Round((n-1)*float64(b.More)))
}

// Batch is that of prompts of isl tokens; false where p knows nothing of several
// at once (WithBatched), or two of them are more than a step takes. Outside of the
// lengths measured a further prompt adds in proportion to its tokens above, or to
// what it takes alone where that grows faster, and as much as the shortest one
// below.
func (p Prefill) Batch(islTokens float64) (Batch, bool) {
	if p.together == nil || !(islTokens > 0) || 2*islTokens > p.together.budget {
		return Batch{}, false
	}
	t := p.together
	alone, last := p.nanos(islTokens), t.more.last()
	more := t.more.at(islTokens) * max(1, islTokens/last, alone/p.nanos(last))
	k := math.Floor(min(t.budget/islTokens, t.most))
	b := Batch{Most: int(k), Alone: duration(alone), More: duration(more)}
	b.ThroughputPerGPU = p.ThroughputPerGPU(islTokens).Value * k * alone / (alone + (k-1)*more)
	return b, k >= 2
}

// leastShare is the part of a lone prompt's time, over the rest of it, that several
// have to share for a throughput of one at a time to say too little.
const leastShare = 0.25

// Short says where a step of several prompts of isl tokens would share much of what
// one takes, and p does not know what several at once do: then its throughput, of one
// at a time, understates the engine's.
func (p Prefill) Short(islTokens float64) []profile.Warning {
	if p.together != nil || len(p.isl) < leastForKnee || !(islTokens > 0) {
		return nil
	}
	s := newPrompts(&p, 0, 0)
	alone, shared := p.nanos(islTokens), s.zero-s.perToken*min(islTokens, s.hidden)
	if shared < leastShare*(alone-shared) {
		return nil
	}
	return []profile.Warning{profile.Warnf("prefill_one_at_a_time",
		"prompts of %s tokens were profiled only one at a time (the profile has no prefill_batched.json). Several can share a step, so the engine can do more than shown", tidy(islTokens))}
}
