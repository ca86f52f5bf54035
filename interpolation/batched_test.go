package interpolation

import (
	"math"
	"testing"
	"time"

	"plimsoll/profile"
)

// kneeLaw is a law of prefill: 10 ms for a step, 20 µs for each token beyond 400.
func kneeLaw(tokens float64) time.Duration {
	return time.Duration(1e7 + 2e4*max(0, tokens-400))
}

func kneed(t *testing.T) (Prefill, profile.BatchedPrefill) {
	t.Helper()
	s := profile.PrefillSurface{}
	for _, isl := range []int{100, 200, 400, 800, 1600, 3200, 6400} {
		d := kneeLaw(float64(isl))
		s.Samples = append(s.Samples, profile.PrefillSample{ISL: isl, TTFT: d, ThroughputPerGPU: float64(isl) / d.Seconds() / 2})
	}
	p, err := FitPrefill(s)
	if err != nil {
		t.Fatal(err)
	}
	b := profile.BatchedPrefill{MaxBatchedTokens: 8000, Provenance: profile.Simulated}
	for _, isl := range []int{100, 400, 1600} {
		k := 8000 / isl
		d := kneeLaw(float64(k*isl)) + time.Duration(k-1)*50*time.Microsecond // each prompt costs besides its tokens
		b.Samples = append(b.Samples, profile.BatchedSample{ISL: isl, K: k, TTFT: d, ThroughputPerGPU: float64(k*isl) / d.Seconds() / 2})
	}
	return p, b
}

// As many prompts at once as were measured take what they took, one alone its
// TTFT, and throughput between lengths lies between theirs.
func TestBatchIsWhatWasMeasured(t *testing.T) {
	p, b := kneed(t)
	if _, ok := p.Batch(100); ok {
		t.Error("a batch without any measured")
	}
	one := p.ThroughputPerGPU(100).Value
	p, err := p.WithBatched(b)
	if err != nil {
		t.Fatal(err)
	}
	if p.Provenance() != profile.Simulated {
		t.Errorf("provenance %v", p.Provenance())
	}
	for _, s := range b.Samples {
		got, ok := p.Batch(float64(s.ISL))
		if !ok || got.Most != s.K || math.Abs(got.ThroughputPerGPU/s.ThroughputPerGPU-1) > 1e-6 || math.Abs(float64(got.Takes(float64(s.K))-s.TTFT)) > 1e4 {
			t.Errorf("ISL %d: %+v, %v, measured %+v", s.ISL, got, got.Takes(float64(s.K)), s)
		}
	}
	if got, _ := p.Batch(100); got.ThroughputPerGPU < 4*one {
		t.Errorf("%g tokens/s/GPU at once, %g one at a time", got.ThroughputPerGPU, one)
	}
	if _, ok := p.Batch(4001); ok {
		t.Error("two prompts beyond half a step share one")
	}
	for isl := 1.0; isl <= 4000; isl *= 1.07 {
		if got, ok := p.Batch(isl); !ok || !(got.ThroughputPerGPU > 0) || got.More < 0 || got.Most < 2 {
			t.Errorf("ISL %g: %+v, %v", isl, got, ok)
		}
	}
}

// Beyond the lengths that were batched a prompt is thought to cost no less than its
// tokens, nor than in proportion to what it takes alone.
func TestBatchBeyondWhatWasMeasured(t *testing.T) {
	law := func(tokens float64) time.Duration { return time.Duration(1e6*tokens + 500*tokens*tokens) }
	var s profile.PrefillSurface
	for _, isl := range []int{100, 200, 400, 700, 1000} {
		d := law(float64(isl))
		s.Samples = append(s.Samples, profile.PrefillSample{ISL: isl, TTFT: d, ThroughputPerGPU: float64(isl) / d.Seconds()})
	}
	p, err := FitPrefill(s)
	if err != nil {
		t.Fatal(err)
	}
	p, err = p.WithBatched(profile.BatchedPrefill{MaxBatchedTokens: 2048, Samples: []profile.BatchedSample{
		{ISL: 100, K: 6, TTFT: 6 * law(100), ThroughputPerGPU: 100 / law(100).Seconds()},
	}})
	if err != nil {
		t.Fatal(err)
	}
	for _, isl := range []float64{100, 300, 1000} {
		b, ok := p.Batch(isl)
		if one := p.ThroughputPerGPU(isl).Value; !ok || math.Abs(b.ThroughputPerGPU/one-1) > 0.02 {
			t.Errorf("ISL %g: %g tokens/s/GPU at once, %g one at a time", isl, b.ThroughputPerGPU, one)
		}
	}
	p, b := kneed(t)
	if p, err = p.WithBatched(b); err != nil {
		t.Fatal(err)
	}
	at := func(isl float64) float64 { b, _ := p.Batch(isl); return float64(b.More) }
	if got := at(3200) / at(1600); math.Abs(got-2) > 0.01 {
		t.Errorf("a further prompt of twice the tokens adds %.3f times as much, want twice", got)
	}
}

// A profile of one prompt at a time is doubted at lengths that share much of a step,
// and only there; one that measured more is not.
func TestShortPromptsAreDoubted(t *testing.T) {
	p, b := kneed(t)
	for _, isl := range []float64{120, 250} { // of 250 two are more than the knee, and share 5 of 10 ms
		if ws := p.Short(isl); len(ws) != 1 || ws[0].Code != "prefill_one_at_a_time" {
			t.Errorf("short: %v", ws)
		}
	}
	if ws := p.Short(3000); len(ws) != 0 {
		t.Errorf("long: %v", ws)
	}
	p, err := p.WithBatched(b)
	if err != nil || len(p.Short(120)) != 0 {
		t.Errorf("%v, %v", p.Short(120), err)
	}
	b.Samples[0].K = 1
	if _, err := p.WithBatched(b); err == nil {
		t.Error("one prompt is a batch")
	}
}
