package recommend

import (
	"strings"
	"testing"
	"time"

	"plimsoll/profile"
)

// failingLoad is a load whose latencies hold, with so many failures.
func failingLoad(rate float64, failures, n int) profile.Point {
	p := loaded(1, rate, 100*ms, 10*ms, 1300)
	p.Load.Requests, p.Load.Failures = n, failures
	p.Requests, p.Failures = n, failures
	d := profile.Distribution{N: n - failures, Mean: 100 * ms, P50: 100 * ms, P95: 100 * ms, Neff: float64(n)}
	p.Load.TTFT, p.Load.WithinTTFT = d, d.N
	d.Mean, d.P50, d.P95 = 10*ms, 10*ms, 10*ms
	p.Load.TPOT, p.Load.WithinITL = d, d.N
	return p
}

// More failures than are allowed, though too few to be sure, hold at no rate; one does, and
// so do those of a higher rate where that explains them.
func TestFailuresOfAllLoads(t *testing.T) {
	s := profile.SLA{TTFT: 200 * ms, ITL: 20 * ms, Stat: profile.P95, MaxFailures: 0.01}
	for name, c := range map[string]struct {
		loads []profile.Point
		least float64 // AtLeast, not below; 0 = no rate holds
		most  float64 // AtLeast, not above
	}{
		"none":                    {[]profile.Point{failingLoad(5, 0, 235)}, 3, 5},
		"one":                     {[]profile.Point{failingLoad(5, 1, 75)}, 2, 5},
		"three of 235":            {[]profile.Point{failingLoad(5, 3, 235)}, 0, 0},
		"one each of two":         {[]profile.Point{failingLoad(5, 1, 75), failingLoad(5.2, 1, 75)}, 0, 0},
		"none below, few above":   {[]profile.Point{failingLoad(4, 0, 75), failingLoad(5, 5, 235)}, 0, 0},
		"none below, a lot above": {[]profile.Point{failingLoad(4, 0, 235), failingLoad(5, 30, 235)}, 2, 4},
	} {
		b := HighestRate(c.loads, s)
		if b.AtLeast < c.least || b.AtLeast > c.most || (b.AtLeast == 0) != (b.Failures > 0) {
			t.Errorf("%s: %+v", name, b)
		}
	}

	// Prefill and decode alike.
	p := profile.Point{Phase: profile.Prefill, Requests: 100, Failures: 3, ThroughputPerGPU: 1, TTFT: profile.Distribution{N: 97, Mean: 100 * ms}}
	s.Stat = profile.Mean
	ch, err := Choose(profile.Prefill, []profile.Point{p}, s, BySingle, 1)
	if err == nil || len(ch.Rejected) != 1 || ch.Rejected[0].Reason != "3 of 100 requests failed: more than the 1 % allowed, but too few to be sure" {
		t.Errorf("%v, %+v", err, ch.Rejected)
	}
	if p.Failures = 1; p.Untold(s) != "" || !p.Meets(s) {
		t.Error("one failure decides")
	}
}

// The figures of a load stand for a rate near its own. Otherwise the pick says what the load
// had, and in flight is what the rate makes of it.
func TestFiguresOfAnotherRate(t *testing.T) {
	s := profile.SLA{TTFT: 200 * ms, ITL: 20 * ms, Stat: profile.P95}
	alone, burst := failingLoad(0, 0, 7), failingLoad(0, 0, 100)
	burst.Batch, burst.Asked = 64, 64
	for _, p := range []*profile.Point{&alone, &burst} {
		p.Load.LimitTTFT, p.Load.LimitITL = s.TTFT, s.ITL
		p.Load.E2E = profile.Distribution{N: 7, Mean: time.Second, Max: time.Second, Min: time.Second}
	}
	burst.Load.Achieved, burst.Load.InFlight = 10, 64
	load := failingLoad(9, 0, 245)
	load.Load.TTFT.P95, load.Load.WithinTTFT, load.InFlight = 305*ms, 220, 12
	ch, err := ChooseAggregated([]profile.Point{alone, burst, load}, s)
	if err != nil || !ch.Feasible || ch.Picked.RPS > 0.8*9 {
		t.Fatalf("%v: %+v", err, ch.Picked)
	}
	if ch.Picked.Margin != 0 || ch.Picked.Point.InFlight > 12*ch.Picked.RPS/9+1e-9 || !strings.Contains(ch.Why, "at 9, p95 TTFT was 305 ms and ITL 10 ms") {
		t.Errorf("%q, margin %g, %g in flight", ch.Why, ch.Picked.Margin, ch.Picked.Point.InFlight)
	}
}

// A search that ended after requests one at a time, which hold, has ruled nothing out.
func TestAloneIsUndecided(t *testing.T) {
	s := profile.SLA{TTFT: 200 * ms, ITL: 20 * ms, Stat: profile.P95}
	ch, err := ChooseAggregated([]profile.Point{failingLoad(0, 0, 7)}, s)
	if err != nil || ch.Feasible || !ch.Open(s) || !strings.HasPrefix(ch.Why, "undecided: too few requests") {
		t.Errorf("%v: open %v, %q", err, ch.Open(s), ch.Why)
	}
	s.TTFT = 50 * ms
	if ch, err = ChooseAggregated([]profile.Point{failingLoad(0, 0, 7)}, s); err != nil || ch.Open(s) {
		t.Errorf("%v: open %v, %q", err, ch.Open(s), ch.Why)
	}
}
