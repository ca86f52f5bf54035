package main

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"plimsoll/engine"
	"plimsoll/profile/trace"
	"plimsoll/sweep"

	"gonum.org/v1/gonum/stat"
)

// Requests that a user gives are for verifying the picks, wherever that is not
// refused in words.
func TestGivenTrafficIsPlayed(t *testing.T) {
	for _, kind := range []engine.Kind{engine.KindEndpoint, engine.KindSim, engine.KindVLLM} {
		for _, search := range []sweep.Search{sweep.Adaptive, sweep.Grid} {
			o := profileOptions{verify: "auto", search: search, mode: sweep.Disaggregated}
			if got, want := o.verifies(kind), search == sweep.Adaptive && kind != engine.KindEndpoint; got != want {
				t.Errorf("%s, %s: verified %v", kind, search, got)
			}
			for _, with := range []func(*profileOptions){
				func(o *profileOptions) { o.trace = "t.csv" }, func(o *profileOptions) { o.dataset = "d.jsonl" },
			} {
				given := o
				if with(&given); !given.verifies(kind) {
					t.Errorf("%s, %s: %s%s is not played", kind, search, given.trace, given.dataset)
				}
			}
		}
	}
}

// A trace that is calm at first and then nine times as busy: any part of it comes at
// the rate that was asked for, and another seed is another part.
func TestTraceLoadComesAtItsRate(t *testing.T) {
	tr := traffic{isl: 1, osl: 1}
	at := time.Duration(0)
	for i := range 8000 {
		tr.arrivals = append(tr.arrivals, trace.Arrival{At: at, ISL: i + 1, OSL: 1})
		gap := time.Second
		if i >= 2000 {
			gap /= 9
		}
		at += gap
	}
	tr.mean = at / 8000
	var begins []int
	for seed := range uint64(20) {
		asks, err := tr.asks(20, 500, seed)
		if err != nil {
			t.Fatal(err)
		}
		if got := 499 / asks[499].Due.Seconds(); math.Abs(got/20-1) > 0.03 {
			t.Errorf("seed %d: %.2f requests/s, asked for 20", seed, got)
		}
		begins = append(begins, asks[0].ISL)
	}
	slices.Sort(begins)
	if begins[19]-begins[0] < 2000 || len(slices.Compact(begins)) < 15 {
		t.Errorf("20 seeds begin at %v of 8000 requests", begins)
	}
	for i := range tr.arrivals {
		tr.arrivals[i].At = 0
	}
	tr.mean = 0
	if _, err := tr.asks(20, 500, 1); err == nil {
		t.Error("requests at one instant have a rate")
	}
}

// Poisson gaps have the mean that was asked for and vary as much as it is.
func TestPoissonGaps(t *testing.T) {
	const n, rate = 200_000, 50.0
	due, err := traffic{isl: 32}.due(rate, n, 7)
	if err != nil || len(due) != n || due[0] != 0 || !slices.IsSorted(due) {
		t.Fatalf("%d instants from %v, sorted %v, %v", len(due), due[0], slices.IsSorted(due), err)
	}
	gaps := make([]float64, n-1)
	for i := range gaps {
		gaps[i] = (due[i+1] - due[i]).Seconds()
	}
	mean, std := stat.MeanStdDev(gaps, nil)
	if math.Abs(mean*rate-1) > 5/math.Sqrt(n) || math.Abs(std/mean-1) > 0.03 {
		t.Errorf("mean gap %v, want %v; variation %v", mean, 1/rate, std/mean)
	}
	for _, q := range []float64{0.1, 0.5, 0.9} { // as exponential ones
		below := 0
		for _, g := range gaps {
			if g < -math.Log(1-q)/rate {
				below++
			}
		}
		if got := float64(below) / (n - 1); math.Abs(got-q) > 0.01 {
			t.Errorf("fraction of gaps below the %v quantile: %v", q, got)
		}
	}
}

// Poisson arrivals are a function of seed and length, and a longer load begins like
// a shorter one; no rate is out of reach of the clock.
func TestPoissonIsAFunctionOfItsSeed(t *testing.T) {
	due := func(rate float64, n int, seed uint64) []time.Duration {
		d, err := traffic{isl: 32}.due(rate, n, seed)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	a := due(3, 50, 1)
	if !slices.Equal(a, due(3, 50, 1)) || !slices.Equal(a, due(3, 51, 1)[:50]) || slices.Equal(a, due(3, 50, 2)) {
		t.Errorf("%v", a)
	}
	if got := due(1e-300, 1000, 1); !slices.IsSorted(got) || got[999] < 0 {
		t.Errorf("last instant %v", got[999])
	}
	for _, bad := range []float64{0, -1, math.NaN(), math.Inf(1)} {
		if _, err := (traffic{isl: 32}).due(bad, 1, 1); err == nil {
			t.Errorf("a rate of %v is taken", bad)
		}
	}
}

// What verifies picks of the embedded engine passes in virtual time, as long as an
// interval takes, and says so; by HTTP where it is said how long it may last, and where
// loads are what is measured.
func TestLoadsOfTheEmbeddedEngine(t *testing.T) {
	for _, c := range []struct {
		kind    engine.Kind
		with    func(*profileOptions)
		virtual bool
		longest time.Duration
	}{
		{engine.KindSim, func(*profileOptions) {}, true, 0},
		{engine.KindSim, func(o *profileOptions) { o.loadTime = 5 * time.Second }, false, 5 * time.Second},
		{engine.KindSim, func(o *profileOptions) { o.mode = sweep.Aggregated }, false, longestSim},
		{engine.KindEstimate, func(*profileOptions) {}, true, 0},
		{engine.KindEstimate, func(o *profileOptions) { o.loadTime = time.Minute }, true, time.Minute},
		{engine.KindVLLM, func(*profileOptions) {}, false, longestReal},
	} {
		o := profileOptions{verify: "auto", search: sweep.Adaptive, mode: sweep.Disaggregated}
		c.with(&o)
		l := o.openLoop(deployment{kind: c.kind})
		if l.Virtual != c.virtual || l.Longest != c.longest || !l.Verify {
			t.Errorf("%s, %+v: %+v", c.kind, o, l)
		}
		if said := strings.HasSuffix(l.Source, ", in virtual time"); said != (c.virtual && c.kind == engine.KindSim) {
			t.Errorf("%s: by %q", c.kind, l.Source)
		}
	}
}
