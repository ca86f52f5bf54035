package policy

import "plimsoll/planner"

// HPAOptions make an HPA. Start from DefaultBehavior.
type HPAOptions struct {
	Targets  []PoolTarget // of several of a pool the one that asks for most holds; pools without one stay as they are
	Behavior Behavior
}

// HPA is the rule of Kubernetes' HorizontalPodAutoscaler, to compare with
// (kubernetes v1.36.3, pkg/controller/podautoscaler): each metric of a pool gives
// replicas, the most of them holds, and the behavior block lets it come about as
// fast as it does. Its loop of 15 s is how often Propose is called; bounds and
// budget are the core's.
type HPA struct {
	o HPAOptions
	b behavior
}

var _ planner.Policy = (*HPA)(nil)

// NewHPA makes the policy.
func NewHPA(o HPAOptions) *HPA { return &HPA{o: o} }

// Propose compares each pool's metrics with their targets.
func (h *HPA) Propose(s planner.Situation) planner.Decision {
	f, ok := byPool(s, func(f *draft, n *figures, p planner.Pool, _ planner.PoolObservation) {
		switch {
		case !hasTarget(h.o.Targets, p.Role):
			f.step("hold", p.Role, s.Have.Of(p.Role), "the pool has no target")
		case s.Have.Of(p.Role) == 0:
			f.step("hold", p.Role, 0, "a pool without replicas is switched off")
		default:
			h.o.Behavior.most(f, n, s, p, h.o.Targets)
		}
	})
	if ok {
		h.b.settle(f, s, f.dep.Pools, h.o.Behavior)
	}
	return f.d
}
