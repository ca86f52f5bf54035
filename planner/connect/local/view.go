package local

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"plimsoll/engine"
	"plimsoll/engine/process"
	"plimsoll/planner"
)

// troubleAfter is how many failures in a row are no accident any more.
const troubleAfter = 3

// report collects what is under way and what is wrong, in words.
type report struct{ scaling, trouble []string }

// add takes a reason down. Only what will pass by itself is Scaling: a policy
// may wait for that, and must not wait for what stays.
func (r *report) add(stays bool, format string, args ...any) {
	if stays {
		r.trouble = append(r.trouble, fmt.Sprintf(format, args...))
	} else {
		r.scaling = append(r.scaling, fmt.Sprintf(format, args...))
	}
}

// view says what the file says, less what died since.
func (t *Target) view(d *document) planner.State {
	var s planner.State
	var r report
	taken, _ := d.taken()
	for _, p := range t.opts.Pools {
		s.Pools = append(s.Pools, t.viewPool(d, p, &taken, &r))
		s.Model = p.Config.Model
	}
	s.Scaling, s.Trouble = strings.Join(r.scaling, "; "), strings.Join(r.trouble, "; ")
	return s
}

// viewPool is one pool; taken are the GPUs that others have, to which those are
// added that its missing workers will get.
func (t *Target) viewPool(d *document, p Pool, taken *[]string, r *report) planner.PoolState {
	base := t.opts.base(p)
	s := planner.PoolState{Role: p.Config.Role, Name: p.Component, Want: -1, GPUs: p.Config.GPUs()}
	var own record // the pool's, in its first entry
	if b := d.entries[base]; b != nil {
		own = b.own
	}
	failing := own.Failures >= troubleAfter
	for _, name := range d.of(base, Starting, Ready, Draining) {
		o := d.entries[name].own
		if o.State != Draining && o.PID != 0 && !o.handle().Leads() {
			continue // died, and is not buried yet
		}
		switch o.State {
		case Ready:
			s.Ready++
		case Draining:
			s.Draining++
			why := "drains"
			if t.stuck[name] != "" {
				why += ": " + t.stuck[name]
			}
			r.add(t.now().Sub(o.DrainAt) > p.Template.Grace, "%s %s", name, why)
		case Starting:
			s.Starting++
			r.add(failing, "%s starts", name)
		}
	}
	if own.Want == nil {
		return s
	}
	s.Want = *own.Want
	missing := max(0, s.Want-s.Ready-s.Starting)
	s.Starting += missing
	var others []string
	if missing > 0 {
		others = t.elsewhere()
	}
	for range missing {
		gpus, err := process.Assign(t.opts.Devices(), slices.Concat(*taken, others), s.GPUs)
		if err != nil {
			s.Pending++
		}
		*taken = slices.Concat(*taken, gpus)
	}
	if s.Pending > 0 {
		why := fmt.Sprintf("%d %s wait for %s each", s.Pending, p.Component, engine.Count(s.GPUs, "GPU"))
		if len(others) > 0 {
			why += ": workers of other namespaces have " + strings.Join(others, ",")
		}
		r.add(true, "%s", why)
	}
	if missing > s.Pending {
		r.add(failing, "%d %s are to be started%s", missing-s.Pending, p.Component, setback(own))
	}
	return s
}

// setback is why a pool's next start is put off; the log lines are left out.
func setback(b record) string {
	if b.Failures == 0 {
		return ""
	}
	how, _, _ := strings.Cut(b.Failure, "\n")
	return fmt.Sprintf(" at %s, after %d failures: %s", b.RetryAt.Format(time.TimeOnly), b.Failures, how)
}
