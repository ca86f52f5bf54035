package local

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"plimsoll/engine/process"
	"plimsoll/planner"
)

// view says what the file says, less what died since.
func (t *Target) view(d *document) planner.State {
	var s planner.State
	var under []string
	taken, _ := d.taken()
	for _, p := range t.opts.Pools {
		pool, waits := t.viewPool(d, p, &taken)
		s.Pools = append(s.Pools, pool)
		under = append(under, waits...)
		s.Model = p.Config.Model
	}
	s.Scaling = strings.Join(under, "; ")
	return s
}

// viewPool is one pool; taken are the GPUs that others have, to which those are
// added that its missing workers will get.
func (t *Target) viewPool(d *document, p Pool, taken *[]string) (planner.PoolState, []string) {
	base := t.opts.base(p)
	s := planner.PoolState{Role: p.Config.Role, Name: p.Component, Want: -1, GPUs: p.Config.GPUs()}
	var under []string
	for _, name := range d.of(base, Starting, Ready, Draining) {
		e := d.entries[name]
		if e.own.State != Draining && e.own.PID != 0 && !e.own.handle().Leads() {
			continue // died, and is not buried yet
		}
		switch e.own.State {
		case Ready:
			s.Ready++
		case Draining:
			s.Draining++
			under = append(under, strings.TrimSuffix(fmt.Sprintf("%s drains: %s", name, t.stuck[name]), ": "))
		case Starting:
			s.Starting++
			under = append(under, name+" starts")
		}
	}
	b := d.entries[base]
	if b == nil || b.own.Want == nil {
		return s, under
	}
	s.Want = *b.own.Want
	missing := max(0, s.Want-s.Ready-s.Starting)
	s.Starting += missing
	for range missing {
		gpus, err := process.Assign(t.opts.devices(), *taken, s.GPUs)
		if err != nil {
			s.Pending++
		}
		*taken = slices.Concat(*taken, gpus)
	}
	if s.Pending > 0 {
		under = append(under, fmt.Sprintf("%d %s wait for %d GPUs each", s.Pending, p.Component, s.GPUs))
	}
	if missing > s.Pending {
		under = append(under, fmt.Sprintf("%d %s are to be started%s", missing-s.Pending, p.Component, setback(b.own)))
	}
	return s, under
}

// setback is why a pool's next start is put off; the log lines are left out.
func setback(b record) string {
	if b.Failures == 0 {
		return ""
	}
	how, _, _ := strings.Cut(b.Failure, "\n")
	return fmt.Sprintf(" at %s, after %d failures: %s", b.RetryAt.Format(time.TimeOnly), b.Failures, strings.TrimSuffix(how, "; its last log lines:"))
}
