package profile

import (
	"math"
	"time"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"
)

// slicesPerWindow is how many equal parts of a window give the batch means behind the
// interval of mean ITL. Streams share engine steps, so gaps of one step are one
// sample, not many; ten batches is the usual floor (Law, Simulation Modeling
// and Analysis, 5th ed., §9.5.3).
const slicesPerWindow = 10

// minGaps is how many gaps a stream must have inside a window to count as
// streaming there: fewer say little of its rate.
const minGaps = 3

// Window is the part of a measurement that is summed up.
type Window struct {
	From, To time.Duration
}

// Length is To − From.
func (w Window) Length() time.Duration { return w.To - w.From }

func (w Window) holds(t time.Duration) bool { return t >= w.From && t <= w.To }

// Steady is the window in which every successful request streams: from the
// latest first token to the earliest last one. It is false where there is no
// such instant, so that ramp-up and ramp-down never count as load.
func Steady(rs []Request) (Window, bool) {
	w := Window{To: math.MaxInt64}
	n := 0
	for _, r := range rs {
		if !r.OK() {
			continue
		}
		n++
		w.From, w.To = max(w.From, r.First), min(w.To, r.Last)
	}
	return w, n > 0 && w.From > 0 && w.From < w.To
}

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
	TTFT, E2E, TPOT    Distribution // successful requests, whole
	ITL                Distribution // gaps between content chunks inside the window, pooled; Half by batch means
	TokensPerSec       float64      // output tokens/s of all streams inside the window
	Streaming          int          // successful requests with at least minGaps gaps inside the window
	InFlight           float64      // successful requests between Sent and Last, averaged over the window
	Context            float64      // mean tokens in KV of a running sequence inside the window
	TokensPerChunk     float64      // output tokens / content chunks; 0 where unknown
	Cached             float64      // share of prompt tokens served from the prefix cache; NaN where unknown
	Warnings           []Warning
}

// Summarize computes a Summary. Failed requests are counted and left out of
// every figure. A window that holds no gap gives zero ITL and TokensPerSec.
func Summarize(rs []Request, w Window) Summary {
	s := Summary{Requests: len(rs)}
	var ttft, e2e, tpot []time.Duration
	var good []Request
	for _, r := range rs {
		if !r.OK() {
			s.Failures++
			continue
		}
		good = append(good, r)
		ttft, e2e = append(ttft, r.TTFT()), append(e2e, r.E2E())
		if t := r.TPOT(); t > 0 {
			tpot = append(tpot, t)
		}
	}
	s.TTFT, s.E2E, s.TPOT = Describe(ttft), Describe(e2e), Describe(tpot)
	s.streams(good, w)
	s.tokens(good)
	s.warn(rs)
	return s
}

// streams fills what depends on instants inside the window.
func (s *Summary) streams(rs []Request, w Window) {
	var gaps []time.Duration
	var batches [slicesPerWindow]struct {
		sum float64
		n   int
	}
	var context, busy float64
	var chunks int
	for _, r := range rs {
		perChunk := tokensPerChunk(r)
		var first, last time.Duration
		inside := 0
		for i, c := range r.Chunks {
			if !w.holds(c.At) {
				continue
			}
			if inside == 0 {
				first = c.At
			} else {
				gap := c.At - r.Chunks[i-1].At
				gaps = append(gaps, gap)
				b := min(int(float64(slicesPerWindow)*float64(c.At-w.From)/float64(max(w.Length(), 1))), slicesPerWindow-1)
				batches[b].sum += float64(gap)
				batches[b].n++
			}
			last = c.At
			inside++
			context += promptTokens(r) + float64(i+1)*perChunk
		}
		chunks += inside
		if inside > minGaps {
			s.Streaming++
		}
		if inside > 1 && last > first {
			// Each stream's own rate, so that the window's edges, which cut
			// through a step that all streams share, bias nothing.
			s.TokensPerSec += float64(inside-1) * perChunk / (last - first).Seconds()
		}
		busy += float64(overlap(Window{r.Sent, r.Last}, w))
	}
	s.ITL = Describe(gaps)
	var at, means []float64
	for i, b := range batches {
		if b.n > 0 {
			at, means = append(at, float64(i)), append(means, b.sum/float64(b.n))
		}
	}
	s.ITL.Half = driftingHalf(at, means)
	if chunks > 0 {
		s.Context = context / float64(chunks)
	}
	if l := w.Length(); l > 0 {
		s.InFlight = busy / float64(l)
	}
}

// driftingHalf is half the 95 % interval of the mean of ys around their straight
// line over xs: contexts grow while a window lasts, and that drift is no noise.
// Two degrees of freedom go to the line.
func driftingHalf(xs, ys []float64) time.Duration {
	n := len(ys)
	if n < 4 {
		return 0
	}
	a, b := stat.LinearRegression(xs, ys, nil, false)
	ss := 0.0
	for i := range ys {
		r := ys[i] - a - b*xs[i]
		ss += r * r
	}
	t := distuv.StudentsT{Mu: 0, Sigma: 1, Nu: float64(n - 2)}.Quantile(0.975)
	return round(t * math.Sqrt(ss/float64(n-2)/float64(n)))
}

// tokens fills what depends on counts alone.
func (s *Summary) tokens(rs []Request) {
	var tokens, chunks, cached, prompt int
	known := len(rs) > 0
	for _, r := range rs {
		tokens += r.OutputTokens
		chunks += len(r.Chunks)
		prompt += r.PromptTokens
		cached += max(r.CachedTokens, 0)
		known = known && r.CachedTokens >= 0 && r.PromptTokens > 0
	}
	if chunks > 0 {
		s.TokensPerChunk = float64(tokens) / float64(chunks)
	}
	s.Cached = math.NaN()
	if known {
		s.Cached = float64(cached) / float64(prompt)
	}
}

func (s *Summary) warn(rs []Request) {
	if s.Failures > 0 {
		kinds := map[Failure]int{}
		var first string
		for _, r := range rs {
			if !r.OK() {
				kinds[r.Failure]++
				if first == "" {
					first = string(r.Failure)
					if r.Error != "" {
						first += ": " + r.Error
					}
				}
			}
		}
		s.Warnings = append(s.Warnings, Warnf("failures", "%d of %d requests failed, in %d ways, the first: %s", s.Failures, s.Requests, len(kinds), first))
	}
	if s.TokensPerChunk > 1.05 {
		s.Warnings = append(s.Warnings, Warnf("chunk_not_token", "%.2f tokens per streamed chunk: ITL is the gap between chunks, not tokens; see TPOT", s.TokensPerChunk))
	}
	usage := len(rs) > 0
	for _, r := range rs {
		usage = usage && (r.UsageSeen || !r.OK())
	}
	if !usage && s.Requests > s.Failures {
		s.Warnings = append(s.Warnings, Warnf("no_usage", "the server sent no usage: output tokens are counted as chunks and the prompt length is not verified"))
	}
}

func tokensPerChunk(r Request) float64 {
	if len(r.Chunks) == 0 || r.OutputTokens == 0 {
		return 1
	}
	return float64(r.OutputTokens) / float64(len(r.Chunks))
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
