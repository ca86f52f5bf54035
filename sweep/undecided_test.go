package sweep

import (
	"slices"
	"strings"
	"testing"
	"time"

	"plimsoll/profile"
)

// Above what the client can send nothing is known of the engine: the search looks
// below, keeps what held there, and says that the rest is undecided.
func TestAggregatedClientIsTheBottleneck(t *testing.T) {
	search := func(l law) Result {
		b := newLab(map[string]law{"TP:2": affine(2), "TP:4": l})
		o := openOptions(b, Aggregated, 2, 4)
		o.Open.Verify, o.Open.Longest = false, 20*time.Second
		res, _, err := run(t, b, o, Known{})
		if err != nil {
			t.Fatal(err)
		}
		return res
	}
	held := func(res Result) (rate float64) {
		for _, c := range res.Aggregated.All {
			if c.Feasible && c.Label() == "TP:4" {
				rate = max(rate, c.Point.Rate)
			}
		}
		return rate
	}
	l := affine(4)
	free := search(l)
	l.busyAbove = held(free) / 3
	bound := search(l)
	if got := held(bound); got <= l.busyAbove/2 || got > l.busyAbove*1.2 {
		t.Errorf("TP:4 holds %.4g requests/s where the client sends %.4g, %.4g where it sends all", got, l.busyAbove, held(free))
	}
	if got := messageOf(bound.Aggregated.Warnings, "undecided_rate"); !strings.HasPrefix(got, "aggregated: TP:4 may be better than shown. Whether it holds ") || !strings.HasSuffix(got, "the client was the bottleneck: no processor time") {
		t.Errorf("said: %q", got)
	}
	l.busyAbove = 1e-9 // nothing but one at a time
	none := search(l)
	if c := none.Aggregated; c.Picked.Label() != "TP:2" || held(none) != 0 || !strings.HasPrefix(messageOf(c.Warnings, "undecided_rate"), "aggregated: TP:4 may be better than shown. Whether it holds ") {
		t.Errorf("picked %s, warnings %v", c.Picked.Label(), c.Warnings)
	}
}

// Too few requests for the percentile decide nothing: of a higher rate there are more
// in the same time. Before the fix the search went down from there, and found nothing.
func TestAggregatedTooFewIsNoMiss(t *testing.T) {
	b := newLab(map[string]law{"TP:4": affine(4)})
	o := openOptions(b, Aggregated, 4)
	o.SLA.Stat, o.Expect, o.Open.Longest = profile.P90, nil, 80*time.Second // where the search begins, too few requests come in that
	res, _, err := run(t, b, o, Known{})
	if err != nil {
		t.Fatal(err)
	}
	few := slices.ContainsFunc(res.Points, func(p profile.Point) bool { return p.Rate > 0 && p.Load.Few(p.Phase, o.SLA) })
	if c := res.Aggregated; !few || !c.Feasible || c.Picked.RPS < 2 {
		t.Errorf("some had too few: %v; picked %.4g requests/s: %s", few, c.Picked.RPS, c.Why)
	}
	o.SLA.Stat, o.Open.Longest = profile.P99, time.Second // in which nothing can be judged
	o.Open.Verify = false
	res, _, err = run(t, newLab(b.laws), o, Known{})
	if c := res.Aggregated; err != nil || c.Feasible || !slices.Contains(codes(c.Warnings), "undecided_rate") {
		t.Errorf("%v: picked %.4g requests/s, warnings %v", err, c.Picked.RPS, c.Warnings)
	}
}

// Beyond what the client can send an in-flight count is no miss of the engine: nothing
// is said to be better than a configuration whose boundary nobody saw.
func TestDecodeClientIsTheBottleneck(t *testing.T) {
	const from = 20
	laws := three()
	l := laws["TP:1"]
	l.busyFrom = from
	laws["TP:1"] = l
	b := newLab(laws)
	free, _, err := run(t, newLab(three()), options(b, 1, 2), Known{})
	if err != nil || free.Decode.Picked.Label() != "TP:1" || free.Decode.Picked.Point.Asked <= from {
		t.Fatalf("%v: picked %s at %d in flight where the client keeps up: this shows nothing", err, free.Decode.Picked.Label(), free.Decode.Picked.Point.Asked)
	}
	res, _, err := run(t, b, options(b, 1, 2), Known{})
	if err != nil {
		t.Fatal(err)
	}
	best := 0
	for _, c := range res.Decode.All {
		if c.Feasible && c.Label() == "TP:1" {
			best = max(best, c.Point.Asked)
		}
	}
	if best != from-1 {
		t.Errorf("TP:1 was seen to hold %d in flight where the client sends %d", best, from-1)
	}
	want := "decode: TP:1 may be better than shown. Whether it meets the SLA at 20 in flight is undecided: the client was the bottleneck: no processor time"
	if got := messageOf(res.Decode.Warnings, "undecided_count"); got != want {
		t.Errorf("said: %q", got)
	}
	if why := res.Decode.Why; res.Decode.Picked.Label() != "TP:2" || strings.Contains(why, "over TP:1") || !strings.Contains(why, "; TP:1 may do better (undecided)") {
		t.Errorf("picked %s: %s", res.Decode.Picked.Label(), why)
	}
}

// The grid says which count says nothing.
func TestGridClientIsTheBottleneck(t *testing.T) {
	laws := three()
	l := laws["TP:1"]
	l.busyFrom = 64
	laws["TP:1"] = l
	b := newLab(laws)
	o := options(b, 1)
	o.Search, o.DecodeGranularity = Grid, 2
	res, _, err := run(t, b, o, Known{})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(codes(res.Decode.Warnings), "undecided_count") {
		t.Errorf("warnings %v", res.Decode.Warnings)
	}
}
