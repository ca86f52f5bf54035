package sweep

import (
	"fmt"
	"slices"
	"sync"

	"plimsoll/profile"
)

// Failing judges the requests that go to somebody's server, as they end. It stops a load
// in which more fail than the SLA allows: that load does not hold, and a smaller one may.
// The server itself is failing if the last three requests failed and no request of a load
// was answered, if their connections broke and it is Gone, or if too many fail that are
// sent one at a time. Those loads are judged together until they have 60 requests, a larger
// one by itself. Of streams at once one failure of each point counts, where the server bore as
// many, as long: there or at another point.
type Failing struct {
	SLA  profile.SLA
	Gone func() bool // nothing takes connections any more; nil = not known

	mu       sync.Mutex
	stop     func() // ends the load under way
	counts          // of this load, and of those before it that it is judged with
	before   counts // without this load and its repeats
	begun    bool   // this load, or one that is repeated
	over     int    // requests that are judged together, those to come included
	row      int    // failures since the last answer
	answered bool   // a request of this load, or it might have been, had the load not been stopped
	last     profile.Request
	points   []streams
}

// streams are those of a point.
type streams struct {
	atOnce, tokens int // each of so many
	whole          bool
	counts
}

type counts struct {
	ended, failed int
	tooMany       bool
}

// What Failing judges over.
const (
	failingLeast = 60
	failingRow   = 3
)

// Begin says that a load of some requests begins; stop ends it where too many fail.
func (f *Failing) Begin(requests int, stop func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ended >= failingLeast {
		f.counts = counts{}
	}
	if !f.begun {
		f.before, f.begun = f.counts, true
	}
	f.over, f.stop, f.answered = max(failingLeast, f.ended+requests), stop, false
}

// Done takes in a request that ended. What was cut off by the client is no failure of the
// server.
func (f *Failing) Done(q profile.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if q.Failure == profile.FailCanceled {
		f.answered = f.answered || q.Sent > 0
		return
	}
	f.ended++
	if q.OK() {
		f.row, f.answered = 0, true
		return
	}
	f.failed, f.row, f.last = f.failed+1, f.row+1, q
	f.tooMany = f.tooMany || f.failed >= failingRow && f.SLA.FailsTooOften(f.failed, f.over)
	if f.tooMany {
		f.stop()
	}
}

// dead reports whether the server answers nothing, or has ended meanwhile.
func (f *Failing) dead() bool {
	broken := f.last.Failure == profile.FailConnect || f.last.Failure == profile.FailMalformed
	return f.row >= failingRow && (!f.answered || broken && f.Gone != nil && f.Gone())
}

// patient reports whether a load with failures is worth another try: the server is
// somebody's, and it was not stopped.
func (f *Failing) patient() bool {
	if f == nil {
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return !f.tooMany && !f.dead()
}

// FailingError is ErrOverload with the failure that came last.
type FailingError struct {
	Last profile.Request
	dead bool // what was measured last is of a server that had ended
	msg  string
}

func (e *FailingError) Error() string { return ErrOverload.Error() + ": " + e.msg }

// Unwrap gives ErrOverload.
func (e *FailingError) Unwrap() error { return ErrOverload }

// stream takes in a point of streams at once: how many began, and one that failed, if any.
func (f *Failing) stream(p profile.Point, began int, broken *profile.Request) {
	if f == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	s := streams{p.Asked, p.ISL + p.OSL, p.Invalid == "", counts{ended: began}}
	if broken != nil {
		s.ended, s.failed, f.last = s.ended+1, 1, *broken
	}
	f.points = append(f.points, s)
}

// borne counts the streams of points that had no more at once, and no longer ones, than one
// that is whole.
func (f *Failing) borne() (all counts) {
	for _, s := range f.points {
		if slices.ContainsFunc(f.points, func(b streams) bool { return b.whole && b.atOnce >= s.atOnce && b.tokens >= s.tokens }) {
			all.ended, all.failed = all.ended+s.ended, all.failed+s.failed
		}
	}
	return all
}

// after is a FailingError once the server is failing, at what was measured
// with requests sent alone, one at a time, or several at once.
func (f *Failing) after(at string, alone bool) error {
	if f == nil {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.begun = false
	why := fmt.Sprintf("%d of the last %d", f.failed, f.ended)
	switch {
	case f.dead():
		why = fmt.Sprintf("%d in a row", f.row)
	case !alone:
		f.counts = f.before
		s := f.borne()
		if s.failed < failingRow || !f.SLA.FailsTooOften(s.failed, max(failingLeast, s.ended)) {
			return nil
		}
		why = fmt.Sprintf("%d of the last %d", s.failed, s.ended)
	case !f.tooMany:
		return nil
	}
	return &FailingError{f.last, f.dead(), fmt.Sprintf("%s. Stopped at %s; last failure: %s: %s", why, at, f.last.Failure, f.last.Error)}
}
