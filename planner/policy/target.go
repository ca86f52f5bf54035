package policy

import (
	"errors"
	"fmt"
	"slices"

	"plimsoll/engine"
	"plimsoll/planner"
)

// Metric is what the rules of others look at, as the mean over the interval.
type Metric string

// The metrics of a pool.
const (
	MetricKV      Metric = "kv_usage" // 0 to 1
	MetricWaiting Metric = "waiting"  // requests that wait for the replica
	MetricRunning Metric = "running"  // requests that it serves
	MetricHeld    Metric = "held"     // both
)

// PoolTarget is what a metric of a pool is to be.
type PoolTarget struct {
	Role   planner.Role
	Metric Metric
	Value  float64 // above 0
	As     TargetType
}

// TargetType is what of the metric is held against the value.
type TargetType string

// The types, as a HorizontalPodAutoscaler has them.
const (
	PerPod     TargetType = ""             // Pods: the mean over ready replicas
	PerReplica TargetType = "AverageValue" // External: the pool's total over all replicas
	InAll      TargetType = "Value"        // External: the pool's total
)

// of is the metric of a pool, per ready replica.
func (m Metric) of(p planner.PoolObservation) planner.Figure[float64] {
	switch m {
	case MetricKV:
		return p.KVUsage
	case MetricWaiting:
		return p.Queue
	case MetricHeld:
		if f := MetricRunning.of(p); f.Known && p.Queue.Known {
			f.Value += p.Queue.Value
			return f
		}
		return planner.Figure[float64]{}
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
	type what struct {
		role   planner.Role
		metric Metric
	}
	seen := map[what]bool{}
	for _, t := range targets {
		if !slices.Contains([]planner.Role{engine.RolePrefill, engine.RoleDecode, engine.RoleAggregated}, t.Role) || seen[what{t.Role, t.Metric}] {
			errs = append(errs, fmt.Errorf("a target is for the pool %q: want prefill, decode or aggregated, each once for a metric", t.Role))
		}
		seen[what{t.Role, t.Metric}] = true
		if !slices.Contains([]TargetType{PerPod, PerReplica, InAll}, t.As) || t.As == InAll && t.Metric == MetricKV {
			errs = append(errs, fmt.Errorf("the target of %s is the %q of %s: want %q or %q, which %s has not, or nothing for the mean", t.Role, t.As, t.Metric, PerReplica, InAll, MetricKV))
		}
		if !slices.Contains([]Metric{MetricKV, MetricWaiting, MetricRunning, MetricHeld}, t.Metric) {
			errs = append(errs, fmt.Errorf("the target of %s is for %q: want kv_usage, waiting, running or held", t.Role, t.Metric))
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

// target is the first of a role; ok is false where it has none.
func target(targets []PoolTarget, role planner.Role) (PoolTarget, bool) {
	i := slices.IndexFunc(targets, func(t PoolTarget) bool { return t.Role == role })
	if i < 0 {
		return PoolTarget{}, false
	}
	return targets[i], true
}
