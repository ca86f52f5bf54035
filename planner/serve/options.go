package serve

import (
	"context"
	"errors"
	"fmt"
	"time"

	"plimsoll/planner"
)

// Options make a Runner.
type Options struct {
	Name   string // of the deployment: its namespace; in events, metrics and the state file
	Model  string // that the deployment must serve; empty: any
	Source planner.Source
	Target planner.Target
	Core   *planner.Core
	// Profile identifies the content of the profile that the core decides by: history
	// by another is not taken up again. Empty: there is none.
	Profile string

	Interval time.Duration // between decisions
	Pull     time.Duration // between samples, at most Interval
	// Blocking waits, without sampling, until a scaling is finished; otherwise
	// decisions go on, and the interval grows where scaling outlasts it.
	Blocking       bool
	Steady         bool          // decisions come every Interval whatever starts: planner.Pace
	ScalingTimeout time.Duration // after which a scaling is no longer waited for
	CallTimeout    time.Duration // of one call of Source or Target
	StartTimeout   time.Duration // for the deployment to be there

	Budget   *Budget // shared with other deployments; nil: the deployment's own is all
	Priority int     // in it; higher is served first
	Weight   int     // in it, among equal priorities

	// Lead waits until this process may act and runs while it may, again and
	// again; nil: it may always.
	Lead func(ctx context.Context, run func(context.Context) error) error

	Advise    bool   // decide and say so, ask for nothing, until Reset says otherwise
	StatePath string // file that remembers over a restart; empty: nothing is remembered
	// On takes every event, one at a time, and must return at once.
	On func(Event)
}

func (o Options) check() error {
	var errs []error
	bad := func(wrong bool, format string, args ...any) {
		if wrong {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	bad(o.Name == "", "the deployment has no name")
	bad(o.Source == nil || o.Target == nil || o.Core == nil, "a source, a target or a core is missing")
	bad(o.Interval < time.Second || o.Interval > 24*time.Hour, "the adjustment interval is %v: want 1s to 24h", o.Interval)
	bad(o.Pull < 100*time.Millisecond || o.Pull > o.Interval, "the metric-pulling interval is %v: want 100ms to the adjustment interval, %v", o.Pull, o.Interval)
	bad(o.ScalingTimeout <= 0, "the scaling timeout is %v: want above 0", o.ScalingTimeout)
	bad(o.CallTimeout <= 0, "the call timeout is %v: want above 0", o.CallTimeout)
	bad(o.StartTimeout <= 0, "the start timeout is %v: want above 0", o.StartTimeout)
	bad(o.On == nil, "nobody takes the events")
	return errors.Join(errs...)
}
