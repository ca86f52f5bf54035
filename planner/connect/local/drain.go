package local

import (
	"fmt"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"plimsoll/engine"
	"plimsoll/engine/process"
)

const (
	// unservedGrace is between TERM and KILL for a worker that never was ready.
	unservedGrace = 30 * time.Second
	// termAgain is when an idle worker gets TERM once more: the first one may have
	// been written down and never sent, and an idle one loses nothing by a second.
	termAgain = 10 * time.Second
)

// drain takes each draining worker one step further:
//
//	lease revoked → settle → (idle, or it drains by itself) TERM → what its
//	leader left behind TERM → grace over and idle KILL
func (r *turn) drain() {
	for _, name := range r.doc.names() {
		e := r.doc.entries[name]
		if e.own.State != Draining {
			continue
		}
		s, seen := r.sight(name, e)
		if seen && s.revoked != "" && s.revoked == string(e.rest[keyLease]) {
			delete(e.rest, keyLease)
		}
		left := r.members(e.own)
		step := r.step(name, e, s, seen, left)
		r.stuck[name] = step.why
		if step.sig == 0 {
			continue
		}
		r.note("%s: %s: %s", name, unix.SignalName(step.sig), step.why)
		r.orders = append(r.orders, order{name: name, to: step.to, sig: step.sig})
	}
}

// step is what is due for a draining worker.
type step struct {
	sig syscall.Signal // 0: nothing but to wait
	to  []process.Handle
	why string
}

func wait(format string, args ...any) step { return step{why: fmt.Sprintf(format, args...)} }

func (r *turn) step(name string, e *entry, s sight, seen bool, left []process.Handle) step {
	o := &e.own
	leader := []process.Handle{o.handle()}
	idle := seen && s.known && s.requests == 0
	unserved := o.ReadyAt.IsZero() && seen && !s.answers && (!s.known || idle)
	over := r.now.Sub(o.DrainAt) > r.grace(name)
	switch {
	case o.Crashed:
		return step{syscall.SIGKILL, left, "its leader died"}
	case o.TermAt.IsZero():
		due := r.due(name, e, s, seen, unserved)
		if due.sig != 0 {
			o.TermAt, due.to = r.now, leader
		}
		return due
	case over && idle, unserved && r.now.Sub(o.TermAt) > unservedGrace:
		return step{syscall.SIGKILL, left, fmt.Sprintf("it has not ended %v after TERM, and has no requests", r.now.Sub(o.TermAt).Round(time.Second))}
	case o.RestAt.IsZero() && !o.handle().Leads():
		o.RestAt = r.now
		return step{syscall.SIGTERM, left, "its leader ended, and these did not"}
	case idle && o.handle().Leads() && r.now.Sub(o.TermAt) > termAgain:
		o.TermAt = r.now
		return step{syscall.SIGTERM, leader, "it is idle and has not ended"}
	case over && seen && !s.known:
		return wait("process %d has not ended %v after TERM. It is not killed, as it may still serve (%v); if it has no requests, kill it by hand", o.PID, r.now.Sub(o.TermAt).Round(time.Second), s.why)
	case seen && s.known && !idle:
		return wait("%s", engine.Count(s.requests, "request"))
	default:
		return wait("ends")
	}
}

// due says whether a worker may get TERM yet.
func (r *turn) due(name string, e *entry, s sight, seen, unserved bool) step {
	p, _ := r.pool(name)
	term := step{sig: syscall.SIGTERM}
	over := r.now.Sub(e.own.DrainAt) > r.grace(name)
	switch {
	case unserved:
		term.why = "it never was ready"
		return term
	case !seen:
		return wait("has not been looked at yet")
	case s.unrevoke != nil && !over:
		return wait("%v", s.unrevoke)
	case e.rest[keyLease] != nil && r.opts.Leases != nil && !over:
		return wait("its lease is not revoked yet")
	case r.now.Sub(e.own.DrainAt) < r.opts.Settle:
		return wait("routers are to notice")
	case p.DrainsOnTERM:
		term.why = "it finishes its requests"
		return term
	case !s.known:
		return wait("whether it serves cannot be told: %v", s.why)
	case s.requests > 0:
		return wait("%s", engine.Count(s.requests, "request"))
	default:
		term.why = "it is idle"
		return term
	}
}

// grace is between the mark and KILL.
func (r *turn) grace(name string) time.Duration {
	if p, ok := r.pool(name); ok {
		return p.Template.Grace
	}
	return defaultGrace
}
