package local

import (
	"fmt"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"plimsoll/engine"
	"plimsoll/engine/process"
)

// termAgain is when an idle worker gets TERM once more: the first one may have
// been written down and never sent, and an idle one loses nothing by a second.
const termAgain = 10 * time.Second

// drain takes each draining worker one step further:
//
//	lease revoked → settle → (idle, or it drains by itself) TERM → what its
//	leader left behind TERM → grace over KILL
//
// One that answers nothing, and one whose grace is over, are not waited for, whatever else
// is known of them: TERM, and Options.TermGrace later KILL.
func (r *turn) drain() {
	for _, name := range r.doc.names() {
		e := r.doc.entries[name]
		if e.own.State != Draining {
			continue
		}
		e.own.until(r.now, r.opts.MaxBackoff)
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
	p := r.pastOf(name, e)
	rests := ""
	if seen {
		rests = r.rests(o, p, s)
	}
	idle := rests != ""
	unserved := o.ReadyAt.IsZero() && seen && s.unready != nil && (!s.known || idle)
	hung := p.silent.lasts(r.now, r.opts.HungAfter)
	over := r.now.Sub(o.DrainAt) > r.grace(name)
	since := r.now.Sub(o.TermAt)
	p.cut = hung || over
	switch {
	case o.Crashed:
		return step{sig: syscall.SIGKILL, to: left, why: "its leader died"}
	case o.TermAt.IsZero():
		why, now := "it never was ready", unserved
		if !now {
			why, now = r.due(name, e, s, seen, hung, over, rests)
		}
		if !now {
			return wait("%s", why)
		}
		o.TermAt = r.now
		return step{sig: syscall.SIGTERM, to: leader, why: why}
	case over && idle, (over || hung || unserved) && since > r.opts.TermGrace:
		return step{sig: syscall.SIGKILL, to: left, why: fmt.Sprintf("it has not ended %v after TERM", since.Round(time.Second))}
	case o.RestAt.IsZero() && !o.handle().Leads():
		o.RestAt = r.now
		return step{sig: syscall.SIGTERM, to: left, why: "its leader ended, and these did not"}
	case idle && !hung && !unserved && o.handle().Leads() && since > termAgain:
		o.TermAt = r.now
		return step{sig: syscall.SIGTERM, to: leader, why: "it is idle and has not ended"}
	case seen && s.known && !idle:
		return wait("%s", engine.Count(s.requests, "request"))
	default:
		return wait("ends")
	}
}

// due says whether a worker that was ready may get TERM yet, and why.
func (r *turn) due(name string, e *entry, s sight, seen, hung, over bool, rests string) (why string, now bool) {
	p, _ := r.pool(name)
	switch {
	case hung:
		return "it answers nothing", true
	case over:
		return fmt.Sprintf("its %v to finish are over", r.grace(name)), true
	case !seen:
		return "has not been looked at yet", false
	case s.unrevoke != nil:
		return s.unrevoke.Error(), false
	case e.rest[keyLease] != nil && r.opts.Leases != nil:
		return "its lease is not revoked yet", false
	case r.now.Sub(e.own.DrainAt) < r.opts.Settle:
		return "routers are to notice", false
	case p.DrainsOnTERM:
		return "it finishes its requests", true
	case rests != "":
		return rests, true
	case !s.known:
		return fmt.Sprintf("whether it serves cannot be told: %v", s.why), false
	default:
		return engine.Count(s.requests, "request"), false
	}
}

// rests says why a worker counts as idle; empty: it does not, or that cannot be told. Gauges
// of 0 say so, unless counters have just moved. So do metrics with counters of which nothing
// changes for long, whatever their gauges say: vLLM 0.10.1 leaves them as they are when its
// last requests are cancelled, TensorRT-LLM 1.1 has none. Longer than a prompt takes, since
// some counters wait for its end.
func (r *turn) rests(o *record, p *past, s sight) string {
	from := o.DrainAt.Add(r.opts.Settle) // until then requests may still come
	if p.moved.After(from) {
		from = p.moved
	}
	switch {
	case s.known && s.requests == 0 && (!p.counts || r.now.Sub(p.moved) >= r.opts.Settle):
		return "it is idle"
	case !p.counts || s.metrics.Engine == "" || r.now.Sub(from) < r.opts.IdleAfter:
		return ""
	case s.known:
		return fmt.Sprintf("nothing in its metrics has changed for %v: it is idle, though they say %s", r.opts.IdleAfter, engine.Count(s.requests, "request"))
	default:
		return fmt.Sprintf("nothing in its metrics has changed for %v: it is idle", r.opts.IdleAfter)
	}
}

// grace is how long a worker that drains is waited for.
func (r *turn) grace(name string) time.Duration {
	if p, ok := r.pool(name); ok {
		return p.Template.Grace
	}
	return defaultGrace
}
