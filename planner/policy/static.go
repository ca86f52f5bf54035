package policy

import "plimsoll/planner"

// Static asks for the same replicas whatever is seen: a fleet without a planner,
// to compare with.
type Static struct{ Replicas planner.Replicas }

var _ planner.Policy = Static{}

// Propose is always the same.
func (p Static) Propose(s planner.Situation) planner.Decision {
	f := begin(s)
	for _, pool := range f.dep.Pools {
		f.step("static", pool.Role, p.Replicas.Of(pool.Role), "always %d", p.Replicas.Of(pool.Role))
	}
	return f.d
}
