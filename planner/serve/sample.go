package serve

import (
	"context"
	"errors"
	"fmt"
	"time"

	"plimsoll/planner"
)

// watched is one pool over the interval.
type watched struct {
	ready   int
	changed bool
}

// scaling is the last one asked for.
type scaling struct {
	asked   time.Time // zero: none that we asked for is under way
	seen    time.Time // when one was first seen, whoever asked for it; zero: none is
	took    time.Duration
	outlast bool // it was said that it outlasts the interval
	waited  bool // a decision was put off for it as long as may be
}

// sample looks at target and source once. It is false while a scaling is waited
// for.
func (r *Runner) sample(ctx context.Context) bool {
	s, err := r.state(ctx)
	if err != nil {
		r.problem(ctx, "the target's replicas are unknown", err)
		return true // what is known stays; time goes on
	}
	r.use(s)
	r.watch(s)
	if s.Trouble != r.trouble {
		if r.trouble = s.Trouble; s.Trouble != "" {
			r.emit(Warned, "the deployment: "+s.Trouble, nil, nil)
		}
	}
	switch {
	case s.Scaling == "":
		r.scaling.seen = time.Time{}
	case r.scaling.seen.IsZero():
		r.scaling.seen = time.Now()
	}
	if s.Scaling == "" && !r.scaling.asked.IsZero() {
		r.scaling.took, r.scaling.asked, r.scaling.outlast = time.Since(r.scaling.asked), time.Time{}, false
		r.grow()
	}
	if r.o.Blocking && s.Scaling != "" && time.Since(r.scaling.seen) < r.o.ScalingTimeout {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, r.o.CallTimeout)
	defer cancel()
	if err := r.o.Source.Sample(ctx, s); err != nil {
		r.problem(ctx, "the metrics were not sampled", err)
	}
	return true
}

// problem reports what failed, unless it is that the planner is told to stop.
func (r *Runner) problem(ctx context.Context, what string, err error) {
	if !errors.Is(ctx.Err(), context.Canceled) {
		r.emit(Failed, fmt.Sprintf("%s: %v", what, err), nil, nil)
	}
}

// watch notes pools whose ready replicas change within the interval.
func (r *Runner) watch(s planner.State) {
	for _, p := range s.Pools {
		w := r.pools[p.Role]
		if w == nil {
			r.pools[p.Role] = &watched{ready: p.Ready}
			continue
		}
		w.changed = w.changed || w.ready != p.Ready
		w.ready = p.Ready
	}
}

// use adds the GPUs that the replicas held since the last sample. Those that were
// asked for and are nowhere yet hold none, but nobody else may have them.
func (r *Runner) use(s planner.State) {
	now, gpus, claimed := time.Now(), 0, 0
	d := r.Deployment()
	for _, p := range s.Pools {
		each := d.Pool(p.Role).GPUs
		gpus += each * (p.Ready + p.Starting - p.Pending + p.Draining)
		claimed += each * (max(p.Want, p.Ready+p.Starting) + p.Draining)
	}
	if !r.usedUntil.IsZero() {
		r.set(func(st *Status) { st.GPUHours += float64(gpus) * now.Sub(r.usedUntil).Hours() })
	}
	r.usedUntil = now
	r.o.Budget.holds(r.o.Name, claimed)
}

// mostGrowth bounds how much longer than asked for an interval may get.
const mostGrowth = 4

// grow sets the interval to what scaling takes, where that is longer.
func (r *Runner) grow() {
	was := r.Status().Interval
	to := min(max(r.o.Interval, r.scaling.took.Round(time.Second)), mostGrowth*r.o.Interval)
	if to == was {
		return
	}
	r.set(func(s *Status) { s.Interval = to })
	r.emit(Warned, fmt.Sprintf("a scaling took %v: decisions come every %v now", r.scaling.took.Round(time.Second), to), nil, nil)
}

// postpone says why a decision that is due waits: a scaling that outlasts the
// interval, once and for mostGrowth intervals at most. Replicas that find no GPUs,
// or one that drains for hours, would stop or slow the planner for ever otherwise
// (dynamo#14251).
func (r *Runner) postpone(now time.Time) string {
	if r.scaling.asked.IsZero() || r.scaling.waited || r.o.Blocking {
		return ""
	}
	lasts := now.Sub(r.scaling.asked)
	if lasts < r.o.Interval {
		return ""
	}
	if now.Sub(r.began) >= mostGrowth*r.o.Interval {
		r.scaling.waited = true
		return ""
	}
	why := fmt.Sprintf("the scaling asked for %v ago is not finished (%s): the interval grows until it is, to %v at most", lasts.Round(time.Second), r.Status().State.Scaling, mostGrowth*r.o.Interval)
	if !r.scaling.outlast {
		r.scaling.outlast = true
		r.emit(Warned, why, nil, nil)
	}
	return why
}
