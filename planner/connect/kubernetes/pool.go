package kubernetes

import (
	"fmt"
	"strings"

	"plimsoll/engine"
	"plimsoll/planner"
)

// pool is one role as the API server has it.
type pool struct {
	role     engine.Role
	name     string // of the service or the object
	want     int
	size     int // pods of a replica
	gpus     int // of a replica
	model    string
	selector string  // of its pods
	refused  string  // why pods are not even made
	about    subject // the object that Events are on
	at       place
	service  service // in a DynamoGraphDeployment; its zero value elsewhere
}

// place is where the number of replicas is written.
type place struct {
	object
	subresource string // "scale", or empty: the object itself
}

// patch makes n the pool's number at its place.
func (p pool) patch(n int) change {
	if p.at.subresource == "" {
		return p.service.patch(n)
	}
	return merge(map[string]any{"spec": map[string]any{"replicas": n}})
}

// state is what the planner sees of the pool, and why its last scaling is not
// finished. What is asked for and not ready starts, whether its pod is there or
// not; what is there beyond what is asked for will stop, whether it was told or
// not: both hold or will hold GPUs.
func (p pool) state(c census) (planner.PoolState, string) {
	s := planner.PoolState{
		Role: p.role, Name: p.name, Want: p.want, GPUs: p.gpus,
		Ready: c.ready, Starting: max(0, p.want-c.ready), Draining: c.draining + max(0, c.live-p.want),
		Pending: c.pending,
	}
	why := c.why
	if p.refused != "" {
		s.Pending += max(0, p.want-c.live)
		why = append(why, p.refused)
	}
	s.Pending = min(s.Pending, s.Starting)
	var under []string
	for _, w := range []struct {
		n    int
		what string
	}{{s.Starting - s.Pending, "starting"}, {s.Pending, "without a place"}, {s.Draining, "draining"}} {
		if w.n > 0 {
			under = append(under, fmt.Sprintf("%d %s", w.n, w.what))
		}
	}
	if len(under) == 0 {
		return s, ""
	}
	text := fmt.Sprintf("%s: %s", p.role, strings.Join(under, ", "))
	if len(why) > 0 && s.Starting > 0 {
		text += " (" + strings.Join(why, "; ") + ")"
	}
	return s, text
}
