package serve

import (
	"context"
	"fmt"
	"strings"
	"time"

	"plimsoll/planner"
)

// decide ends the interval: observe, decide, remember, act.
func (r *Runner) decide(ctx context.Context) {
	end := time.Now()
	o := r.observe(ctx, r.cadence.Take(end), end)
	if ctx.Err() == nil {
		r.settle(ctx, o, r.o.Core.StepWithin)
	}
}

// bound asks at once for what bounds and budget want, whatever comes later.
func (r *Runner) bound(ctx context.Context) {
	now := time.Now()
	o := (&planner.Watch{}).Complete(planner.Observation{}, r.Status().State, now, now)
	r.mu.Lock()
	outside := r.o.Core.Bound(o, planner.Unshared()).Act
	r.mu.Unlock()
	if outside {
		r.settle(ctx, o, r.o.Core.Bound)
	}
}

// settle makes a decision of an observation, remembers and carries it out.
func (r *Runner) settle(ctx context.Context, o planner.Observation, step func(planner.Observation, planner.Share) planner.Decision) {
	end, st := o.End(), r.Status()
	dep, d := r.Deployment(), planner.Decision{}
	r.o.Budget.decide(r.o.Name, dep.GPUs(dep.Least()), func(share planner.Share) (wanted, granted int) {
		r.mu.Lock()
		defer r.mu.Unlock()
		d = step(o, share)
		return dep.Budget.Cap(dep.GPUs(d.Proposed)), d.GPUs
	})
	if st.Problem != "" && d.Act {
		d.Act = false
		d.Steps = append(d.Steps, planner.Step{Rule: "hold", Why: "the target could not be read: " + st.Problem})
	}
	acts := d.Act && !st.Advise
	if acts {
		r.mu.Lock()
		r.o.Core.Asking(d.Want)
		r.mu.Unlock()
	}
	r.set(func(s *Status) { s.Last = &d })
	r.emit(Decided, "", &o, &d)
	r.save(end)
	switch {
	case acts:
		r.act(ctx, d, end)
	case d.Act:
		r.emit(Advised, "would ask for "+d.Words(d.Want), nil, &d)
	}
}

// observe is the interval, with whatever could be seen of it.
func (r *Runner) observe(ctx context.Context, start, end time.Time) planner.Observation {
	call, cancel := context.WithTimeout(ctx, r.o.CallTimeout)
	defer cancel()
	o, err := r.o.Source.Observe(call, start, end)
	r.heard(call, err)
	if err != nil {
		r.problem(ctx, "the interval was not observed", err)
		o = planner.Observation{Problems: []string{err.Error()}}
	}
	return r.pools.Complete(o, r.Status().State, start, end)
}

// act asks the target. What fails is asked for again after the next interval, by
// a decision made then.
func (r *Runner) act(ctx context.Context, d planner.Decision, end time.Time) {
	call, cancel := context.WithTimeout(ctx, r.o.CallTimeout)
	defer cancel()
	if err := r.o.Target.Scale(call, d.Want, reason(d)); err != nil {
		r.problem(ctx, "scaling to "+d.Words(d.Want), err)
		return
	}
	r.mu.Lock()
	r.o.Core.Asked(d.Want)
	r.mu.Unlock()
	r.cadence.Asked(time.Now())
	r.emit(Scaled, fmt.Sprintf("%s, from %s", d.Words(d.Want), d.Words(d.From)), nil, &d)
	r.save(end)
}

// reason is the steps that changed something, in a line.
func reason(d planner.Decision) string {
	var out []string
	for _, s := range d.Steps {
		if s.From != s.To {
			out = append(out, fmt.Sprintf("%s %d to %d: %s", strings.TrimSpace(string(s.Role)+" "+s.Rule), s.From, s.To, s.Why))
		}
	}
	return strings.Join(out, "; ")
}
