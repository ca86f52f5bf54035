package interpolation

import (
	"math"
	"sort"

	"plimsoll/engine"
	"plimsoll/profile"
)

// Steps times the forward steps of an engine from its profile, for the simulator. A
// profile measures whole requests, so step times are estimates. They match the profile in
// two cases. A prompt alone on the engine takes Prefill.TTFT: its steps, Overhead and
// PerToken. A step that only decodes takes Decode.ITLAt where its mean context is a
// multiple of 64 tokens, and lies on a straight line between two multiples.
//
//	n decoding    ITL(n, c)
//	with prompts  max(ITL(n, c), full(n)) + shared(n + Σ chunk) − shared(n) + Σ (own(past + chunk) − own(past))
//
// T is TTFT over ISL, split into zero + outside + shared + own (prompts). full is a step
// that reads all weights; n sequences of a mixture of experts may need fewer (weights).
// zero − full(0) is Overhead: HTTP and scheduling. In the fits of engine/latency
// (measurements of 2025 and 2026) steps hold less than a tenth of it; Steps counts none.
//
// No step takes less than a decode step of one sequence. Each chunk of a prompt pays full.
// If the profiled engine cut prompts too, NewSteps must know its chunk; otherwise those
// prompts pay full twice.
//
// Simulated from the latency model or from its own profile, fleets differ by at most 6 %
// in mean TTFT and ITL below nine tenths of what they carry (Llama 3.1 8B and 70B and
// Qwen3-30B-A3B on H100, 8B on B200). Coarse warns about mixtures of experts.
type Steps struct{ *timing }

// timing is what Steps was made of. Nothing changes it afterwards, so that a copy
// of Steps, which the simulator makes for each step, is that of a pointer.
type timing struct {
	prefill  Prefill
	decode   Decode
	prompts  prompts
	weights  weights
	least    float64 // ns: a decode step of one sequence
	overhead float64 // ns
	ready    *tabled // nil: there is none
}

// tabled is ITL at knots, so that it need not be read from curves again.
type tabled struct {
	seqs, knots int64
	itl         []engine.Picoseconds // of 1 sequence at all knots, of 2, …
}

// Tabled is s with a table of decode steps of up to so many sequences, at up to so
// many tokens of mean context. It gives the same times, several times faster within
// the table, which takes 8 bytes for each sequence and 64 tokens.
func (s Steps) Tabled(seqs, contextTokens int) Steps {
	t := &tabled{seqs: int64(max(seqs, 0)), knots: int64(max(contextTokens, 0))/knot + 2}
	t.itl = make([]engine.Picoseconds, 0, t.seqs*t.knots)
	for n := int64(1); n <= t.seqs; n++ {
		for k := range t.knots {
			t.itl = append(t.itl, s.itl(n, float64(k*knot)))
		}
	}
	with := *s.timing
	with.ready = t
	return Steps{&with}
}

// NewSteps times the steps of one engine from its two surfaces. chunk is the most prompt
// tokens that the engine took in one step; 0 = it took prompts whole, or nobody knows.
func NewSteps(p Prefill, d Decode, chunk int) Steps {
	w := newWeights(&d, p.ttft.first())
	s := &timing{prefill: p, decode: d, prompts: newPrompts(&p, float64(chunk), w.full), weights: w}
	one, _ := d.blend(1)
	s.least = min(one.itl(1), p.ttft.at(0))
	s.weights.full = min(s.weights.full, s.prompts.zero)
	s.overhead = s.prompts.zero - s.weights.full
	return Steps{s}
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

// Coarse says where a load and a context lie between two measured loads whose ITL
// is so far apart that what lies between is a guess: an engine with a mixture of
// experts is slower there than a curve through both, by up to half.
func (s Steps) Coarse(requests, contextTokens float64) []profile.Warning {
	r := s.decode.nearest(contextTokens)
	i := sort.SearchFloat64s(r.n, requests)
	if i == 0 || i == len(r.n) || r.itl[i] < coarse*r.itl[i-1] {
		return nil
	}
	return []profile.Warning{profile.Warnf("load_coarse", "ITL at %s requests in flight is a guess: it lies between the measured %s (%.4g ms) and %s (%.4g ms)",
		tidy(requests), tidy(r.n[i-1]), r.itl[i-1]/1e6, tidy(r.n[i]), r.itl[i]/1e6)}
}

// coarse is the ratio of ITL at two neighbouring loads from which Coarse warns: at
// the mixture of experts for which it was tried (Qwen3-30B-A3B on one H100 by the
// latency model) the ratio is 8 and ITL between is off by up to a half; at dense
// models it stays below 2.
const coarse = 2

// Overhead is the time per request outside of forward steps that TTFT holds.
func (s Steps) Overhead() engine.Picoseconds { return picoseconds(s.overhead) }

// PerToken is the time per prompt token outside of forward steps: the tokenizer's.
func (s Steps) PerToken() engine.Picoseconds { return picoseconds(s.prompts.outside) }

// StepTime is how long one forward step with b takes; 0 for an empty batch.
func (s Steps) StepTime(b engine.Batch) engine.Picoseconds {
	var d engine.Picoseconds
	if b.DecodeSeqs > 0 {
		d, _, _ = s.DecodeRun(b.DecodeSeqs, b.DecodeContext)
	}
	if b.PrefillTokens <= 0 {
		return d
	}
	full := s.weights.with(float64(max(b.DecodeSeqs, 0)))
	return max(max(d, picoseconds(full))+picoseconds(s.adds(b)), picoseconds(s.least))
}

// adds is what the prompts of b add to a step that has read all weights, in ns.
// A batch knows only sums over its chunks: they are taken as equal ones whose
// tokens stand, on average, where the batch's do. That is exact for one chunk,
// and for any where own is quadratic.
func (s *timing) adds(b engine.Batch) float64 {
	tokens := float64(b.PrefillTokens)
	n := tokens / float64(max(b.PrefillSeqs, 1))
	// A chunk of n after p has n·p + n·(n+1)/2 pairs of query and key.
	past := max(0, float64(b.PrefillPairs)/tokens-(n+1)/2)
	if b.PrefillSeqs <= 1 {
		past = float64(b.PrefillPast)
	}
	own := tokens / n * (s.prompts.own(past+n) - s.prompts.own(past))
	if past > 0 { // tokens before a chunk save nothing, also where T is off the split's knee
		own = max(0, own)
	}
	return max(0, s.prompts.shared(float64(max(b.DecodeSeqs, 0)), tokens)+own)
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
	low, high := s.atKnot(n, at), s.atKnot(n, at+1)
	perToken := max(0, (high-low)/engine.Picoseconds(span))
	return low + perToken*engine.Picoseconds(in), perToken * engine.Picoseconds(n), (span - in + n - 1) / n
}

// atKnot is ITL at n sequences and k knots of mean context.
func (s *timing) atKnot(n, k int64) engine.Picoseconds {
	if t := s.ready; t != nil && n <= t.seqs && k < t.knots {
		return t.itl[(n-1)*t.knots+k]
	}
	return s.itl(n, float64(k*knot))
}

func (s *timing) itl(n int64, context float64) engine.Picoseconds {
	b, _ := s.decode.blend(max(context, 1))
	return picoseconds(b.itl(float64(n)))
}

// picoseconds rounds nanoseconds, and keeps a step under a day.
func picoseconds(ns float64) engine.Picoseconds {
	return engine.Picoseconds(math.Round(min(max(ns*float64(engine.Nanosecond), 0), float64(engine.Day))))
}
