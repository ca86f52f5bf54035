package policy

import (
	"fmt"

	"plimsoll/planner"
)

// The three ways in which a HorizontalPodAutoscaler makes replicas of a metric
// (kubernetes v1.36.3, pkg/controller/podautoscaler/replica_calculator.go).

// podReplicas is calcPlainMetricReplicas, for a ratio of what ready pods show, on
// average, to the target. A replica that starts is a pod that runs without metrics, as
// an engine that loads its weights does: it counts as idle upwards, as just on the
// target downwards. One without a GPU is a Pending pod, idle upwards and left out
// downwards. Nothing changes where that turns the direction round, and where no replica
// is ready.
// The replicas of a replay have their GPUs; those that pull images count as loading.
func (o Behavior) podReplicas(p planner.PoolObservation, have int, ratio float64) (int, string) {
	loading, pending := p.Starting-p.Pending, p.Pending
	switch {
	case p.Ready == 0:
		return have, "no replica is ready"
	case loading == 0 && (pending == 0 || ratio <= 1):
		if o.near(ratio) {
			return have, fmt.Sprintf("within %.0f %%", 100*o.Tolerance)
		}
		return whole(ratio * float64(p.Ready)), fmt.Sprintf("%.3g times %d", ratio, p.Ready)
	}
	all, sum := p.Ready+loading, ratio*float64(p.Ready)
	switch {
	case ratio < 1:
		sum += float64(loading)
	case ratio > 1:
		all += pending
	}
	with := sum / float64(all)
	why := fmt.Sprintf("%.3g times %d with the %d that start", with, all, all-p.Ready)
	n := whole(sum)
	if o.near(with) || ratio > 1 && with < 1 || with < 1 && n > have || with > 1 && n < have {
		return have, why + ": no change"
	}
	return n, why
}

// averageReplicas is GetExternalPerPodMetricReplicas: for a metric of the whole
// pool and a target for each replica, those that start included.
func (o Behavior) averageReplicas(total, target float64, have int) (int, string) {
	if ratio := total / (target * float64(have)); o.near(ratio) {
		return have, fmt.Sprintf("%.3g for each, within %.0f %%", total/float64(have), 100*o.Tolerance)
	}
	return whole(total / target), fmt.Sprintf("%.3g for each of %d", total/float64(have), have)
}

// valueReplicas is GetExternalMetricReplicas: for a metric and a target of the
// whole pool.
func (o Behavior) valueReplicas(total, target float64, have, ready int) (int, string) {
	ratio := total / target
	if o.near(ratio) {
		return have, fmt.Sprintf("within %.0f %%", 100*o.Tolerance)
	}
	return whole(ratio * float64(ready)), fmt.Sprintf("%.3g times %d ready", ratio, ready)
}

// replicas is what one metric of a pool asks for.
func (o Behavior) replicas(t PoolTarget, value float64, p planner.PoolObservation, have int) (n int, why string) {
	switch t.As {
	case PerReplica:
		n, why = o.averageReplicas(value, t.Value, have)
	case InAll:
		n, why = o.valueReplicas(value, t.Value, have, p.Ready)
	default:
		n, why = o.podReplicas(p, have, value/t.Value)
	}
	return n, fmt.Sprintf("%s is %.3g, the target %.3g: %s", t.Metric, value, t.Value, why)
}

// most takes a step to what the metric that asks for most asks for.
func (o Behavior) most(f *draft, n *figures, s planner.Situation, p planner.Pool, targets []PoolTarget) {
	seen, _ := s.Pool(p.Role)
	have := s.Have.Of(p.Role)
	most, why := -1, ""
	for _, t := range targets {
		if t.Role != p.Role {
			continue
		}
		if to, because := o.replicas(t, n.value(s, seen, t), seen, have); to > most {
			most, why = to, because
		}
	}
	f.step("target", p.Role, max(1, p.Min, most), "%s", why)
}

// value is a pool's metric as a target looks at it.
func (n *figures) value(s planner.Situation, p planner.PoolObservation, t PoolTarget) float64 {
	if t.As != PerPod && s.Have.Of(t.Role) == 0 { // of a pool without replicas it is what waits anywhere
		return n.need(s.Waiting, "waiting requests")
	}
	v := t.Metric.of(p)
	if t.As != PerPod {
		v.Value *= float64(p.Ready)
	}
	return n.need(v, fmt.Sprintf("%s of %s", t.Metric, t.Role))
}
