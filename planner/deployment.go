package planner

import (
	"errors"
	"fmt"
	"slices"

	"plimsoll/engine"
	"plimsoll/profile"
)

// Deployment is what is planned for: which pools there are, what one replica
// takes, and what is promised.
type Deployment struct {
	Pools  []Pool // prefill and decode, or aggregated
	Budget Budget
	Ratio  Ratio
	SLA    profile.SLA // a TTFT or ITL of 0 is not promised, where the policy looks at none
}

// Pool is what the planner must keep to for one role.
type Pool struct {
	Role Role
	GPUs int // of one replica, 1 or more
	Min  int // replicas, 0 only where the pool may be switched off
	Max  int // replicas; 0: the budget alone bounds it
}

// Budget is in GPUs over all pools of a deployment.
type Budget struct {
	Max int // below 0: no bound
	Min int // below 0: no bound; what it asks for beyond the pools' least goes to the pool that works hardest
}

// Cap is gpus, or the budget where that is less.
func (b Budget) Cap(gpus int) int {
	if b.Max >= 0 {
		return min(gpus, b.Max)
	}
	return gpus
}

// Aggregated reports whether one pool does both phases.
func (d Deployment) Aggregated() bool {
	return len(d.Pools) == 1 && d.Pools[0].Role == engine.RoleAggregated
}

// Pool is the pool of a role, or the zero Pool.
func (d Deployment) Pool(r Role) Pool {
	for _, p := range d.Pools {
		if p.Role == r {
			return p
		}
	}
	return Pool{}
}

// GPUs is what replicas take.
func (d Deployment) GPUs(r Replicas) int {
	sum := 0
	for _, p := range d.Pools {
		sum += p.GPUs * r.Of(p.Role)
	}
	return sum
}

// Least are the fewest replicas that the pools allow.
func (d Deployment) Least() Replicas {
	var r Replicas
	for _, p := range d.Pools {
		r = r.With(p.Role, p.Min)
	}
	return r
}

// Pair is one replica of each pool: the fewest that serve.
func (d Deployment) Pair() Replicas {
	var r Replicas
	for _, p := range d.Pools {
		r = r.With(p.Role, 1)
	}
	return r
}

// half reports whether r has replicas of one pool and none of the other: it serves nobody.
func (d Deployment) half(r Replicas) bool {
	return r != (Replicas{}) && slices.ContainsFunc(d.Pools, func(p Pool) bool { return r.Of(p.Role) == 0 })
}

const (
	maxReplicas   = 1_000_000
	maxEngineGPUs = 4096
	maxBudget     = 1_000_000
	maxRatio      = 1000
)

// Check says all that is wrong, each by field and range.
func (d Deployment) Check() error {
	var errs []error
	bad := func(wrong bool, format string, args ...any) {
		if wrong {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	bad(!d.Aggregated() && (len(d.Pools) != 2 || d.Pool(engine.RolePrefill).GPUs == 0 || d.Pool(engine.RoleDecode).GPUs == 0),
		"pools are %v: want prefill and decode, or aggregated", d.Pools)
	for _, p := range d.Pools {
		bad(p.GPUs < 1 || p.GPUs > maxEngineGPUs, "%s engines have %d GPUs: want 1 to %d", p.Role, p.GPUs, maxEngineGPUs)
		bad(p.Min < 0 || p.Min > maxReplicas, "the least %s replicas are %d: want 0 to %d", p.Role, p.Min, maxReplicas)
		bad(p.Max != 0 && (p.Max < max(1, p.Min) || p.Max > maxReplicas), "the most %s replicas are %d: want %d to %d, or 0 for no bound", p.Role, p.Max, max(1, p.Min), maxReplicas)
	}
	if least := d.GPUs(d.Least()); d.Budget.Max >= 0 && least > d.Budget.Max {
		errs = append(errs, fmt.Errorf("the budget of %s is below the %d that the minimum replicas need (%s)", engine.Count(d.Budget.Max, "GPU"), least, d.Least()))
	}
	bad(d.Budget.Max >= 0 && d.Budget.Min > d.Budget.Max, "the least GPUs are %d, above the most, %d", d.Budget.Min, d.Budget.Max)
	bad(d.Budget.Max > maxBudget || d.Budget.Min > maxBudget, "the GPUs are bounded by %d and %d: want at most %d, or below 0 for no bound", d.Budget.Min, d.Budget.Max, maxBudget)
	r := d.Ratio
	bad(!(r.Least >= 0 && r.Least <= maxRatio) || r.Most != 0 && !(r.Most >= max(r.Least, 1/float64(maxRatio))), "the prefill:decode ratio is bounded by %v and %v: want 0 to %d, 0 or %v or more, in this order", r.Least, r.Most, maxRatio, 1/float64(maxRatio))
	bad(d.SLA.TTFT < 0, "the TTFT to keep is %v: want above 0, or 0 for none", d.SLA.TTFT)
	bad(d.SLA.ITL < 0, "the ITL to keep is %v: want above 0, or 0 for none", d.SLA.ITL)
	return errors.Join(errs...)
}
