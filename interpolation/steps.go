package interpolation

import (
	"math"

	"plimsoll/engine"
	"plimsoll/profile"
)

// Steps times the forward steps of an engine from its profile, for the
// simulator. The profile has whole requests, not steps, so that what Steps gives
// is an estimate, exact in two places: a prompt that has the engine to itself
// takes Prefill.TTFT, and a step that only decodes takes Decode.ITLAt.
//
//	decode alone   ITL(n, context)
//	prompts alone  T0 + Σ (T(past + chunk) − T(past)), at least T of the shortest prompt measured
//	both           ITL(n, context) + Σ (T(past + chunk) − T(past))
//
// T is TTFT over ISL, continued to T0 at no tokens with the slope that it has at
// the shortest prompt. What a chunk adds to a mixed step is so its tokens times
// dTTFT/dISL where they stand in the prompt: the fixed part of a step is in ITL
// already. What of T0 is no part of a step (HTTP, tokenizing) is therefore missing
// from the TTFT of a prompt that joins a decoding batch. A later chunk of a prompt
// pays no T0, since the TTFT that was measured holds the fixed parts of all of its
// steps.
type Steps struct {
	prefill Prefill
	decode  Decode
	zero    float64 // T0, ns
	slope   float64 // of T below the shortest prompt, ns per token
}

// NewSteps times the steps of one engine from both of its surfaces.
func NewSteps(p Prefill, d Decode) Steps {
	s := Steps{prefill: p, decode: d}
	low := p.ttft.first()
	at := p.ttft.at(low)
	s.slope = min(p.ttft.firstSlope(), at/low)
	if s.slope <= 0 {
		s.slope = at / low // one prompt length, or TTFT that falls: in proportion
	}
	s.zero = max(0, at-s.slope*low)
	return s
}

// Provenance is estimated, or published where a surface is.
func (s Steps) Provenance() profile.Provenance {
	return profile.Weakest(profile.Estimated, s.prefill.from, s.decode.from)
}

// Outside says what of a load lies outside the measured surfaces: the longest
// prompt, and a number of requests in flight at a mean context.
func (s Steps) Outside(islTokens, requests, contextTokens float64) []profile.Warning {
	return append(s.prefill.TTFT(islTokens).Warnings(), s.decode.ITLAt(requests, contextTokens).Warnings()...)
}

// StepTime is how long one forward step with b takes; 0 for an empty batch.
func (s Steps) StepTime(b engine.Batch) engine.Picoseconds {
	var d engine.Picoseconds
	if b.DecodeSeqs > 0 {
		d, _, _ = s.DecodeRun(b.DecodeSeqs, b.DecodeContext)
	}
	if b.PrefillTokens <= 0 {
		return d
	}
	chunks := s.chunks(b)
	if b.DecodeSeqs > 0 {
		return d + picoseconds(chunks)
	}
	if b.PrefillPast == 0 {
		chunks = max(s.zero+chunks, s.prefill.ttft.at(0))
	}
	return picoseconds(chunks)
}

// chunks is Σ (T(past + chunk) − T(past)) in ns. A batch knows only sums over
// its chunks: they are taken as equal ones whose tokens stand, on average, where
// the batch's do. That is exact for one chunk, and for any where T is quadratic.
func (s *Steps) chunks(b engine.Batch) float64 {
	tokens := float64(b.PrefillTokens)
	n := tokens / float64(max(b.PrefillSeqs, 1))
	// A chunk of n after p has n·p + n·(n+1)/2 pairs of query and key.
	past := max(0, float64(b.PrefillPairs)/tokens-(n+1)/2)
	if b.PrefillSeqs <= 1 {
		past = float64(b.PrefillPast)
	}
	return tokens / n * max(0, s.at(past+n)-s.at(past))
}

// at is T in ns.
func (s *Steps) at(tokens float64) float64 {
	if low := s.prefill.ttft.first(); tokens < low {
		return s.prefill.ttft.at(low) - s.slope*(low-tokens)
	}
	return s.prefill.nanos(tokens)
}

// knot is the distance, in tokens of mean context, between two points at which
// ITL is read; between them it is a straight line in whole picoseconds.
const knot = 64

// DecodeRun says how long the next steps take of a batch that only decodes:
// seqs sequences with context tokens in all, each growing by one token a step.
// For 0 ≤ i < steps, step i takes first + i·growth, which is exactly what
// StepTime gives for it; steps ≥ 1.
func (s Steps) DecodeRun(seqs int, context int64) (first, growth engine.Picoseconds, steps int64) {
	n := int64(max(seqs, 1))
	if context < 0 || context > math.MaxInt64/2 || n > math.MaxInt64/4/knot {
		return s.itl(n, float64(context)/float64(n)), 0, 1
	}
	span := n * knot
	at, in := context/span, context%span
	low, high := s.itl(n, float64(at*knot)), s.itl(n, float64((at+1)*knot))
	perToken := max(0, (high-low)/engine.Picoseconds(span))
	return low + perToken*engine.Picoseconds(in), perToken * engine.Picoseconds(n), (span - in + n - 1) / n
}

func (s *Steps) itl(n int64, context float64) engine.Picoseconds {
	b, _ := s.decode.blend(max(context, 1))
	return picoseconds(b.itl(float64(n)))
}

// picoseconds rounds nanoseconds, and keeps a step under a day.
func picoseconds(ns float64) engine.Picoseconds {
	const day = 24 * 3600 * engine.Second
	return engine.Picoseconds(math.Round(min(max(ns*float64(engine.Nanosecond), 0), float64(day))))
}
