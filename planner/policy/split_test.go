package policy

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"plimsoll/engine/enginetest"
	"plimsoll/planner"
	"plimsoll/profile"
)

// Whatever prompts, answers, load and budget are: the fleet that a steady load leads to
// carries as much of it as the best split of that budget, but for what a move has to be
// worth, and then nothing moves.
func TestBudgetCarriesWhatItsBestSplitDoes(t *testing.T) {
	enginetest.Check(t, func(r *rapid.T) {
		isl, osl := rapid.Float64Range(200, 8000).Draw(r, "ISL"), rapid.Float64Range(10, 1000).Draw(r, "OSL")
		rate, budget := rapid.Float64Range(0.5, 60).Draw(r, "rate"), rapid.IntRange(2, 16).Draw(r, "budget")
		dep := promise()
		dep.Budget.Max, dep.SLA.Stat = budget, rapid.SampledFrom([]profile.Statistic{profile.Mean, profile.P99}).Draw(r, "stat")
		p := standard(&quietTB{t}, func(o *DefaultOptions) { o.NoCorrection = true })
		c, err := planner.New(planner.Options{Deployment: dep, Policy: p, OnLoss: planner.Hold})
		if err != nil {
			r.Fatal(err)
		}
		e := engines{prefill: p.o.Prefill, decode: p.o.Decode, sla: dep.SLA, slower: asProfiled()}
		e.sla.Stat = profile.Mean
		carries := func(have planner.Replicas) (part float64) {
			for part < 1 {
				need := demand{rate: (part + 0.01) * rate, isl: isl, osl: osl, spread2: 1, even: 1}
				prefill, _, _ := e.leastPrefill(need)
				decode, _, _ := e.leastDecode(need)
				if prefill > have.Prefill || decode > have.Decode {
					break
				}
				part += 0.01
			}
			return part
		}
		best := 0.0
		for n := 1; n < budget; n++ {
			best = max(best, carries(pd(n, budget-n)))
		}
		now := dep.Within(pd(rapid.IntRange(1, 16).Draw(r, "prefill"), rapid.IntRange(1, 16).Draw(r, "decode")))
		for i := range 30 {
			s := minute(rate, now)
			s.Start = time.Unix(int64(60*i), 0)
			s.ISL.Mean, s.OSL.Mean = planner.Known(isl), planner.Known(osl)
			s.TTFT.Mean, s.ITL.Mean = planner.Figure[time.Duration]{}, planner.Figure[time.Duration]{} // of which nothing is learned
			d := c.Step(s.Observation)
			if i >= 20 && d.Want != now {
				r.Fatalf("after %d minutes of a steady load %s becomes %s: %+v", i, now, d.Want, d.Steps)
			}
			now = d.Want
		}
		if got := carries(now); got < best/1.1-0.02 {
			r.Fatalf("%s of %d engines carries %.2f of the load, the best split %.2f", now, budget, got, best)
		}
	})
}
