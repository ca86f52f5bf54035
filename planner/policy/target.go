package policy

import (
	"slices"

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

// hasTarget reports whether a role has a target.
func hasTarget(targets []PoolTarget, role planner.Role) bool {
	return slices.ContainsFunc(targets, func(t PoolTarget) bool { return t.Role == role })
}
