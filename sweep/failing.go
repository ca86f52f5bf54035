package sweep

import (
	"fmt"
	"sync"

	"plimsoll/profile"
)

// Failing judges the requests that go to somebody's server, one after the other as they
// end. It is failing once at least Share of 60 or more of them failed, or three in a row:
// one request that fails says nothing of the server. Loads are judged together until they
// have 60 requests, a larger one by itself.
type Failing struct {
	Share float64 // of requests, above 0

	mu      sync.Mutex
	stop    func() // ends the load under way
	fed     bool   // by a client, as requests end: their records need not be read again
	over    int    // requests that the share is of, those to come included
	ended   int
	failed  int
	row     int // failures since the last answer
	last    profile.Request
	reached bool
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
	f.fed = true
	f.begin(requests, stop)
}

func (f *Failing) begin(requests int, stop func()) {
	if f.ended >= failingLeast {
		f.ended, f.failed = 0, 0
	}
	f.over, f.stop = max(failingLeast, f.ended+requests), stop
}

// Done takes in a request that ended. What was cut off by the client is no failure of the
// server.
func (f *Failing) Done(q profile.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.done(q)
}

func (f *Failing) done(q profile.Request) {
	if q.Failure == profile.FailCanceled {
		return
	}
	f.ended++
	if q.OK() {
		f.row = 0
		return
	}
	f.failed, f.row, f.last = f.failed+1, f.row+1, q
	if f.row >= failingRow || float64(f.failed) >= f.Share*float64(f.over) {
		f.reached = true
		if f.stop != nil {
			f.stop()
		}
	}
}

// patient reports whether a load with failures is worth another try: the server is
// somebody's, and not failing.
func (f *Failing) patient() bool {
	if f == nil {
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return !f.reached
}

// after is an error that is ErrOverload once the server was failing, at what was measured
// with these records.
func (f *Failing) after(at string, rs []profile.Request) error {
	if f == nil {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.fed {
		f.begin(len(rs), nil)
		for _, q := range rs {
			f.done(q)
		}
	}
	if !f.reached {
		return nil
	}
	why := fmt.Sprintf("%d of the last %d", f.failed, f.ended)
	if f.row >= failingRow {
		why = fmt.Sprintf("%d in a row", f.row)
	}
	return fmt.Errorf("%w: %s. Stopped at %s; last failure: %s: %s", ErrOverload, why, at, f.last.Failure, f.last.Error)
}
