package policy

import (
	"strings"
	"time"

	"plimsoll/engine/field"
	"plimsoll/planner"
	"plimsoll/profile"
)

// KEDAOptions make a KEDA.
type KEDAOptions struct {
	Targets  []PoolTarget // its triggers, PerReplica; of several of a pool the one that asks for most holds
	Behavior Behavior     // of the HorizontalPodAutoscaler that it makes
	// EmptyIsZero is ignoreNullValues, which is on where nothing is said: a trigger without
	// series is 0. Without it the trigger fails and the replicas stay, as they do in any case
	// where Prometheus does not answer, which no replay has.
	EmptyIsZero bool
}

// KEDA is the rule of a KEDA ScaledObject with prometheus triggers, to compare with
// (kedacore/keda 8b4f083 of 2026-08-20, pkg/scaling/executor/scale_scaledobjects.go
// and pkg/scalers/prometheus_scaler.go). Between 1 and many replicas it is the
// HorizontalPodAutoscaler that KEDA makes, which asks for the metrics every 15 s
// whatever the polling interval is (HPA, which see), with the pool's least as
// minReplicaCount. KEDA itself switches a pool whose least is 0 off once all
// triggers were 0 for its cool-down of 300 s, and on when one is not; it looks for
// that as often as Propose is called, where its own polling interval is 30 s.
type KEDA struct {
	o      KEDAOptions
	b      behavior
	active map[planner.Role]time.Time // when a trigger was last above 0
}

const kedaCooldown = 300 * time.Second

var _ planner.Policy = (*KEDA)(nil)

// NewKEDA makes the policy.
func NewKEDA(o KEDAOptions) *KEDA {
	return &KEDA{o: o, active: map[planner.Role]time.Time{}}
}

// Propose divides each pool's totals by their targets.
func (k *KEDA) Propose(s planner.Situation) planner.Decision {
	var scaled []planner.Pool // those whose number is HPA's
	f, ok := byPool(s, func(f *draft, n *figures, p planner.Pool, seen planner.PoolObservation) {
		if !hasTarget(k.o.Targets, p.Role) {
			f.step("hold", p.Role, s.Have.Of(p.Role), "the pool has no trigger")
			return
		}
		n.zero = k.o.EmptyIsZero
		most, known := 0.0, len(n.missing)
		for _, t := range k.o.Targets {
			if t.Role == p.Role {
				most = max(most, n.value(s, seen, t))
			}
		}
		if n.zero && len(n.missing) > known {
			f.empty(p.Role, n.missing[known:])
		}
		if most > 0 || k.active[p.Role].IsZero() {
			k.active[p.Role] = s.End()
		}
		if k.switches(f, p, most, s.End()) {
			return
		}
		k.o.Behavior.most(f, n, s, p, k.o.Targets)
		scaled = append(scaled, p)
	})
	if ok {
		k.b.settle(f, s, scaled, k.o.Behavior)
	}
	return f.d
}

// empty says which triggers of a pool are 0 for want of series.
func (f *draft) empty(role planner.Role, names []string) {
	have, what := f.d.Want.Of(role), strings.Join(names, ", ")
	f.step("empty", role, have, "Prometheus has no %s, which KEDA takes for 0", what)
	f.d.Warnings = append(f.d.Warnings, profile.Warnf("empty_is_zero", "Prometheus has no %s. KEDA takes an empty result for 0 and scales down; with ignoreNullValues: \"false\" ("+field.OnMetricsLoss+" hold) it keeps its replicas", what))
}

// switches switches a pool on or off, and reports whether its replicas are KEDA's
// own and not HPA's.
func (k *KEDA) switches(f *draft, p planner.Pool, most float64, now time.Time) bool {
	have, quiet := f.d.Want.Of(p.Role), now.Sub(k.active[p.Role])
	switch {
	case have == 0 && most > 0:
		f.step("activation", p.Role, max(1, p.Min), "%.3g requests wait", most)
	case have == 0:
		f.step("hold", p.Role, 0, "nothing waits")
	case p.Min == 0 && most == 0 && quiet >= kedaCooldown:
		f.step("deactivation", p.Role, 0, "its triggers were 0 for %v", quiet)
	default:
		return false
	}
	return true
}
