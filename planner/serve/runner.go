package serve

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"plimsoll/planner"
)

// Runner runs the planner of one deployment. Run runs once at a time; the other
// methods are for any goroutine.
type Runner struct {
	o Options

	emitting sync.Mutex // one event at a time

	mu     sync.Mutex // guards what follows, and the core
	status Status

	// Of Run's goroutine alone:
	cadence   *planner.Cadence
	pools     planner.Watch
	trouble   string    // of the target, as it was said last
	unsampled string    // why, as it was said last
	usedUntil time.Time // GPU-hours are counted up to here; zero: from the next sample on
}

// Status is how a Runner stands.
type Status struct {
	Name     string            `json:"deployment"`
	Ready    bool              `json:"ready"`             // the deployment was seen, and the source answered
	Waiting  string            `json:"waiting,omitempty"` // why the deployment is not seen yet
	Standby  bool              `json:"standby"`           // another planner leads
	Advise   bool              `json:"advisory"`
	State    planner.State     `json:"state"`
	SeenAt   time.Time         `json:"state_seen_at"`
	Problem  string            `json:"problem,omitempty"`         // why State is old
	Heard    time.Time         `json:"metrics_answered_at"`       // by the source, be it that it has nothing of the deployment
	Unheard  string            `json:"metrics_problem,omitempty"` // why it did not answer since
	Next     time.Time         `json:"next_decision"`
	Interval time.Duration     `json:"interval_ns"` // in force: grown where scaling takes longer
	Last     *planner.Decision `json:"last_decision,omitempty"`
	GPUHours float64           `json:"gpu_hours"` // used since the planner first saw the deployment
}

// New makes a Runner; the error names what is wrong with the options. What it
// remembered is read when it runs.
func New(o Options) (*Runner, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	r := &Runner{o: o, status: Status{Name: o.Name, Advise: o.Advise}}
	r.forget()
	d := o.Core.Deployment()
	o.Budget.join(o.Name, planner.Ask{Priority: o.Priority, Weight: o.Weight, Pair: d.GPUs(d.Pair()), Least: d.GPUs(d.Least())})
	return r, nil
}

// Status is how things stand now.
func (r *Runner) Status() Status {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.status
}

// set changes the status.
func (r *Runner) set(change func(*Status)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change(&r.status)
}

// Run runs the planner until ctx ends, while this process may act.
func (r *Runner) Run(ctx context.Context) error {
	if r.o.Lead == nil {
		return r.run(ctx)
	}
	r.set(func(s *Status) { s.Standby = true })
	return r.o.Lead(ctx, func(ctx context.Context) error {
		r.set(func(s *Status) { s.Standby = false })
		defer r.set(func(s *Status) { s.Standby = true })
		return r.run(ctx)
	})
}

// run waits for the deployment, then samples and decides until ctx ends. Ticks
// keep to a grid: a slow call delays one, not all that follow.
func (r *Runner) run(ctx context.Context) error {
	release, err := r.own()
	if err != nil {
		return err
	}
	defer release()
	r.forget()
	if err := r.await(ctx); err != nil {
		return err
	}
	if err := r.restore(); err != nil {
		return err
	}
	r.cadence = planner.Pace{Every: r.o.Interval, Blocking: r.o.Blocking, Timeout: r.o.ScalingTimeout, Steady: r.o.Steady}.Begin(time.Now())
	tick := r.cadence.Due().Add(-r.o.Interval)
	doing, each := r.mode()
	r.emit(Started, fmt.Sprintf("%s every %v%s", doing, r.o.Interval, each), nil, nil)
	defer func() {
		r.emit(Finished, doing, nil, nil)
	}()
	r.sample(ctx) // counters of the first interval begin here
	r.bound(ctx)
	r.set(func(s *Status) { s.Next = r.cadence.Due() })
	for {
		tick = planner.OnGrid(tick, r.o.Pull, time.Now())
		if sleep(ctx, tick) != nil {
			return nil
		}
		if !r.sample(ctx) {
			continue
		}
		ready, news := r.cadence.Ready(time.Now())
		r.warn(news)
		if !ready {
			continue
		}
		r.decide(ctx)
		r.cadence.Plan(time.Now())
		r.set(func(s *Status) { s.Next = r.cadence.Due() })
	}
}

// forget is for a planner that leads again: what it saw while it led before is of
// another time, in which somebody else may have scaled.
func (r *Runner) forget() {
	r.pools, r.trouble, r.unsampled, r.usedUntil = planner.Watch{}, "", "", time.Time{}
	r.set(func(s *Status) {
		s.Interval, s.Waiting, s.Ready, s.Heard, s.Unheard = r.o.Interval, "it was not looked for yet", false, time.Time{}, ""
	})
}

// mode is what the planner does, and what else to say of it.
func (r *Runner) mode() (doing, each string) {
	if r.Status().Advise {
		return "observing", "; decisions are advice only, nothing is scaled"
	}
	return "deciding", ""
}

// sleep until an instant.
func sleep(ctx context.Context, until time.Time) error {
	t := time.NewTimer(time.Until(until))
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
	return ctx.Err()
}

// await polls until the deployment has all pools, and checks that it is the one
// that is meant. Advice begins without: it says what is waited for, and observes.
func (r *Runner) await(ctx context.Context) error {
	deadline, said := time.Now().Add(r.o.StartTimeout), ""
	for {
		why, err := r.look(ctx)
		switch {
		case err != nil:
			return err
		case why == "" || r.Status().Advise:
			if why != "" {
				r.emit(Warned, waiting+why, nil, nil)
			}
			r.set(func(s *Status) { s.Waiting = "" })
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case time.Now().After(deadline):
			return fmt.Errorf("the deployment %s is not there after %v: %s", r.o.Name, r.o.StartTimeout, why)
		case why != said:
			r.emit(Warned, waiting+why, nil, nil)
			said = why
		}
		r.set(func(s *Status) { s.Waiting = why })
		if err := sleep(ctx, time.Now().Add(r.o.Pull)); err != nil {
			return err
		}
	}
}

const waiting = "waiting for the deployment: "

// ErrWrongModel says that the deployment serves another model than is planned for.
var ErrWrongModel = errors.New("the deployment serves another model")

// look checks the deployment once: why it is not ready, or what is wrong for good.
func (r *Runner) look(ctx context.Context) (why string, err error) {
	s, unseen := r.state(ctx)
	if unseen != nil {
		return unseen.Error(), nil //nolint:nilerr // it may come yet: await says why it waits
	}
	if r.o.Model != "" && s.Model != "" && s.Model != r.o.Model {
		return "", fmt.Errorf("%w: %q, not %q", ErrWrongModel, s.Model, r.o.Model)
	}
	for _, p := range r.o.Core.Deployment().Pools {
		seen, ok := s.Pool(p.Role)
		if !ok {
			return fmt.Sprintf("it has no %s workers", p.Role), nil
		}
		if seen.GPUs > 0 && seen.GPUs != p.GPUs {
			return "", fmt.Errorf("a %s replica of %s has %d GPUs, but the planner expects %d. Check the profile, or set --%s-engine-num-gpu", p.Role, seen.Name, seen.GPUs, p.GPUs, p.Role)
		}
	}
	return "", nil
}

// state asks the target, within the call's time.
func (r *Runner) state(ctx context.Context) (planner.State, error) {
	ctx, cancel := context.WithTimeout(ctx, r.o.CallTimeout)
	defer cancel()
	s, err := r.o.Target.State(ctx)
	r.set(func(st *Status) {
		if err != nil {
			st.Problem = err.Error()
			return
		}
		st.State, st.SeenAt, st.Problem = s, time.Now(), ""
	})
	return s, err
}
