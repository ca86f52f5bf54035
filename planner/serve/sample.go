package serve

import (
	"context"
	"errors"
	"fmt"
	"time"

	"plimsoll/planner"
)

// sample looks at target and source once. It is false while a scaling is waited
// for.
func (r *Runner) sample(ctx context.Context) bool {
	s, err := r.state(ctx)
	if err != nil {
		r.problem(ctx, "the target's replicas are unknown", err)
		return true // what is known stays; time goes on
	}
	r.use(s)
	r.pools.See(s)
	if s.Trouble != r.trouble {
		if r.trouble = s.Trouble; s.Trouble != "" {
			r.emit(Warned, "the deployment: "+s.Trouble, nil, nil)
		}
	}
	wait, news := r.cadence.See(s, time.Now())
	r.set(func(st *Status) { st.Interval = r.cadence.Interval() })
	r.warn(news)
	if wait {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, r.o.CallTimeout)
	defer cancel()
	why := ""
	err = r.o.Source.Sample(ctx, s)
	if !r.Status().Ready {
		r.heard(ctx, err)
	}
	if err != nil {
		why = err.Error()
	}
	if why != r.unsampled && why != "" {
		r.problem(ctx, "the metrics were not sampled", err)
	}
	r.unsampled = why
	return true
}

// heard notes whether the source answered.
func (r *Runner) heard(ctx context.Context, err error) {
	r.set(func(s *Status) {
		switch {
		case errors.Is(ctx.Err(), context.Canceled): // told to stop
		case err == nil || errors.Is(err, planner.ErrNothingSeen):
			s.Ready, s.Heard, s.Unheard = true, time.Now(), ""
		default:
			s.Unheard = err.Error()
		}
	})
}

// problem reports what failed, unless it is that the planner is told to stop.
func (r *Runner) problem(ctx context.Context, what string, err error) {
	if !errors.Is(ctx.Err(), context.Canceled) {
		r.emit(Failed, fmt.Sprintf("%s: %v", what, err), nil, nil)
	}
}

// warn says what a user wants to know; "" is nothing.
func (r *Runner) warn(news string) {
	if news != "" {
		r.emit(Warned, news, nil, nil)
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
