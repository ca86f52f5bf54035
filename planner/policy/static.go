package policy

import (
	"encoding/json"
	"fmt"

	"plimsoll/planner"
)

// Static asks for the same replicas whatever is seen: a fleet without a planner,
// to compare with.
type Static struct{ Replicas planner.Replicas }

var _ planner.Policy = Static{}

// Check says what is wrong.
func (p Static) Check() error {
	r := p.Replicas
	for _, n := range []int{r.Prefill, r.Decode, r.Aggregated} {
		if n < 0 || n > mostReplicas {
			return fmt.Errorf("the static replicas are %s: want 0 to %d of each pool", r, mostReplicas)
		}
	}
	return nil
}

// Propose is always the same.
func (p Static) Propose(s planner.Situation) planner.Decision {
	f := begin(s)
	for _, pool := range f.dep.Pools {
		f.step("static", pool.Role, p.Replicas.Of(pool.Role), "always %d", p.Replicas.Of(pool.Role))
	}
	return f.d
}

const staticName = "static"

// Save gives nothing but the name: there is nothing to remember.
func (Static) Save() (json.RawMessage, error) { return named(staticName) }

// Restore refuses what another policy saved.
func (Static) Restore(b json.RawMessage) error { return forgetful(b, staticName) }
