package planner

import (
	"fmt"

	"plimsoll/engine"
)

// keep brings Want within bounds and budget, and notes each rule that took part.
func (d *Decision) keep(dep Deployment, o Observation, free int) {
	want, steps := within(dep, d.Want)
	d.Want, d.Steps = want, append(d.Steps, steps...)
	if room := dep.growth(d.From, d.Want, o, free); room != d.Want {
		d.add(dep, drainingRule, d.Want, room, "stopping replicas or other deployments still hold GPUs of the budget. Growth waits for them")
		d.Want = room
	}
}

// Within is the replicas nearest to want inside the pools' bounds and the budget.
func (d Deployment) Within(want Replicas) Replicas {
	to, _ := within(d, want)
	return to
}

// within is the replicas nearest to want inside the pools' bounds and the budget, and
// each rule that took part.
func within(dep Deployment, want Replicas) (Replicas, []Step) {
	var d Decision
	to := dep.bounded(want)
	if to != want {
		d.add(dep, "bounds", want, to, "outside the pool's bounds")
	}
	if fit := dep.fit(to); fit != to {
		why := fmt.Sprintf("%d GPUs exceed the budget of %d", dep.GPUs(to), dep.Budget.Max)
		if fit == (Replicas{}) {
			why += fmt.Sprintf(", which is too small for one replica of each pool (%s). Fewer replicas serve nobody", engine.Count(dep.GPUs(dep.Pair()), "GPU"))
		}
		d.add(dep, budgetRule, to, fit, why)
		to = fit
	}
	if more := dep.fill(to); more != to {
		d.add(dep, "least-gpus", to, more, fmt.Sprintf("%d GPUs are below the minimum of %d", dep.GPUs(to), dep.Budget.Min))
		to = more
	}
	return to, d.Steps
}

// bounded clamps each pool to its own bounds.
func (d Deployment) bounded(want Replicas) Replicas {
	for _, p := range d.Pools {
		n := max(want.Of(p.Role), p.Min)
		if p.Max > 0 {
			n = min(n, p.Max)
		}
		want = want.With(p.Role, n)
	}
	return want
}

// fit shrinks what exceeds the budget: both pools by the same share, then what
// the rounding left goes to decode, then to prefill. The pools' least is kept,
// which Check made sure that the budget allows. So is one replica of each pool that is
// wanted; where the budget does not hold both, there is none of either. Nothing grows and
// nothing is rounded up, so that the budget is never exceeded.
func (d Deployment) fit(want Replicas) Replicas {
	budget, total := d.Budget.Max, d.GPUs(want)
	if budget < 0 || total <= budget {
		return want
	}
	if d.Aggregated() {
		p := d.Pools[0]
		return Replicas{Aggregated: budget / p.GPUs}
	}
	p, q := d.Pool(engine.RolePrefill), d.Pool(engine.RoleDecode)
	if want.Prefill > 0 && want.Decode > 0 {
		switch a, b := max(p.Min, 1), max(q.Min, 1); {
		case a*p.GPUs+b*q.GPUs <= budget:
			p.Min, q.Min = a, b
		case p.Min == 0 && q.Min == 0:
			return Replicas{}
		}
	}
	share := int(int64(want.Prefill) * int64(budget) / int64(total))
	prefill := min(max(share, p.Min), (budget-q.Min*q.GPUs)/p.GPUs)
	decode := min(want.Decode, (budget-prefill*p.GPUs)/q.GPUs)
	prefill = min(want.Prefill, (budget-decode*q.GPUs)/p.GPUs)
	return Replicas{Prefill: prefill, Decode: decode}
}

// fill adds replicas until the least number of GPUs is kept. It adds both pools or none
// to a deployment that has none.
func (d Deployment) fill(want Replicas) Replicas {
	to := d.filled(want)
	if !d.half(to) || d.half(want) {
		return to
	}
	for _, p := range d.Pools {
		to = to.With(p.Role, max(1, to.Of(p.Role)))
	}
	if d.Budget.Max >= 0 && d.GPUs(to) > d.Budget.Max {
		return want
	}
	return to
}

// filled adds each replica to the pool that has the fewest of what it wanted, as far as
// bounds and budget let it.
func (d Deployment) filled(want Replicas) Replicas {
	to := want
	for d.GPUs(to) < d.Budget.Min {
		role, found := Role(""), false
		for _, p := range d.Pools {
			n := to.Of(p.Role)
			if p.Max > 0 && n >= p.Max || d.Budget.Max >= 0 && d.GPUs(to)+p.GPUs > d.Budget.Max {
				continue
			}
			// n/want is smaller than the other's, without dividing by 0.
			if !found || n*max(1, want.Of(role)) < to.Of(role)*max(1, want.Of(p.Role)) {
				role, found = p.Role, true
			}
		}
		if !found {
			return to
		}
		to = to.With(role, to.Of(role)+1)
	}
	return to
}

// growth holds back replicas for which there are no GPUs yet: those of replicas
// that drain, and of those that this very decision stops, are still in use.
// Upstream rebalanced both pools at once and exceeded its budget (dynamo#12428).
// free is what nobody holds of a budget shared with others. A pool without a replica gets
// its first before any pool gets more, and with the others that have none or not at all.
func (d Deployment) growth(have, want Replicas, o Observation, free int) Replicas {
	room := free
	if d.Budget.Max >= 0 {
		own := d.Budget.Max
		for _, p := range d.Pools {
			seen, _ := o.Pool(p.Role)
			own -= p.GPUs * (have.Of(p.Role) + seen.Draining)
		}
		room = min(own, free)
	}
	first := 0
	for _, p := range d.Pools {
		if have.Of(p.Role) == 0 && want.Of(p.Role) > 0 {
			first += p.GPUs
		}
	}
	if first > room {
		room, first = 0, 0
	}
	room -= first
	for i := len(d.Pools) - 1; i >= 0; i-- { // decode first: what runs must end
		p := d.Pools[i]
		more := want.Of(p.Role) - have.Of(p.Role)
		if more <= 0 {
			continue
		}
		began := 0
		if first > 0 && have.Of(p.Role) == 0 {
			began = 1
		}
		more = min(more, began+max(0, room/p.GPUs))
		room -= (more - began) * p.GPUs
		want = want.With(p.Role, have.Of(p.Role)+more)
	}
	return want
}
