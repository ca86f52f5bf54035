package policy

import (
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"plimsoll/engine"
	"plimsoll/engine/enginetest"
	"plimsoll/planner"
	"plimsoll/profile"
)

// Under a constant load the fleet comes to rest, whatever corrections a drift has left: no
// pool turns back more than once, and every request is within the SLA.
func TestConstantLoadMovesNothing(t *testing.T) {
	enginetest.Check(t, func(rt *rapid.T) {
		l := loop{dep: promise(), startUp: time.Minute, interval: 15 * time.Second, even: true}
		if rapid.Bool().Draw(rt, "aggregated") {
			l.dep.Pools = []planner.Pool{{Role: engine.RoleAggregated, GPUs: 1, Min: 1}}
		}
		l.peak = rapid.Float64Range(1, 20).Draw(rt, "rate")
		l.rate = func(time.Duration) float64 { return l.peak }
		l.start = l.static(t)
		factor := func(what string) float64 {
			return math.Exp(rapid.Float64Range(math.Log(0.5), math.Log(2)).Draw(rt, what))
		}
		p := l.policy(t)
		p.m.Slower = correction{Prefill: factor("prefill"), Full: factor("full"), Decode: factor("decode"), Tail: max(1, factor("tail"))}
		p.m.Slower.Extra = time.Duration(rapid.IntRange(0, 100).Draw(rt, "extra")) * time.Millisecond
		k := l.run(t, coreOf(t, l.dep, p))
		for _, pool := range l.dep.Pools {
			turns, last := 0, 0
			for i := 1; i < len(k.wanted); i++ {
				step := k.wanted[i].Of(pool.Role) - k.wanted[i-1].Of(pool.Role)
				if step*last < 0 {
					turns++
				}
				if step != 0 {
					last = step
				}
			}
			if turns > 1 {
				rt.Errorf("%s turned back %d times at %.3g requests/s: %v", pool.Role, turns, l.peak, slices.Compact(k.wanted))
			}
		}
		if k.share() < 1 {
			rt.Errorf("%.2f %% of %.3g requests/s are within the SLA", 100*k.share(), l.peak)
		}
	})
}

// A pool has flapped where it comes back up from what it went down to, whole and under the
// same load; that keeps it up for some hours, and survives a restart.
func TestFlap(t *testing.T) {
	type look struct {
		have, ready int
		rate, ahead float64 // requests/s, seen and forecast
		after       time.Duration
	}
	steady := func(have, ready int) look { return look{have, ready, 20, 20, time.Minute} }
	flap := []look{steady(3, 3), steady(2, 2), steady(2, 2), steady(3, 2)}
	for name, c := range map[string]struct {
		looks []look
		sla   func(*profile.SLA) // before the last
		want  int                // decode replicas are kept at least
	}{
		"flapped":               {looks: flap, want: 3},
		"hours ago":             {looks: append(slices.Clone(flap), look{3, 3, 20, 20, 3 * time.Hour}), want: 3},
		"long ago":              {looks: append(slices.Clone(flap), look{3, 3, 20, 20, 5 * time.Hour})},
		"long ago, twice":       {looks: append(slices.Clone(flap), steady(3, 3), steady(2, 2), steady(2, 2), steady(3, 3), look{3, 3, 20, 20, 5 * time.Hour}), want: 3},
		"the clock is set back": {looks: append(slices.Clone(flap), look{3, 3, 20, 20, -24 * time.Hour})},
		"the load is lower":     {looks: append(slices.Clone(flap), look{3, 3, 10, 10, time.Hour})},
		"another SLA":           {looks: append(slices.Clone(flap), steady(3, 3)), sla: func(s *profile.SLA) { s.ITL *= 2 }},
		"one did not serve":     {looks: []look{steady(3, 3), steady(2, 2), steady(2, 1), steady(3, 2)}},
		"the load grew":         {looks: []look{steady(3, 3), steady(2, 2), steady(2, 2), {3, 2, 30, 20, time.Minute}}},
		"it was to grow":        {looks: []look{steady(3, 3), steady(2, 2), {2, 2, 20, 30, time.Minute}, steady(3, 2)}},
		"it was lower":          {looks: []look{steady(3, 3), steady(2, 2), {2, 2, 10, 10, time.Minute}, steady(3, 2)}},
		"from fewer":            {looks: []look{steady(4, 4), steady(2, 2), {3, 3, 30, 30, time.Minute}, steady(4, 4)}},
		"never went down":       {looks: []look{steady(3, 3), steady(3, 3), steady(4, 4)}},
		"nothing came":          {looks: []look{{1, 1, 0, 0, time.Minute}, {0, 0, 0, 0, time.Minute}, {1, 1, 0, 0, time.Minute}}},
	} {
		p := standard(t)
		s := minute(20, pd(3, 3))
		for i, x := range c.looks {
			s.Start, s.Have, s.Pools[1].Ready = s.Start.Add(x.after), pd(3, x.have), x.ready
			if c.sla != nil && i == len(c.looks)-1 {
				c.sla(&s.Deployment.SLA)
			}
			p.m.Lately = tokenRate{}
			p.m.Lately.see(p.demand(x.rate), s.Length, s.Length)
			p.m.swung(s)
			p.m.Expected = tokensOf(p.demand(x.ahead), s.Length)
			again := standard(t)
			if b, err := p.Save(); err != nil || again.Restore(b) != nil {
				t.Fatalf("%s: saved with %v", name, err)
			}
			p = again
		}
		if got, why := p.m.flaps(s.End(), engine.RoleDecode, 0); got != c.want {
			t.Errorf("%s: at least %d (%s), want %d", name, got, why, c.want)
		}
	}
}
