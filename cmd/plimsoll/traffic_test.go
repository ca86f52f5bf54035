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
