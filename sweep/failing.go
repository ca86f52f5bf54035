package sweep

import (
	"fmt"
	"sync"

	"plimsoll/profile"
)

// Failing judges the requests that go to somebody's server, as they end. It stops a load
// in which more fail than the SLA allows: that load does not hold, and a smaller one may.
// The server itself is failing if the last three requests failed and no request of a load
// was answered, if their connections broke and it is Gone, or if too many fail that are
// sent one at a time. Those loads are judged together until they have 60 requests, a larger
// one by itself. Of streams at once those count that are no more than were all answered in
// some load.
type Failing struct {
	SLA  profile.SLA
	Gone func() bool // nothing takes connections any more; nil = not known

	mu       sync.Mutex
	stop     func()         // ends the load under way
	counts                  // of this load, and of those before it that it is judged with
	before   counts         // without this load and its repeats
	begun    bool           // this load, or one that is repeated
	over     int            // requests that are judged together, those to come included
	row      int            // failures since the last answer
	answered bool           // a request of this load, or it might have been, had the load not been stopped
	streams  map[int]counts // of points of decode, by how many at once
	borne    int            // the most of them that were all answered
	last     profile.Request
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
	if f.tooMany && f.stop != nil {
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

// after is a FailingError once the server is failing, at a point or at a warm-up, which has
// no stage.
func (f *Failing) after(p profile.Point) error {
	if f == nil {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.begun = false
	defer func() { f.before = f.counts }() // streams at once come without a Begin
	why := fmt.Sprintf("%d of the last %d", f.failed, f.ended)
	switch {
	case f.dead():
		why = fmt.Sprintf("%d in a row", f.row)
	case p.Stage == "" || p.Asked > 1 || p.Rate > 0 || p.Batch > 0: // several at once
		this := counts{ended: f.ended - f.before.ended, failed: f.failed - f.before.failed}
		if f.counts = f.before; p.Stage == "" || p.Phase != profile.Decode {
			return nil
		}
		all := f.stray(p, this)
		if all.failed < failingRow || !f.SLA.FailsTooOften(all.failed, max(failingLeast, all.ended)) {
			return nil
		}
		why = fmt.Sprintf("%d of the last %d", all.failed, all.ended)
	case !f.tooMany:
		return nil
	}
	return &FailingError{f.last, f.dead(), fmt.Sprintf("%s. Stopped at %s; last failure: %s: %s", why, p.ID, f.last.Failure, f.last.Error)}
}

// stray counts the streams of all points that had no more of them at once than were borne.
func (f *Failing) stray(p profile.Point, this counts) (all counts) {
	if f.streams == nil {
		f.streams = map[int]counts{}
	}
	at := f.streams[p.Asked]
	f.streams[p.Asked] = counts{ended: at.ended + this.ended, failed: at.failed + this.failed}
	if p.Failures == 0 && p.Invalid == "" {
		f.borne = max(f.borne, p.Asked)
	}
	for n, c := range f.streams {
		if n <= f.borne {
			all.ended, all.failed = all.ended+c.ended, all.failed+c.failed
		}
	}
	return all
}
