package recommend

import (
	"slices"
	"strings"
	"testing"
	"time"

	"plimsoll/profile"
)

// surely makes a load one whose intervals leave no doubt.
func surely(p profile.Point) profile.Point {
	p.Load.TTFT.Neff, p.Load.TPOT.Neff = 90, 50
	return p
}

// What a load says nothing of is neither held nor missed: it is no end of the pick's
// interval, leaves nobody out, and is said where it might change the choice.
func TestChooseAggregatedUntold(t *testing.T) {
	s := sla(200*ms, 20*ms)
	busy := loaded(2, 3, 100*ms, 15*ms, 450)
	busy.Invalid = "the client was the bottleneck"
	few := loaded(1, 3, 100*ms, 15*ms, 450)
	few.Load.Requests = 2
	late := loaded(1, 4, 300*ms, 15*ms, 600)
	for name, c := range map[string]struct {
		points []profile.Point
		want   []string
		upTo   float64
	}{
		"all is sure":                  {[]profile.Point{surely(loaded(1, 2, 100*ms, 15*ms, 300)), late}, nil, 600},
		"between held and missed":      {[]profile.Point{surely(loaded(1, 2, 100*ms, 15*ms, 300)), few, late}, []string{"aggregated: TP:1 may be better than shown. Whether it holds 3 requests/s is undecided"}, 600},
		"below what holds":             {[]profile.Point{few, surely(loaded(1, 3.5, 100*ms, 15*ms, 300)), late}, nil, 300 * 4 / 3.5},
		"above what misses":            {[]profile.Point{surely(loaded(1, 1, 100*ms, 15*ms, 150)), loaded(1, 2, 300*ms, 15*ms, 300), few}, nil, 300},
		"of another, none of it held":  {[]profile.Point{surely(loaded(1, 2, 100*ms, 15*ms, 300)), loaded(2, 0, 50*ms, 5*ms, 60), busy}, []string{"aggregated: TP:2 may be better than shown. Whether it holds 3 requests/s is undecided: the client was the bottleneck"}, 0},
		"the pick's has no interval":   {[]profile.Point{loaded(1, 2, 100*ms, 15*ms, 300), late}, []string{"aggregated: the pick TP:1 at 2 requests/s is too close to the SLA to call (100 requests, too correlated"}, 600},
		"one without an interval wins": {[]profile.Point{surely(loaded(1, 1, 100*ms, 15*ms, 150)), loaded(1, 2, 100*ms, 15*ms, 300), late}, []string{"aggregated: the pick TP:1 at 2 requests/s is too close to the SLA to call"}, 600},
	} {
		ch, err := ChooseAggregated(c.points, s)
		if err != nil || !ch.Feasible || ch.Picked.Label() != "TP:1" {
			t.Errorf("%s: %v, picked %+v", name, err, ch.Picked)
		}
		var got []string
		for _, w := range ch.Warnings {
			if w.Code == undecidedRate {
				got = append(got, w.Message)
			}
		}
		if !slices.EqualFunc(got, c.want, strings.HasPrefix) {
			t.Errorf("%s: said %q, want %q", name, got, c.want)
		}
		if i := ch.Picked.Point.Throughput95; i.High != c.upTo {
			t.Errorf("%s: throughput up to %.4g, want %.4g", name, i.High, c.upTo)
		}
	}
}

// The same of requests in flight: nothing is said to lead what was not decided.
func TestChooseUntold(t *testing.T) {
	point := func(tp, n int, itl time.Duration, invalid string) profile.Point {
		p := decode(tp, float64(n), itl)
		p.Asked, p.Invalid = n, invalid
		return p
	}
	const busy = "the client was the bottleneck"
	for name, c := range map[string]struct {
		points []profile.Point
		why    string
		want   []string
	}{
		"all is told": {[]profile.Point{point(2, 40, 10*ms, ""), point(1, 10, 10*ms, ""), point(1, 20, 30*ms, "")}, "best measured throughput per GPU (+100 % over TP:1)", nil},
		"above what holds": {
			[]profile.Point{point(2, 40, 10*ms, ""), point(1, 10, 10*ms, ""), point(1, 20, 30*ms, busy)},
			"best measured throughput per GPU seen; TP:1 may do better (undecided)",
			[]string{"decode: TP:1 may be better than shown. Whether it meets the SLA at 20 in flight is undecided: " + busy},
		},
		"a third is told": {
			[]profile.Point{point(2, 40, 10*ms, ""), point(1, 10, 10*ms, busy), point(4, 40, 10*ms, "")},
			"best measured throughput per GPU (+100 % over TP:4); TP:1 may do better (undecided)",
			[]string{"decode: TP:1 may be better than shown. Whether it meets the SLA at 10 in flight is undecided"},
		},
		"above what misses": {[]profile.Point{point(2, 40, 10*ms, ""), point(1, 10, 30*ms, ""), point(1, 20, 30*ms, busy)}, "the only one measured that meets the SLA", nil},
		"of the pick":       {[]profile.Point{point(2, 40, 10*ms, ""), point(2, 80, 10*ms, busy)}, "the only one measured that meets the SLA", []string{"decode: TP:2 may be better than shown. Whether it meets the SLA at 80 in flight is undecided"}},
	} {
		ch := choose(t, profile.Decode, sla(200*ms, 20*ms), BySingle, c.points...)
		var got []string
		for _, w := range ch.Warnings {
			if w.Code == undecidedCount {
				got = append(got, w.Message)
			}
		}
		if ch.Picked.Label() != "TP:2" || ch.Why != c.why || !slices.EqualFunc(got, c.want, strings.HasPrefix) {
			t.Errorf("%s: picked %s: %s; said %q", name, ch.Picked.Label(), ch.Why, got)
		}
	}
}
