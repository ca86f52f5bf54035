package policy

import (
	"math"

	"plimsoll/engine"
	"plimsoll/planner"
	"plimsoll/profile"
)

// budget brings what is wanted within the GPUs that there may be.
func (f *draft) budget() {
	want := f.d.Want
	to, ok := upstreamBudget(f.dep, want)
	switch {
	case !ok:
		least := f.dep.Least()
		f.d.Warnings = append(f.d.Warnings, profile.Warnf("budget_below_least", "the budget of %s is below the %d that the minimum replicas need (%s). Nothing changes; raise the budget", engine.Count(f.dep.Budget.Max, "GPU"), f.dep.GPUs(least), least))
		for _, p := range f.dep.Pools {
			f.step("hold", p.Role, f.d.From.Of(p.Role), "the budget of %s is too small for the minimum replicas, %s. Upstream's rule would ask for none and end the service", engine.Count(f.dep.Budget.Max, "GPU"), least)
		}
	case to != want:
		for _, p := range f.dep.Pools {
			f.step("budget", p.Role, to.Of(p.Role), "%d GPUs exceed the budget of %d", f.dep.GPUs(want), f.dep.Budget.Max)
		}
	}
}

// upstreamBudget is upstream's rule since 2026-01-28 (ai-dynamo/dynamo e2f1e04f1):
// with s = budget/GPUs wanted, prefill gets floor(P·s), at least its least and at
// most what leaves decode its least; decode gets what is left. One pool gets
// floor(N·s). ok is false where the budget is below the least. All in float64
// as there, so that floor(100·(29/100)) is 28.
func upstreamBudget(dep planner.Deployment, want planner.Replicas) (to planner.Replicas, ok bool) {
	budget, total := dep.Budget.Max, dep.GPUs(want)
	if budget < 0 || total <= budget {
		return want, true
	}
	if budget < dep.GPUs(dep.Least()) {
		return planner.Replicas{}, false
	}
	scale := float64(budget) / float64(total)
	share := func(n int) int { return int(math.Floor(float64(n) * scale)) }
	if dep.Aggregated() {
		return planner.Replicas{Aggregated: max(dep.Pools[0].Min, share(want.Aggregated))}, true
	}
	p, d := dep.Pool(engine.RolePrefill), dep.Pool(engine.RoleDecode)
	to.Prefill = max(p.Min, min((budget-d.Min*d.GPUs)/p.GPUs, share(want.Prefill)))
	to.Decode = max(d.Min, (budget-to.Prefill*p.GPUs)/d.GPUs)
	return to, true
}
