//go:build full

package sweep

import (
	"slices"
	"strings"
	"testing"
	"time"

	"plimsoll/profile"
)

// The few requests one at a time do not decide a percentile, and it is searched for.
func TestAggregatedPercentile(t *testing.T) {
	b := newLab(map[string]law{"TP:4": affine(4)})
	o := openOptions(b, Aggregated, 4)
	o.SLA.Stat = profile.P90
	res, _, err := run(t, b, o, Known{})
	if err != nil {
		t.Fatal(err)
	}
	if c := res.Aggregated; !c.Feasible || c.Picked.Point.Rate == 0 || len(res.Verified) != 1 {
		t.Errorf("picked %+v: %s", c.Picked.Point.ID, c.Why)
	}
}

// A load that something came between is sent whole again, and judged afresh: the
// figures are those of an undisturbed run. One that is void each time is no
// verification, and its pick stands.
func TestDisturbedLoadsAreSentAgain(t *testing.T) {
	verified := func(voids int) (Result, int) {
		l := affine(4)
		l.voids = voids
		b := newLab(map[string]law{"TP:4": l})
		res, _, err := run(t, b, openOptions(b, Aggregated, 4), Known{})
		if err != nil && voids <= 2 {
			t.Fatal(err)
		}
		return res, b.plays
	}
	whole, sent := verified(0)
	again, resent := verified(2)
	if resent != sent+2 || again.Aggregated.Picked.RPS != whole.Aggregated.Picked.RPS || again.Verified[0].Rate != whole.Verified[0].Rate {
		t.Errorf("%d loads instead of %d; picked %.4g instead of %.4g", resent, sent, again.Aggregated.Picked.RPS, whole.Aggregated.Picked.RPS)
	}
	if d := again.Discarded; len(d) != 2 || d[0].ID != again.Points[0].ID+"/attempt1" || d[1].Discarded != "the way broke" {
		t.Errorf("discarded %+v", d)
	}
	if lost, _ := verified(3); len(lost.Skips) != 1 || !strings.Contains(lost.Skips[0].Reason, "the way broke in each of 3 loads") {
		t.Errorf("skips %+v", lost.Skips)
	}
}

// Engines of one layout with other tokens in a step are candidates of their own, which
// a run that goes on does not measure again.
func TestAggregatedTellsChunksApart(t *testing.T) {
	b := newLab(three())
	o := openOptions(b, Aggregated, 2)
	chunked := o.Candidates[0]
	chunked.Chunked, chunked.Limits.MaxNumBatchedTokens = true, 512
	o.Candidates = append(o.Candidates, chunked)
	res, n, err := run(t, b, o, Known{})
	if err != nil {
		t.Fatal(err)
	}
	points := map[string]int{}
	ids := map[string]bool{}
	for _, p := range res.Points {
		points[p.Config.Label()]++
		ids[p.ID] = true
	}
	if points["TP:2"] == 0 || points["TP:2, chunk 512"] == 0 || len(points) != 2 || len(ids) != len(res.Points) || len(res.Engines) != 3 { // the third measures the surfaces
		t.Errorf("points of %v, %d ids of %d points, engines %v", points, len(ids), len(res.Points), res.Engines)
	}
	again, _, err := run(t, b, o, n.Known)
	if err != nil || len(again.Points) != len(res.Points) || again.Cost.Launches != res.Cost.Launches {
		t.Errorf("resumed: %v, %d points, %d launches", err, len(again.Points), again.Cost.Launches)
	}
}

// What few requests leave open is said: a rate that holds by these might not by others.
func TestVerifyUndecided(t *testing.T) {
	seen := map[bool]int{}
	for seed := range uint64(12) {
		b := newLab(map[string]law{"TP:2": affine(2)})
		o := openOptions(b, Disaggregated, 2)
		o.SLA.ITL = time.Second // TTFT decides
		o.SLA.TTFT = 60 * time.Millisecond
		o.Open.Requests, o.Seed = []int{60, 3000}[seed%2], seed // of 60, nothing is known
		res, _, err := run(t, b, o, Known{})
		if err != nil {
			t.Fatal(err)
		}
		v := res.Verified[0]
		d := v.Point.Load.TTFT
		open := v.Rate > 0 && (d.Neff == 0 || d.Mean+d.Half > o.SLA.TTFT)
		if got := slices.Contains(codes(res.Warnings), "undecided_under_load"); got != open {
			t.Errorf("seed %d: said to be undecided %v, holds %.4g, TTFT %v ± %v against %v", seed, got, v.Rate, d.Mean, d.Half, o.SLA.TTFT)
		}
		seen[open]++
	}
	if seen[true] == 0 || seen[false] == 0 {
		t.Errorf("undecided, and decided: %v", seen)
	}
}
