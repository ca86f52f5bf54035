//go:build full

package main

import (
	"maps"
	"slices"
	"testing"
	"time"

	"plimsoll/engine"
	"plimsoll/profile"
	"plimsoll/recommend"
	"plimsoll/sweep"
)

const (
	// truthTie is how far below the best the pick may be: a tie, which goes to the fewer
	// GPUs, and the step between rates.
	truthTie = recommend.TieShare + 0.01
	// gridNoise is a point's own noise on the grid, of 5 prompts or 150 steps: three
	// standard deviations of contestNoise.
	gridNoise = 0.04
	rateSteps = 200 // of a rate that is looked for
)

// truth is what each candidate does in a phase within the SLA by a search's rule,
// tokens/s/GPU, without noise: by a single request, with the most in flight that
// holds; or at the highest rate of open-loop load that holds.
func (s seeker) truth(t testing.TB, phase profile.Phase, how sweep.Search) map[string]float64 {
	t.Helper()
	o, all := s.options(t, how), map[string]float64{}
	for _, cfg := range o.Candidates {
		of := s.decodeTruth
		if phase == profile.Prefill {
			of = s.prefillTruth
		}
		all[cfg.Label()] = of(t, cfg, o.Rank) / float64(cfg.GPUs())
	}
	return all
}

func (s seeker) prefillTruth(t testing.TB, cfg engine.Config, rank recommend.Rank) float64 {
	t.Helper()
	ttft := s.prefill(t, cfg, s.opts.isl)
	switch {
	case ttft > s.opts.sla.TTFT:
		return 0
	case rank == recommend.BySingle:
		return float64(s.opts.isl) / ttft.Seconds()
	}
	return float64(s.opts.isl) * highest(2/ttft.Seconds(), func(rate float64) bool { // two prompts share a step
		return meanTime(s.loaded(t, cfg, engine.RoleAggregated, rate, 1), profile.Request.TTFTFromDue) <= s.opts.sla.TTFT
	})
}

func (s seeker) decodeTruth(t testing.TB, cfg engine.Config, rank recommend.Rank) float64 {
	t.Helper()
	itl := func(n int) time.Duration { return s.itl(t, cfg, s.opts.isl, s.opts.osl, n) }
	n, beyond := 0, 1+s.noiseless(t, cfg, engine.RoleAggregated).Facts.MaxInFlight(s.opts.isl, s.opts.osl, 0)
	for beyond-n > 1 { // ITL does not fall with load
		if mid := (n + beyond) / 2; itl(mid) <= s.opts.sla.ITL {
			n = mid
		} else {
			beyond = mid
		}
	}
	if n == 0 {
		return 0
	}
	most := float64(n) / itl(n).Seconds()
	if rank == recommend.BySingle {
		return most
	}
	return float64(s.opts.osl) * highest(1.2*most/float64(s.opts.osl), func(rate float64) bool {
		rs := s.loaded(t, cfg, engine.RoleDecode, rate, s.opts.osl)
		return meanTime(rs, profile.Request.TPOT) <= s.opts.sla.ITL && meanTime(rs, profile.Request.TTFTFromDue) <= s.opts.sla.TTFT
	})
}

// highest is the highest rate up to most that holds.
func highest(most float64, holds func(rate float64) bool) float64 {
	lo, hi := 0.0, most
	for hi-lo > most/rateSteps {
		if mid := (lo + hi) / 2; holds(mid) {
			lo = mid
		} else {
			hi = mid
		}
	}
	return lo
}

// loaded are the requests of the middle half of a Poisson load on an engine without
// noise. All rates have the same arrivals, faster or slower.
func (s seeker) loaded(t testing.TB, cfg engine.Config, role engine.Role, rate float64, osl int) []profile.Request {
	t.Helper()
	const n = 4000
	asks, err := s.opts.openLoop(s.dep).Traffic(rate, n, 11)
	if err != nil {
		t.Fatal(err)
	}
	for i := range asks {
		asks[i].ISL, asks[i].OSL = s.opts.isl, osl
	}
	m, err := s.noiseless(t, cfg, role).Play(t.Context(), profile.Script{Asks: asks, Seed: 7, Timeout: 1000 * time.Hour}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return m.Requests[n/4 : 3*n/4]
}

func meanTime(rs []profile.Request, of func(profile.Request) time.Duration) time.Duration {
	var sum time.Duration
	for _, r := range rs {
		sum += of(r) / time.Duration(len(rs))
	}
	return sum
}

// checkPicks wants of both picks of a search what the best candidate does by the same
// rule. The grid has few in-flight counts: of its list the pick has the best.
func (s seeker) checkPicks(t *testing.T, how sweep.Search, res sweep.Result) {
	t.Helper()
	most := map[sweep.Search]float64{sweep.Adaptive: truthTie, sweep.Grid: gridNoise}[how]
	for _, c := range []recommend.Choice{res.Prefill, res.Decode} {
		truth := s.truth(t, c.Phase, how)
		t.Logf("%s: %s is %s, of %v", how, c.Phase, c.Picked.Label(), truth)
		if how == sweep.Grid && c.Phase == profile.Decode {
			truth = s.listed(t, c)
		}
		if got, best := truth[c.Picked.Label()], slices.Max(slices.Collect(maps.Values(truth))); got < (1-most)*best || got == 0 {
			t.Errorf("%s: %s picked for %s, of %v tokens/s/GPU", how, c.Picked.Label(), c.Phase, truth)
		}
	}
}

// listed is the most of each candidate at the counts that were measured, without noise,
// where noise does not put them beyond the SLA.
func (s seeker) listed(t testing.TB, c recommend.Choice) map[string]float64 {
	t.Helper()
	all := map[string]float64{}
	for _, x := range c.All {
		p := x.Point
		itl := s.itl(t, p.Config, s.opts.isl, s.opts.osl, p.Asked)
		if x.Feasible && float64(itl) <= contestPast*float64(s.opts.sla.ITL) {
			all[x.Label()] = max(all[x.Label()], float64(p.Asked)/itl.Seconds()/float64(p.Config.GPUs()))
		}
	}
	return all
}
