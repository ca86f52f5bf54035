package planner

import (
	"fmt"
	"math"
	"slices"

	"plimsoll/profile"
)

// keep brings Want within bounds and budget, and notes each rule that took part.
func (d *Decision) keep(dep Deployment, o Observation, free int) {
	x := split{Deployment: dep, have: d.From, sized: d.Sized}
	for _, p := range o.Pools {
		x.starting = x.starting || p.Starting > p.Pending
	}
	kept := x.within(d.Want)
	d.Sized = nil // a decision that was made is data alone
	d.Want, d.Steps, d.Warnings = kept.Want, append(d.Steps, kept.Steps...), append(d.Warnings, kept.Warnings...)
	if room := dep.growth(d.From, d.Want, o, free); room != d.Want {
		d.add(dep, drainingRule, d.Want, room, "stopping replicas or other deployments still hold GPUs of the budget. Growth waits for them")
		d.Want = room
	}
}

// Within is the replicas nearest to want inside the pools' bounds and the budget.
func (d Deployment) Within(want Replicas) Replicas { return split{Deployment: d}.within(want).Want }

// within is the replicas nearest to want inside the pools' bounds and the budget, each
// rule that took part, and a warning of the bound that cannot hold.
func (x split) within(want Replicas) (d Decision) {
	dep := x.Deployment
	d.Want = want
	take := func(rule string, to Replicas, why string, args ...any) {
		if to != d.Want {
			d.add(dep, rule, d.Want, to, fmt.Sprintf(why, args...))
			d.Want = to
		}
	}
	take("bounds", dep.bounded(d.Want), "outside the pool's bounds")
	take("ratio", dep.bounded(dep.Ratio.Grow(d.Want)), "prefill per decode replica is kept %s", dep.Ratio)
	fit, why := x.fit(d.Want)
	take(budgetRule, fit, "%d GPUs exceed the budget of %d%s", dep.GPUs(d.Want), dep.Budget.Max, why)
	take("least-gpus", dep.fill(d.Want), "%d GPUs are below the minimum of %d", dep.GPUs(d.Want), dep.Budget.Min)
	if !dep.Ratio.holds(d.Want) {
		d.Warnings = append(d.Warnings, profile.Warnf("ratio_unmet", "bounds and budget leave %s, and prefill per decode replica is to be %s. Raise the budget or the pools' bounds, or relax the ratio", d.Want, dep.Ratio))
	}
	return d
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

// fill adds replicas until the least number of GPUs is kept. It adds both pools or none
// to a deployment that has none.
func (d Deployment) fill(want Replicas) Replicas {
	to := d.filled(want, want, Replicas{})
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
// bounds and budget let it, and where most is not none, that and the ratio; then decode
// comes first where both have as few: what runs must end.
func (d Deployment) filled(to, want, most Replicas) Replicas {
	for d.GPUs(to) < d.Budget.Min {
		next, least := to, math.Inf(1)
		for _, p := range d.Pools {
			n := to.Of(p.Role)
			more, share := to.With(p.Role, n+1), float64(n)/float64(max(1, want.Of(p.Role)))
			bound := p.Max > 0 && n >= p.Max || most != Replicas{} && n >= most.Of(p.Role) || d.Budget.Max >= 0 && d.GPUs(more) > d.Budget.Max
			fewer := share < least || share == least && most != Replicas{}
			if !bound && fewer && (most == Replicas{} || d.Ratio.holds(more) || !d.Ratio.holds(to)) {
				next, least = more, share
			}
		}
		if next == to {
			return to
		}
		to = next
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
	for _, p := range slices.Backward(d.Pools) { // decode first: what runs must end
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
