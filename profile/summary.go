package profile

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// minGaps is how many gaps a stream must have inside a window to count as
// streaming there: fewer say little of its rate.
const minGaps = 3

// Whole is the window from the first send to the last content of rs.
func Whole(rs []Request) Window {
	w := Window{From: math.MaxInt64}
	for _, r := range rs {
		if r.Sent > 0 {
			w.From = min(w.From, r.Sent)
		}
		w.To = max(w.To, r.Last)
	}
	if w.From > w.To {
		return Window{}
	}
	return w
}

// Summary is what a set of request records says within a window.
type Summary struct {
	Requests, Failures int
	TTFT               Distribution // successful requests, whole, in the order of sending
	TPOT               Distribution // per successful request, over what the window holds of it: (last − first) / tokens between
	ITL                Distribution // gaps between content chunks inside the window, pooled; intervals by engine steps
	Steps              int          // engine steps inside the window, each behind a gap of at least one stream
	TokensPerSec       float64      // output tokens/s of all streams inside the window
	Streaming          int          // successful requests with at least minGaps gaps inside the window
	InFlight           float64      // successful requests between Sent and Last, averaged over the window
	Context            float64      // mean tokens in KV of a running sequence inside the window
	TokensPerChunk     float64      // output tokens / content chunks; 0 where unknown
	Cached             float64      // share of prompt tokens served from the prefix cache; NaN where unknown
	Warnings           []Warning
	Invalid            string // why the figures cannot be the engine's; empty = they may
}

// Summarize computes a Summary. Failed requests are counted and left out of
// every figure; those that the client itself cut off are not even counted. A window that
// holds no gap gives zero ITL and TokensPerSec.
func Summarize(rs []Request, w Window) Summary {
	canceled := func(r Request) bool { return r.Failure == FailCanceled }
	if slices.ContainsFunc(rs, canceled) {
		rs = slices.DeleteFunc(slices.Clone(rs), canceled)
	}
	s := Summary{Requests: len(rs)}
	var good []Request
	for _, r := range rs {
		if r.OK() {
			good = append(good, r)
		} else {
			s.Failures++
		}
	}
	s.whole(good)
	s.streams(good, w)
	s.tokens(good)
	s.warnings(rs, good, w)
	return s
}

// whole fills what needs no window.
func (s *Summary) whole(rs []Request) {
	bySent := slices.SortedStableFunc(slices.Values(rs), func(a, b Request) int { return cmp.Compare(a.Sent, b.Sent) })
	var ttft []time.Duration
	for _, r := range bySent {
		if t := r.TTFT(); t > 0 {
			ttft = append(ttft, t)
		}
	}
	s.TTFT = Sequence(ttft)
}

// streams fills what depends on instants inside the window.
func (s *Summary) streams(rs []Request, w Window) {
	most := 0
	for _, r := range rs {
		most += len(r.Chunks)
	}
	gaps, tpot := make([]float64, 0, most), make([]float64, 0, len(rs))
	streams := make([][]time.Duration, 0, len(rs))
	var context, busy float64
	var chunks int
	for _, r := range rs {
		busy += float64(overlap(life(r), w))
		at, before := inside(r, w)
		if len(at) == 0 {
			continue
		}
		streams = append(streams, at)
		perChunk := tokensPerChunk(r)
		for i := range at {
			context += promptTokens(r) + float64(r.Before) + float64(before+i+1)*perChunk
		}
		chunks += len(at)
		for i := range at[1:] {
			gaps = append(gaps, float64(at[i+1]-at[i]))
		}
		n := len(at) - 1
		if n >= minGaps {
			s.Streaming++
		}
		if span := at[n] - at[0]; span > 0 {
			// Each stream's own rate, so that the window's edges, which cut
			// through a step that all streams share, bias nothing.
			s.TokensPerSec += float64(n) * perChunk / span.Seconds()
			tpot = append(tpot, float64(span)/(float64(n)*perChunk))
		}
	}
	s.intervals(gaps, tpot, stepMeans(streams))
	if chunks > 0 {
		s.Context = context / float64(chunks)
	}
	if l := w.Length(); l > 0 {
		s.InFlight = busy / float64(l)
	}
}

// intervals fills ITL and TPOT. All streams share the engine's steps, so it is
// steps that are counted: 500 streams over 100 steps are 100 samples at most. The
// requests' own TPOT have the same steps behind their mean; what else differs
// between them is each one's own, so that their percentiles are uncertain by
// both.
func (s *Summary) intervals(gaps, tpot, steps []float64) {
	shared := seriesSpread(steps, true)
	s.Steps = len(steps)
	d, sorted := describe(gaps)
	s.ITL = d.sure(shared, sorted)
	d, sorted = describe(tpot)
	if d.N == 0 {
		return
	}
	half := 0.0
	if s.ITL.Mean > 0 {
		half = shared.half * float64(d.Mean) / float64(s.ITL.Mean)
	}
	s.TPOT = d.sure(spread{half: half, count: float64(d.N)}, sorted).widened(half)
}

// inside is when the chunks of r that w holds arrived, and how many of the
// record's came before them.
func inside(r Request, w Window) (at []time.Duration, before int) {
	for i, c := range r.Chunks {
		switch {
		case w.holds(c.At):
			if at == nil {
				at = make([]time.Duration, 0, len(r.Chunks)-i)
			}
			at = append(at, c.At)
		case len(at) == 0:
			before++
		}
	}
	return at, before
}

// life is from sending to the last content that the record knows of.
func life(r Request) Window {
	_, last := streamed(r)
	return Window{From: r.Sent, To: last}
}

// tokens fills what depends on counts alone.
func (s *Summary) tokens(rs []Request) {
	var chunks, cached, prompt int
	var tokens float64
	known := len(rs) > 0
	for _, r := range rs {
		tokens += tokensPerChunk(r) * float64(len(r.Chunks))
		chunks += len(r.Chunks)
		prompt += r.PromptTokens
		cached += max(r.CachedTokens, 0)
		known = known && r.CachedTokens >= 0 && r.PromptTokens > 0
	}
	if chunks > 0 {
		s.TokensPerChunk = tokens / float64(chunks)
	}
	s.Cached = math.NaN()
	if known {
		s.Cached = float64(cached) / float64(prompt)
	}
}

func tokensPerChunk(r Request) float64 {
	if len(r.Chunks) == 0 || !r.UsageSeen || r.OutputTokens <= r.Before {
		return 1 // a part without usage: a chunk is taken for a token
	}
	return float64(r.OutputTokens-r.Before) / float64(len(r.Chunks))
}

func promptTokens(r Request) float64 {
	if r.PromptTokens > 0 {
		return float64(r.PromptTokens)
	}
	return float64(r.ISL)
}

func overlap(a, b Window) time.Duration {
	return max(0, min(a.To, b.To)-max(a.From, b.From))
}
