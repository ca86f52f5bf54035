package policy

import (
	"errors"
	"fmt"
	"slices"

	"plimsoll/engine"
	"plimsoll/planner"
)

// Metric is what the rules of others look at, per ready replica of a pool and as
// the mean over the interval.
type Metric string

// The metrics of a pool.
const (
	MetricKV      Metric = "kv_usage" // 0 to 1
	MetricWaiting Metric = "waiting"  // requests that wait for the replica
	MetricRunning Metric = "running"  // requests that it serves
)

// PoolTarget is what a metric of a pool is to be.
type PoolTarget struct {
	Role   planner.Role
	Metric Metric
	Value  float64 // per replica, above 0
}

// of is the metric of a pool, per ready replica.
func (m Metric) of(p planner.PoolObservation) planner.Figure[float64] {
	switch m {
	case MetricKV:
		return p.KVUsage
	case MetricWaiting:
		return p.Queue
	default:
		if f := p.Running; f.Known && p.Ready > 0 {
			f.Value /= float64(p.Ready)
			return f
		}
		return planner.Figure[float64]{}
	}
}

// checkTargets says all that is wrong, each by pool and range.
func checkTargets(targets []PoolTarget) error {
	var errs []error
	seen := map[planner.Role]bool{}
	for _, t := range targets {
		if !slices.Contains([]planner.Role{engine.RolePrefill, engine.RoleDecode, engine.RoleAggregated}, t.Role) || seen[t.Role] {
			errs = append(errs, fmt.Errorf("a target is for the pool %q: want prefill, decode or aggregated, each once", t.Role))
		}
		seen[t.Role] = true
		if !slices.Contains([]Metric{MetricKV, MetricWaiting, MetricRunning}, t.Metric) {
			errs = append(errs, fmt.Errorf("the target of %s is for %q: want kv_usage, waiting or running", t.Role, t.Metric))
		}
		if most := map[bool]float64{true: 1, false: mostQueue}[t.Metric == MetricKV]; !(t.Value > 0 && t.Value <= most) {
			errs = append(errs, fmt.Errorf("the target of %s is %v: want above 0 to %.0f", t.Role, t.Value, most))
		}
	}
	if len(targets) == 0 {
		errs = append(errs, errors.New("no pool has a target: want one for each that is to change"))
	}
	return errors.Join(errs...)
}

// target is that of a role; ok is false where it has none.
func target(targets []PoolTarget, role planner.Role) (PoolTarget, bool) {
	i := slices.IndexFunc(targets, func(t PoolTarget) bool { return t.Role == role })
	if i < 0 {
		return PoolTarget{}, false
	}
	return targets[i], true
}
