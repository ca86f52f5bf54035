package fleet

import (
	"math"
	"math/rand/v2"
	"testing"

	"plimsoll/engine"
	"plimsoll/engine/sim"
	"plimsoll/profile"
)

// batched is a run of n requests through one engine that takes them one by one, of whose time
// they fill a share, in batches.
func batched(t *testing.T, n int, share float64, seed uint64) (Batches, Report) {
	t.Helper()
	f, err := New(Config{
		SLA: profile.SLA{TTFT: engine.FromSeconds(0.05).Duration(), ITL: engine.FromSeconds(1).Duration()},
		Pools: []Pool{{
			Engine:   sim.Config{Limits: engine.Limits{MaxNumSeqs: 1}, KVBlocks: 1000},
			Timer:    affine{base: 10 * engine.Millisecond},
			Replicas: 1,
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	rng, at := rand.New(rand.NewPCG(seed, 1)), engine.Picoseconds(0)
	var b Batches
	for range n {
		at += engine.FromSeconds(rng.ExpFloat64() * 0.01 / share)
		if err := f.Offer(Request{At: at, ISL: 10, OSL: 1}); err != nil {
			t.Fatal(err)
		}
		b.Next(f)
	}
	if err := f.Finish(Forever); err != nil {
		t.Fatal(err)
	}
	return b, f.Report()
}

func ttftOf(v Interval) Sketch { return v.TTFT }

// Nine of ten intervals hold what a long run shows. Those of a short run near saturation do
// not claim to know the upper end.
func TestBatchesHoldTheTruth(t *testing.T) {
	const runs = 40
	for share, most := range map[float64]int{0.5: 2, 0.9: runs} {
		_, long := batched(t, 300_000, share, 999)
		truth := float64(long.TTFT.Quantile(0.99))
		held, met, open := 0, 0, 0
		for seed := range uint64(runs) {
			b, r := batched(t, 6000, share, seed)
			in := b.P99(r.TTFT, ttftOf)
			if in.Low > float64(r.TTFT.Quantile(0.99)) || !in.Open && in.High < float64(r.TTFT.Quantile(0.99)) {
				t.Errorf("the run's own p99 is outside %+v", in)
			}
			if truth >= in.Low && (in.Open || truth <= in.High) {
				held++
			}
			if in.Open {
				open++
			}
			if m := b.Met(r.Attainment.TTFT, func(v Interval) int64 { return v.MetTTFT }); long.Attainment.TTFT >= m.Low && long.Attainment.TTFT <= m.High {
				met++
			}
		}
		if held < runs*17/20 || met < runs*17/20 || open > most {
			t.Errorf("at %v: %d p99s and %d shares of %d hold, %d are open", share, held, met, runs, open)
		}
	}
	b, r := batched(t, 2000, 0.97, 5)
	if in := b.P99(r.TTFT, ttftOf); !in.Open || in.High != 0 || in.Times <= 1 {
		t.Errorf("2,000 requests at 0.97: %+v", in)
	}
	b, r = batched(t, 10, 0.5, 5)
	if in, m := b.P99(r.TTFT, ttftOf), b.Met(1, func(v Interval) int64 { return v.MetTTFT }); !in.Open || m.Low != 0 || m.High != 1 {
		t.Errorf("10 requests: %+v, %+v", in, m)
	}
}

// Batches add up to the run, but for those that are under way at the end.
func TestBatchesAreTheRun(t *testing.T) {
	b, r := batched(t, 1024, 0.5, 3)
	var all Interval
	for i, v := range b.of {
		if i > 0 && v.From != b.of[i-1].To {
			t.Errorf("batch %d begins at %d", i, v.From)
		}
		all = all.and(v)
	}
	if len(b.of) < mostBatches/2 || all.Arrivals != 1024 || math.Abs(float64(all.TTFT.Count()-r.TTFT.Count())) > 20 || all.MetTTFT > int64(r.Attainment.TTFT*1024+0.5) {
		t.Errorf("%d batches: %+v", len(b.of), all)
	}
}
