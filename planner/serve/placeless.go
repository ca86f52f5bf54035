package serve

import (
	"fmt"
	"time"

	"plimsoll/planner"
)

// placeless follows replicas that find no GPUs to run on. A planner that decides
// whatever is under way takes no other notice of them, and they may wait for ever.
type placeless struct {
	since time.Time // zero: every replica has a place
	said  bool
}

// see gives what a user wants to know, once: that replicas are without a place for
// as long as patience.
func (p *placeless) see(s planner.State, now time.Time, patience time.Duration) (news string) {
	waiting := 0
	for _, pool := range s.Pools {
		waiting += pool.Pending
	}
	switch {
	case waiting == 0:
		*p = placeless{}
	case p.since.IsZero():
		p.since = now
	case !p.said && now.Sub(p.since) >= patience:
		p.said = true
		return fmt.Sprintf("replicas find no place to run for %v (%s): decisions go on", now.Sub(p.since).Round(time.Second), s.Scaling)
	}
	return ""
}
