package fleet

import (
	"math/rand/v2"
	"slices"
	"testing"

	"plimsoll/engine"
	"plimsoll/engine/sim"
	"plimsoll/profile"
)

// codes are those of a report's warnings.
func codes(r Report) []string {
	var cs []string
	for _, w := range r.Warnings {
		cs = append(cs, w.Code)
	}
	return cs
}

// TestSeriesAgainstOutcomes computes every bin again from the requests.
func TestSeriesAgainstOutcomes(t *testing.T) {
	for _, n := range []int{10, 500, 5000} {
		var outcomes []Outcome
		f, err := New(Config{
			Bins: 20,
			Done: func(o Outcome) { outcomes = append(outcomes, o) },
			Pools: []Pool{{
				Engine:   sim.Config{Limits: engine.Limits{MaxNumSeqs: 3}, KVBlocks: 1000},
				Timer:    affine{base: engine.Millisecond, token: 10 * engine.Microsecond, context: 100 * engine.Nanosecond},
				Replicas: 2,
			}},
		})
		if err != nil {
			t.Fatal(err)
		}
		rng := rand.New(rand.NewPCG(1, 1))
		at := engine.Picoseconds(0)
		for range n {
			at += engine.FromSeconds(rng.ExpFloat64() / 100)
			if err := f.Offer(Request{At: at, ISL: 1 + rng.IntN(500), OSL: 1 + rng.IntN(80)}); err != nil {
				t.Fatal(err)
			}
		}
		if err := f.Finish(Forever); err != nil {
			t.Fatal(err)
		}
		bins := f.Report().Series
		if len(bins) < 9 || len(bins) > 21 || bins[0].From != 0 || bins[len(bins)-1].To != f.Now() {
			t.Fatalf("%d requests: %d bins from %d to %d", n, len(bins), bins[0].From, bins[len(bins)-1].To)
		}
		for i, b := range bins {
			if i > 0 && b.From != bins[i-1].To {
				t.Fatalf("bin %d begins at %d, the one before ends at %d", i, b.From, bins[i-1].To)
			}
			if b.KVUse < 0 || b.KVUse > 1 || (b.KVUse > 0) != (b.Running > 0) {
				t.Fatalf("bin %d: KV use %v with %v running", i, b.KVUse, b.Running)
			}
			last := i == len(bins)-1
			b.KVUse = 0
			if want := binOf(outcomes, b.From, b.To, last); !sameBin(b, want) {
				t.Fatalf("%d requests: bin %d is\n%+v, want\n%+v", n, i, b, want)
			}
		}
	}
}

func sameBin(a, b Bin) bool {
	waiting, running := near("", a.Waiting, b.Waiting, 1e-9), near("", a.Running, b.Running, 1e-9)
	a.Waiting, a.Running = b.Waiting, b.Running
	return a == b && waiting == nil && running == nil
}

// binOf is a bin from what is known of each request.
func binOf(outcomes []Outcome, from, to engine.Picoseconds, last bool) Bin {
	in := func(at engine.Picoseconds) bool { return at >= from && (at < to || last && at == to) }
	within := func(a, b engine.Picoseconds) float64 { return float64(max(0, min(b, to)-max(a, from))) }
	b := Bin{From: from, To: to}
	var sum float64
	for _, o := range outcomes {
		if in(o.At) {
			b.Arrivals++
		}
		if in(o.Last) {
			b.Finished++
		}
		if in(o.First) {
			b.FirstTokens++
			sum += float64(o.TTFT())
			b.TTFTMax = max(b.TTFTMax, o.TTFT())
		}
		b.Waiting += within(o.At, o.started) / float64(to-from)
		b.Running += within(o.started, o.Last) / float64(to-from)
	}
	if b.FirstTokens > 0 {
		b.TTFTMean = engine.Picoseconds(sum/float64(b.FirstTokens) + 0.5)
	}
	return b
}

func TestSaturationIsSaid(t *testing.T) {
	for _, c := range []struct {
		rho  float64
		n    int
		want bool
	}{{0.5, 5000, false}, {0.8, 5000, false}, {0.9, 20_000, false}, {1.2, 5000, true}, {1.5, 1000, true}} {
		r := queue(t, 1, RoundRobin, perToken(), c.rho, c.n, oneToken)
		if got := slices.Contains(codes(r), "saturated"); got != c.want {
			t.Errorf("ρ = %v over %d requests: warnings %v", c.rho, c.n, r.Warnings)
		}
	}
}

func TestMissesAreCounted(t *testing.T) {
	p := Pool{Engine: sim.Config{KVBlocks: 10}, Timer: steady(engine.Second), Replicas: 2}
	f, err := New(Config{
		Pools: []Pool{p}, Provenance: profile.Estimated,
		SLA: profile.SLA{TTFT: (2 * engine.Second).Duration()},
	})
	if err != nil {
		t.Fatal(err)
	}
	offerAll(t, f,
		Request{At: 0, ISL: 10, OSL: 2},               // replica 0: 2 s
		Request{At: 0, ISL: 10, OSL: 2},               // replica 1: lost
		Request{At: 0, ISL: 150, OSL: 20},             // too long
		Request{At: engine.Second, ISL: 10, OSL: 100}, // replica 0, unfinished
	)
	if err := f.Fail(1, engine.Second); err != nil {
		t.Fatal(err)
	}
	if a := f.Report().Attainment; a.Requests != 2 || a.Both != 0 {
		t.Errorf("attainment after 1 s: %+v", a)
	}
	if err := f.Finish(10 * engine.Second); err != nil {
		t.Fatal(err)
	}
	r := f.Report()
	want := Attainment{Requests: 4, TTFT: 0.25, ITL: 0.25, Both: 0.25}
	if r.Attainment != want || r.Provenance != profile.Estimated {
		t.Errorf("attainment %+v, want %+v; provenance %v", r.Attainment, want, r.Provenance)
	}
	if !slices.Equal(codes(r), []string{"unfinished", "rejected", "lost"}) {
		t.Errorf("warnings %v", r.Warnings)
	}
	if r.GoodRequests != 0.1 || r.GoodTokens != 0.2 || r.GPUSeconds != 11 {
		t.Errorf("goodput %v requests/s and %v tokens/s, %v GPU s", r.GoodRequests, r.GoodTokens, r.GPUSeconds)
	}
}

func offerAll(t *testing.T, f *Fleet, rs ...Request) {
	t.Helper()
	for _, r := range rs {
		if err := f.Offer(r); err != nil {
			t.Fatal(err)
		}
	}
}

// The ITL attained is that of requests, each by its mean: one gap above it breaks nothing.
func TestAttainmentOfITLIsOfRequests(t *testing.T) {
	f, err := New(Config{
		Pools: []Pool{{Engine: sim.Config{KVBlocks: 100}, Timer: affine{base: engine.Second, token: 100 * engine.Millisecond}, Replicas: 1}}, Provenance: profile.Estimated,
		SLA: profile.SLA{ITL: (1500 * engine.Millisecond).Duration()},
	})
	if err != nil {
		t.Fatal(err)
	}
	offerAll(t, f, Request{ISL: 10, OSL: 100}, Request{At: 10 * engine.Second, ISL: 100, OSL: 100})
	if err := f.Finish(Forever); err != nil {
		t.Fatal(err)
	}
	if r := f.Report(); r.Attainment.ITL != 1 || r.ITL.Above(int64(1500*engine.Millisecond)) == 0 {
		t.Errorf("%v attained, %v gaps above", r.Attainment.ITL, r.ITL.Above(int64(1500*engine.Millisecond)))
	}
}
