package main

import (
	"math"
	"strings"
	"testing"
	"time"

	"plimsoll/profile"
	"plimsoll/profile/store"
	"plimsoll/recommend"
	"plimsoll/sweep"
)

// What a pick attained is shown by the statistic that its SLA was held against.
func TestAttainedLinePerRequest(t *testing.T) {
	share := 1.0
	a := &store.Attained{
		Holds: true, Within: 1, WithinITL: &share, Requests: 400,
		ITL: &store.Percentiles{P99: 28.8}, TPOT: &store.Percentiles{P99: 23.5},
	}
	if got, want := attainedLine(profile.Decode, "TP:1", a, store.SLA{Stat: profile.P99}), "ITL p99 23.50 ms"; !strings.Contains(got, want) {
		t.Errorf("%q: want %q", got, want)
	}
}

// Aggregated mode has one search, and expects the cost of no other.
func TestSearchCostsAggregated(t *testing.T) {
	so := sweep.Options{Search: sweep.Adaptive}
	if _, other := searchCosts(so); other == nil || other.Search != sweep.Grid {
		t.Errorf("disaggregated: %+v", other)
	}
	so.Open.Mode = sweep.Aggregated
	if _, other := searchCosts(so); other != nil {
		t.Errorf("aggregated: %+v", other)
	}
}

// The share of a few requests is shown with its interval, and a figure that could
// as well have been on the other side of its limit as undecided.
func TestAttainedLineInterval(t *testing.T) {
	v := sweep.Verification{Phase: profile.Prefill, Asked: 12, Rate: 12, Point: profile.Point{ID: "x", Rate: 12, Load: &profile.Attainment{
		Requests: 51, WithinTTFT: 35, InTTFT: profile.Interval{Low: 0.55, High: 0.8},
		TTFT: profile.Distribution{N: 51, Mean: 157 * time.Millisecond, Half: 49 * time.Millisecond},
	}}}
	for limit, undecided := range map[time.Duration]bool{200 * time.Millisecond: true, 300 * time.Millisecond: false} {
		sla := profile.SLA{TTFT: limit, Stat: profile.Mean}
		a := attainedOf(v, "", sla)
		got := attainedLine(profile.Prefill, "TP:1", a, store.NewSLA(sla))
		if !strings.Contains(got, "68.6 % (55.0 to 80.0) of 51 requests") || strings.HasSuffix(got, ", undecided") != undecided || a.Undecided != undecided {
			t.Errorf("limit %v: %s", limit, got)
		}
	}
}

// A load that is too short for an interval is said to be so, not shown as certain.
func TestAttainedLineTooShort(t *testing.T) {
	v := sweep.Verification{Phase: profile.Prefill, Asked: 12, Rate: 12, Point: profile.Point{ID: "x", Rate: 12, Load: &profile.Attainment{
		Requests: 50, WithinTTFT: 35, TTFT: profile.Distribution{N: 50, Mean: 15 * time.Millisecond},
	}}}
	sla := profile.SLA{TTFT: time.Second, Stat: profile.Mean}
	got := attainedLine(profile.Prefill, "TP:1", attainedOf(v, "", sla), store.NewSLA(sla))
	if !strings.Contains(got, "70.0 % of 50 requests") || !strings.HasSuffix(got, "mean 15.00 ms, undecided: too short to say") {
		t.Error(got)
	}
}

// An aggregated pick whose rate was lowered has the figures and the thresholds of that
// rate; one that no load was seen to hold has those of its search, and no rate: the load
// that it missed was stopped early, and its zeros would be a margin of 1.
func TestAggregatedPickUnderLoad(t *testing.T) {
	ms := time.Millisecond
	load := func(rate, kv float64, ttft, itl time.Duration) profile.Point {
		return profile.Point{
			ID: "p", Phase: profile.Aggregated, Rate: rate, KVUsage: kv, InFlight: 10 * kv, ThroughputPerGPU: 100 * rate,
			Load: &profile.Attainment{Requests: 100, TTFT: profile.Distribution{N: 100, Mean: ttft}, TPOT: profile.Distribution{N: 100, Mean: itl}},
		}
	}
	sla := profile.SLA{TTFT: 100 * ms, ITL: 10 * ms, Stat: profile.Mean}
	stopped := load(3, 0, 0, 0)
	stopped.Load.Stopped = "certain to miss"
	for name, c := range map[string]struct {
		verified sweep.Verification
		rps      float64
		margin   float64
		upper    float64 // of the use of the KV cache
	}{
		"held":      {sweep.Verification{Asked: 4, Rate: 4, Point: load(4, 0.6, 80*ms, 9*ms)}, 4, 0.1, 0.8},
		"corrected": {sweep.Verification{Asked: 4, Rate: 2, Point: load(2, 0.3, 60*ms, 6*ms)}, 2, 0.4, 0.5},
		"missed":    {sweep.Verification{Asked: 4, Point: stopped}, 0, 0.2, 0.7},
	} {
		c.verified.Phase = profile.Aggregated
		res := sweep.Result{Verified: []sweep.Verification{c.verified}, Aggregated: recommend.Choice{Phase: profile.Aggregated, Feasible: true, Picked: recommend.Candidate{Point: load(4, 0.5, 75*ms, 8*ms), RPS: 4}}}
		rec := (&job{opts: profileOptions{sla: sla, mode: sweep.Aggregated}}).recommendation(res, sweep.Options{SLA: sla})
		pick := rec.Aggregated
		if pick.SustainedRPS != c.rps || math.Abs(pick.Margin-c.margin) > 1e-9 || pick.TTFTMillis <= 0 || pick.ThroughputPerGPU <= 0 {
			t.Errorf("%s: %+v", name, pick)
		}
		if got := rec.Thresholds.DecodeKVUtilization.Upper; math.Abs(got-c.upper) > 1e-9 {
			t.Errorf("%s: bounds of the use of the KV cache up to %.3f, want %.3f", name, got, c.upper)
		}
		if rec.Feasible != (c.rps > 0) {
			t.Errorf("%s: feasible %v", name, rec.Feasible)
		}
	}
}

// The use of the KV cache at the rate of a load of longer requests is that of as many
// as were in flight there, and as long.
func TestDecodeUseOfOtherLengths(t *testing.T) {
	res := sweep.Result{Decode: recommend.Choice{Picked: recommend.Candidate{Point: profile.Point{InFlight: 10, KVUsage: 0.1, Context: 1000}}}}
	for context, want := range map[float64]float64{0: 0.2, 1000: 0.2, 2500: 0.5, 90_000: 1} {
		res.Verified = []sweep.Verification{{Phase: profile.Decode, Rate: 1, Point: profile.Point{InFlight: 20, Context: context}}}
		if got := decodeUse(res); math.Abs(got-want) > 1e-9 {
			t.Errorf("a mean context of %g tokens: %g of the KV cache, want %g", context, got, want)
		}
	}
}

// Requests that wait for a place hold no KV cache.
func TestDecodeUseCountsNoneThatWait(t *testing.T) {
	picked := profile.Point{InFlight: 64, KVUsage: 0.43, MaxSeqs: 64}
	res := sweep.Result{
		Decode:   recommend.Choice{Picked: recommend.Candidate{Point: picked, Together: 60}},
		Verified: []sweep.Verification{{Phase: profile.Decode, Rate: 20, Point: profile.Point{InFlight: 72.3, MaxSeqs: 64}}},
	}
	if got := decodeUse(res); got != 0.43 {
		t.Errorf("%g of the KV cache in use by the 64 that run", got)
	}
	res.Verified[0].Point.InFlight = 32
	if got := decodeUse(res); got != 0.215 {
		t.Errorf("%g of the KV cache in use by 32", got)
	}
}
