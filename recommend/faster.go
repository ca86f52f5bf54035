package recommend

import (
	"cmp"
	"fmt"
	"slices"

	"plimsoll/engine"
	"plimsoll/profile"
)

// fasterShare is how much lower a latency may be under more load: engines do have batch
// sizes at which their kernels are slow.
const fasterShare = 0.1

// measure is a latency of points of one phase.
type measure struct {
	name string
	of   func(profile.Point) profile.Distribution
}

// faster warns of configurations that answer faster under more load, beyond the intervals of
// both points: of each latency of each, the pair that is furthest apart. Estimates are left
// out: no machine can be in their way.
func faster(all []Candidate, stat profile.Statistic) (out []profile.Warning) {
	measures := map[profile.Phase][]measure{
		profile.Decode: {{"ITL", profile.Point.PerToken}},
		profile.Aggregated: {
			{"TTFT", func(p profile.Point) profile.Distribution { return p.Load.TTFT }},
			{"ITL", func(p profile.Point) profile.Distribution { return p.Load.TPOT }},
		},
	}
	type curve struct {
		engine.Config
		isl, osl int
	}
	curves := map[curve][]profile.Point{}
	var order []curve
	for _, x := range all {
		p := x.Point
		if p.Provenance >= profile.Estimated {
			continue
		}
		c := curve{p.Config, p.ISL, p.OSL}
		if curves[c] == nil {
			order = append(order, c)
		}
		curves[c] = append(curves[c], p)
	}
	for _, c := range order {
		ps := curves[c]
		slices.SortStableFunc(ps, func(a, b profile.Point) int {
			return cmp.Or(cmp.Compare(a.Rate, b.Rate), cmp.Compare(a.InFlight, b.InFlight))
		})
		for _, m := range measures[ps[0].Phase] {
			s := stat
			if ps[0].Phase == profile.Decode {
				s = profile.Mean // streams share the engine's steps
			}
			if a, b, found := furthest(ps, m, s); found {
				out = append(out, profile.Warnf("faster_under_load",
					"%s: %s of %s is %.4g ms at %s but %.4g ms at %s, beyond both 95 %% intervals: the machine or the engine changed between them; measure again",
					a.Phase, m.name, c.Label(), profile.Milliseconds(m.of(a).At(s)), loadWords(a), profile.Milliseconds(m.of(b).At(s)), loadWords(b)))
			}
		}
	}
	return out
}

// furthest finds the pair of points with the largest drop in latency as the load rises.
func furthest(ps []profile.Point, m measure, s profile.Statistic) (a, b profile.Point, found bool) {
	most := 1 / (1 - fasterShare)
	for i, p := range ps {
		for _, q := range ps[i+1:] {
			x, y := m.of(p), m.of(q)
			in, out := x.Interval(s), y.Interval(s)
			if q.Rate == p.Rate && q.InFlight <= p.InFlight || out.High <= 0 || in.Low <= out.High {
				continue
			}
			if ratio := float64(x.At(s)) / float64(y.At(s)); ratio > most {
				a, b, most, found = p, q, ratio, true
			}
		}
	}
	return a, b, found
}

// loadWords describes the load of a point.
func loadWords(p profile.Point) string {
	switch {
	case p.Rate > 0:
		return fmt.Sprintf("%.4g requests/s", p.Rate)
	case p.Load != nil:
		return "one request at a time"
	}
	return fmt.Sprintf("%.4g in flight", p.InFlight)
}
