package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"plimsoll/engine/process"
)

// deathTail is how many of a dead worker's last log lines are reported.
const deathTail = 12

// turn is one reading, deciding and writing of the state file under its lock.
type turn struct {
	*Target
	doc    *document
	seen   map[string]sight
	now    time.Time
	orders []order
	failed map[string]bool // pools, by base, one of whose workers died in this turn
	gpus   *os.File        // lock on those that other planners may assign, too; nil: none are assigned
	others []string        // GPUs that their workers have
}

// order is a signal to send once the file says so: whoever is killed in between
// leaves a signal unsent, never one that is sent twice to a worker that serves.
type order struct {
	name string
	to   []process.Handle
	sig  syscall.Signal
}

// turn does what is due, with what was seen before and after a change of what
// is wanted. What is to be done is on disk before it is done.
func (t *Target) turn(ctx context.Context, seen map[string]sight, change func(*document)) (d *document, err error) {
	lock, err := lockFile(ctx, t.opts.Path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	if err := t.own(); err != nil {
		return nil, err
	}
	if d, err = t.load(); err != nil {
		return nil, err
	}
	if err := t.checkHost(d); err != nil {
		return nil, err
	}
	r := turn{Target: t, doc: d, seen: seen, now: t.now(), failed: map[string]bool{}}
	if !t.adopted {
		t.adopt(d)
	}
	if change != nil {
		change(d)
	}
	r.bury()
	r.watch()
	r.rise()
	r.forget()
	r.shrink()
	r.drain()
	defer func() { err = errors.Join(err, r.release()) }()
	launches, err := r.grow(ctx)
	if err != nil {
		return nil, err
	}
	if err := d.write(t.opts.Path); err != nil {
		return nil, err
	}
	t.adopted = true
	err = r.send()
	if len(launches) > 0 {
		r.launch(context.WithoutCancel(ctx), launches)
		err = errors.Join(err, d.write(t.opts.Path))
	}
	t.written = d.text
	return d, err
}

// reserve keeps other planners from assigning GPUs until the turn ends, by when the workers
// that it starts carry their marks.
func (r *turn) reserve(ctx context.Context) (err error) {
	if r.gpus == nil {
		r.gpus, err = lockFile(ctx, filepath.Join(filepath.Dir(r.opts.Path), "gpus"))
		r.others = r.elsewhere()
	}
	return err
}

func (r *turn) release() error {
	if r.gpus == nil {
		return nil
	}
	return r.gpus.Close()
}

// checkHost refuses a file with workers of another machine, of which nothing can
// be seen here. After a new start of this machine they are gone.
func (t *Target) checkHost(d *document) error {
	for _, name := range d.names() {
		if o := d.entries[name].own; o.State != "" && o.Boot != t.self.Boot && o.Host != t.host {
			return fmt.Errorf("state file %s: worker %s runs on %s, but this machine is %s. Set %s to a folder of this machine, or move the file away if that worker is gone",
				t.opts.Path, name, o.Host, t.host, stateDirVar)
		}
	}
	return nil
}

// bury takes dead workers off the file and frees what they had.
func (r *turn) bury() {
	for _, name := range r.doc.names() {
		e := r.doc.entries[name]
		if e.own.State == "" || r.found(name, e) && e.own.handle().Leads() {
			continue
		}
		left := r.members(e.own)
		if e.own.State != Draining && e.own.PID != 0 {
			r.died(name, e)
			if len(left) > 0 { // no use without their leader, as engine/process has it
				e.own.State, e.own.DrainAt, e.own.TermAt, e.own.Crashed = Draining, r.now, r.now, true
			}
		}
		if len(left) > 0 {
			continue // drain ends them
		}
		if e.own.State == Draining {
			r.note("%s: ended%s", name, r.pastOf(name, e).lost())
		}
		r.doc.remove(name)
		delete(r.started, name)
		delete(r.stuck, name)
		delete(r.past, name)
	}
}

// found fills in the process of a worker that a run of the program started and
// could not write down any more; false where it did not come to that.
func (r *turn) found(name string, e *entry) bool {
	if e.own.PID != 0 {
		return true
	}
	for _, m := range slices.Backward(r.marked()) {
		if m.Name == name && m.Log == e.own.Log {
			r.note("%s: found as process %d, which was not written down", name, m.of.PID)
			e.own.PID, e.own.Start, e.own.Boot = m.of.PID, m.of.Start, m.of.Boot
			e.own.Port, e.own.URL = m.Port, urlOf(m.Port)
			return true
		}
	}
	return false
}

// died reports the end of a worker that nobody asked to.
func (r *turn) died(name string, e *entry) {
	lines := process.Tail(e.own.Log, deathTail)
	how := fmt.Sprintf("%s ended; its exit code is unknown, as an earlier run started it\n  its last log lines:\n  | %s", name, strings.Join(lines, "\n  | "))
	if p := r.started[name]; p != nil && p.PID() == e.own.PID {
		select {
		case <-p.Done():
			how = p.Err().Error()
		case <-time.After(time.Second): // its end is seen before it is waited for
		}
	}
	r.fail(name, e.own.ReadyAt, how)
}

// fail notes the failure of a pool's worker and puts the next start off: twice
// as long as the last time, unless this one was ready for long.
func (r *turn) fail(name string, ready time.Time, how string) {
	how = r.secrets.Text(how) // it is written down, too
	r.note("%s", how)
	base, _ := split(name)
	b := r.doc.entries[base]
	if b == nil || r.failed[base] {
		return
	}
	r.failed[base] = true
	if !ready.IsZero() && r.now.Sub(ready) > r.opts.MaxBackoff {
		b.own.Failures = 0
	}
	b.own.Failures++
	b.own.Failure = how
	b.own.RetryAt = r.now.Add(r.backoff(b.own.Failures))
}

func (r *turn) backoff(failures int) time.Duration {
	wait := r.opts.Backoff
	for i := 1; i < failures && wait < r.opts.MaxBackoff; i++ {
		wait *= 2
	}
	return min(wait, r.opts.MaxBackoff)
}

// sight is what was seen of the very process that the entry is about.
func (r *turn) sight(name string, e *entry) (sight, bool) {
	s, ok := r.seen[name]
	return s, ok && s.of == e.own.handle()
}

// rise makes those ready that answer, and gives up those that take too long.
func (r *turn) rise() {
	for _, name := range r.doc.names() {
		e := r.doc.entries[name]
		if e.own.State != Starting {
			continue
		}
		p, ok := r.pool(name)
		if s, seen := r.sight(name, e); seen && s.unready == nil {
			e.own.State, e.own.ReadyAt = Ready, r.now
			r.note("%s: ready after %v", name, r.now.Sub(e.own.StartedAt).Round(time.Millisecond))
		} else if ok && r.now.Sub(e.own.StartedAt) > p.Template.ReadyTimeout {
			r.fail(name, time.Time{}, fmt.Sprintf("%s is not ready after %v\n  its last log lines:\n  | %s",
				name, p.Template.ReadyTimeout, strings.Join(process.Tail(e.own.Log, deathTail), "\n  | ")))
			e.own.State, e.own.DrainAt = Draining, r.now
		}
	}
}

// forget clears the failures of pools that have been whole for long.
func (r *turn) forget() {
	for _, p := range r.opts.Pools {
		base := r.opts.base(p)
		b := r.doc.entries[base]
		if b == nil || b.own.Failures == 0 || b.own.Want == nil || r.now.Sub(b.own.RetryAt) <= r.opts.MaxBackoff {
			continue
		}
		if len(r.doc.of(base, Ready)) >= *b.own.Want {
			b.own.Failures, b.own.Failure, b.own.RetryAt = 0, "", time.Time{}
		}
	}
}

// shrink marks those beyond what is wanted as draining, the newest first.
func (r *turn) shrink() {
	for _, p := range r.opts.Pools {
		base := r.opts.base(p)
		b := r.doc.entries[base]
		if b == nil || b.own.Want == nil {
			continue
		}
		live := r.doc.of(base, Starting, Ready)
		for _, name := range live[min(len(live), *b.own.Want):] {
			e := r.doc.entries[name]
			e.own.State, e.own.DrainAt = Draining, r.now
			r.note("%s: to end, %d are wanted", name, *b.own.Want)
		}
	}
}

// send carries out the orders.
func (r *turn) send() error {
	var errs []error
	for _, o := range r.orders {
		for _, h := range o.to {
			if err := h.Signal(o.sig); err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", o.name, err))
			}
		}
	}
	return errors.Join(errs...)
}
