package recommend

import (
	"strings"
	"testing"
	"time"

	"plimsoll/engine"
	"plimsoll/profile"
)

// An engine that is faster under more load, beyond both intervals and by more than a
// tenth, was not what was measured before: the two points are named, the worst pair of a curve.
func TestFasterUnderMoreLoad(t *testing.T) {
	around := func(mean, half time.Duration) profile.Distribution {
		i := profile.Interval{Low: float64(mean - half), High: float64(mean + half)}
		return profile.Distribution{N: 100, Mean: mean, P95: mean, Half: half, In95: i}
	}
	at := func(rate float64, itl, half time.Duration) profile.Point {
		return profile.Point{
			Phase: profile.Aggregated, Rate: rate, Config: engine.Config{Parallelism: engine.TP(1)},
			Load: &profile.Attainment{TTFT: around(100*ms, ms), TPOT: around(itl, half)},
		}
	}
	streams := func(n float64, itl, half time.Duration) profile.Point {
		return profile.Point{Phase: profile.Decode, InFlight: n, Config: engine.Config{Parallelism: engine.TP(1)}, ITL: around(itl, half)}
	}
	estimate := at(3, 400*ms, ms)
	estimate.Provenance = profile.Estimated
	other := at(3, 400*ms, ms)
	other.Config.Parallelism = engine.TP(2)
	for name, c := range map[string]struct {
		points []profile.Point
		stat   profile.Statistic
		want   string
	}{
		"rising":             {[]profile.Point{at(4, 74*ms, ms), at(5, 89*ms, ms), at(6, 190*ms, ms)}, profile.P95, ""},
		"the worst pair":     {[]profile.Point{at(6.3, 45*ms, ms), at(5, 89*ms, ms), at(6, 190*ms, 9*ms), at(4, 74*ms, ms), at(6.5, 53*ms, ms)}, profile.P95, "aggregated: ITL of TP:1 is 190 ms at 6 requests/s but 45 ms at 6.3 requests/s"},
		"from one at a time": {[]profile.Point{at(0, 50*ms, ms), at(1, 20*ms, ms)}, profile.Mean, "is 50 ms at one request at a time but 20 ms at 1 requests/s"},
		"within intervals":   {[]profile.Point{at(4, 74*ms, 20*ms), at(5, 45*ms, 10*ms)}, profile.P95, ""},
		"no interval":        {[]profile.Point{at(4, 74*ms, 0), at(5, 45*ms, 0)}, profile.Mean, ""},
		"a little":           {[]profile.Point{at(4, 50*ms, ms), at(5, 47*ms, ms)}, profile.P95, ""},
		"the same rate":      {[]profile.Point{at(4, 74*ms, ms), at(4, 45*ms, ms)}, profile.P95, ""},
		"of another engine":  {[]profile.Point{estimate, other, at(4, 45*ms, ms)}, profile.P95, ""},
		"streams":            {[]profile.Point{streams(8, 30*ms, ms), streams(4, 40*ms, ms)}, profile.P95, "decode: ITL of TP:1 is 40 ms at 4 in flight but 30 ms at 8 in flight"},
	} {
		var all []Candidate
		for _, p := range c.points {
			all = append(all, Candidate{Point: p})
		}
		ws := faster(all, c.stat)
		switch {
		case c.want == "" && len(ws) > 0:
			t.Errorf("%s: %v", name, ws)
		case c.want != "" && (len(ws) != 1 || !strings.Contains(ws[0].Message, c.want)):
			t.Errorf("%s: %v, want %q", name, ws, c.want)
		}
	}
}
