package planner

import (
	"context"
	"errors"
	"time"
)

// ErrNothingSeen is wrapped where a Source was answered, and nothing there is of the
// deployment: no traffic came yet, or its names are wrong.
var ErrNothingSeen = errors.New("nothing of the deployment is there")

// Source sees a deployment's traffic. What it cannot see is missing in what it
// gives, never 0; an error is for what makes the whole useless.
type Source interface {
	// Sample looks once. It is called every metric-pulling interval with the
	// replicas that there are, so that gauges are averaged over the interval. The first
	// calls, until one is answered, tell whether there is a source at all.
	Sample(ctx context.Context, s State) error
	// Observe gives the figures from start to end, which is now, and begins the
	// next interval. Its pools hold what was seen of them; their PoolState and
	// Changed are filled in by whoever runs the planner.
	Observe(ctx context.Context, start, end time.Time) (Observation, error)
}

// Target is where replicas live: an orchestrator, or this machine.
type Target interface {
	// State reads the replicas that there are. It is called before each decision,
	// so that what others changed by hand is seen.
	State(ctx context.Context) (State, error)
	// Scale asks for the replicas of every pool that the deployment has, and
	// returns once the asking is recorded, not once they run: State says that.
	// Asking again for what was asked for is no action. reason is for the
	// target's own log or events.
	Scale(ctx context.Context, want Replicas, reason string) error
}

// State is what a Target says of itself.
type State struct {
	Pools []PoolState
	// Scaling is why the last Scale is not finished (a start, a drain, an
	// acknowledgement that is awaited); empty where nothing is under way.
	Scaling string
	// Trouble is what keeps the replicas from those asked for and does not pass by
	// itself: no GPUs are free, a worker keeps dying. It is said once; empty where
	// there is none.
	Trouble string
	Model   string // name that is served, where the target knows; else empty
}

// PoolState is one pool of a Target.
type PoolState struct {
	Role     Role
	Name     string // the target's own: a service, a component
	Want     int    // asked for, by whomever; -1: nothing was yet
	Ready    int    // serving
	Starting int    // asked for and not serving yet, of which Pending have no place
	Pending  int    // waiting for GPUs that there are not
	Draining int    // finishing their requests
	GPUs     int    // of one replica; 0: the target does not know
	// NoRecord says that a target which has nothing but a record of what is asked for, and
	// does not know what runs, is without it.
	NoRecord bool `json:"-"`
	// Lost says that there was such a record: Want is what the target remembers of it, or -1.
	Lost bool `json:"-"`
}

// Pool is the pool of a role; ok is false where there is none.
func (s State) Pool(r Role) (p PoolState, ok bool) {
	for _, p := range s.Pools {
		if p.Role == r {
			return p, true
		}
	}
	return PoolState{}, false
}
