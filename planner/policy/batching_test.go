package policy

import (
	"math"
	"testing"
	"time"

	"plimsoll/interpolation"
	"plimsoll/profile"
)

// shortPrompts are engines whose prompts of 100 tokens take 10 ms alone and 0.1 ms
// more for each that shares the step.
func shortPrompts(t *testing.T, batched bool) engines {
	t.Helper()
	var s profile.PrefillSurface
	for _, isl := range []int{100, 200, 400, 800, 1600, 3200, 6400} {
		d := 10*time.Millisecond + time.Duration(max(0, isl-400))*2*time.Microsecond
		s.Samples = append(s.Samples, profile.PrefillSample{ISL: isl, TTFT: d, ThroughputPerGPU: float64(isl) / d.Seconds()})
	}
	p, err := interpolation.FitPrefill(s)
	if err != nil {
		t.Fatal(err)
	}
	if batched {
		all := 10*time.Millisecond + 79*100*time.Microsecond
		p, err = p.WithBatched(profile.BatchedPrefill{MaxBatchedTokens: 8000, Samples: []profile.BatchedSample{
			{ISL: 100, K: 80, TTFT: all, ThroughputPerGPU: 8000 / all.Seconds()},
		}})
		if err != nil {
			t.Fatal(err)
		}
	}
	return engines{prefill: p, sla: profile.SLA{TTFT: 100 * time.Millisecond, Stat: profile.Mean}, slower: asProfiled()}
}

// Upstream sizes prefill by the throughput of one prompt at a time, tokens of a
// step that short prompts leave empty counted as spent: many times too many
// engines. With what several at once take, a third and less are enough.
func TestUpstreamShortPromptsOneAtATime(t *testing.T) {
	need := demand{rate: 1000, isl: 100, osl: 10, spread2: 0}
	alone, _, warn := shortPrompts(t, false).leastPrefill(need)
	if len(warn) != 1 || warn[0].Code != "prefill_one_at_a_time" {
		t.Errorf("warnings %v", warn)
	}
	e := shortPrompts(t, true)
	n, why, warn := e.leastPrefill(need)
	if alone < 10 || n > alone/3 || n < 1 || len(warn) != 0 {
		t.Errorf("%d engines with batches, %d without: %s; %v", n, alone, why, warn)
	}
	b, ok := e.batching(need)
	if !ok || b.ttft(need.rate/float64(n), false) > 0.1 || n > 1 && b.ttft(need.rate/float64(n-1), false) <= 0.1 {
		t.Errorf("%d engines: TTFT %v, one fewer %v", n, b.ttft(need.rate/float64(n), false), b.ttft(need.rate/float64(n-1), false))
	}
	need.isl = 5000 // fills a step: as before
	long, _, _ := e.leastPrefill(need)
	if same, _, _ := shortPrompts(t, false).leastPrefill(need); same != long {
		t.Errorf("long prompts: %d engines with batches, %d without", long, same)
	}
}

// The formula against the loop that it describes: steps one after the other, each
// of what had arrived.
func TestBatchingTTFT(t *testing.T) {
	b := batching{alone: 0.010, more: 0.0001, most: 80}
	for _, rate := range []float64{20, 200, 1000, 3000} {
		var sum float64
		var n int
		const count = 200_000
		at := func(i int) float64 { return (float64(i) + math.Mod(float64(i)*0.6180339887, 1)) / rate } // spread, not in step
		for now, next := 0.0, 0; next < count; {
			now = max(now, at(next))
			first := next
			for next < count && at(next) <= now && next-first < int(b.most) {
				next++
			}
			now += b.takes(float64(next - first))
			for i := first; i < next; i++ {
				sum, n = sum+now-at(i), n+1
			}
		}
		if got, want := b.ttft(rate, false), sum/float64(n); math.Abs(got/want-1) > 0.25 {
			t.Errorf("%g prompts/s: TTFT %.4g ms, the loop has %.4g", rate, 1e3*got, 1e3*want)
		}
	}
	if !math.IsInf(b.ttft(20_000, false), 1) {
		t.Error("beyond what keeps up")
	}
}
