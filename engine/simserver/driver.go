package simserver

import (
	"fmt"
	"log"
	"runtime"
	"sync"
	"time"

	"plimsoll/engine/sim"
)

const (
	// lateLimit is how late a step may end before it counts as late: by more,
	// client-side latencies are visibly wrong.
	lateLimit = 5 * time.Millisecond
	// lateWarnEvery keeps warnings about lateness rare.
	lateWarnEvery = 10 * time.Second
	// resyncLimit is how late a step may end before the driver gives up
	// catching up: the process was stopped, or the machine slept.
	resyncLimit = time.Second
)

// driver runs the engine in real time. One goroutine owns the core; all others
// speak to it through the inbox and hear from it through their stream.
//
// Steps have absolute deadlines: one starts where the last one ended, not
// where the driver woke up, so that lateness does not add up.
type driver struct {
	core    *sim.Engine
	in      inbox
	streams map[uint64]*stream
	metrics *metrics
	log     *log.Logger
	lastLog time.Time // of a warning about lateness
	late    int       // late steps
}

func newDriver(core *sim.Engine, m *metrics, l *log.Logger) *driver {
	return &driver{
		core: core, metrics: m, log: l,
		in:      inbox{wake: make(chan struct{}, 1)},
		streams: map[uint64]*stream{},
	}
}

// start runs the driver until the returned function is called, which waits for
// its end.
func (d *driver) start() (stop func()) {
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		d.run(quit)
	}()
	return func() { close(quit); <-done }
}

func (d *driver) run(quit <-chan struct{}) {
	runtime.LockOSThread() // the sleeper's timer slack belongs to the thread, which dies with the goroutine
	sleep := newSleeper()
	defer sleep.close()
	var end time.Time // of the last step
	idle := true
	for {
		arrived := d.receive()
		step, ok := d.core.Begin()
		if !ok {
			d.metrics.publish(d.core.Stats())
			idle = true
			select {
			case <-d.in.wake:
				continue
			case <-quit:
				return
			}
		}
		if idle && arrived.After(end) {
			end = arrived
		}
		idle = false
		end = end.Add(step.Duration.Duration())
		if !sleep.until(end, quit) {
			return
		}
		now := time.Now()
		if step.Duration > 0 { // otherwise the lateness is the last step's
			end = d.judge(end, now)
		}
		d.deliver(d.core.End(), now)
	}
}

// receive takes in what came since the last step and returns when the first
// new request arrived.
func (d *driver) receive() (arrived time.Time) {
	added, canceled := d.in.take()
	for _, st := range added {
		if err := d.core.Add(st.req); err != nil {
			panic(fmt.Sprintf("simserver: a request that was checked is refused: %v", err))
		}
		d.streams[st.req.ID] = st
		if arrived.IsZero() || st.arrived.Before(arrived) {
			arrived = st.arrived
		}
	}
	for _, id := range canceled {
		if d.core.Cancel(id) {
			delete(d.streams, id)
			d.metrics.aborted()
		}
	}
	return arrived
}

// deliver hands the tokens of a step to their streams.
func (d *driver) deliver(events []sim.Event, now time.Time) {
	m := d.metrics
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, ev := range events {
		st := d.streams[ev.ID]
		if ev.First {
			st.cached = ev.CachedTokens
		}
		if ev.Last {
			d.token(st, now)
			m.ended(st.finish, now.Sub(st.arrived))
			delete(d.streams, ev.ID)
		}
	}
	for id := range d.core.Decoding() {
		d.token(d.streams[id], now)
	}
	m.stats = d.core.Stats()
}

// token hands one token to a stream. The metrics are locked.
func (d *driver) token(st *stream, now time.Time) {
	if st.last.IsZero() {
		d.metrics.ttft.observe(now.Sub(st.arrived))
	} else {
		d.metrics.itl.observe(now.Sub(st.last))
	}
	st.last = now
	st.produced.Add(1)
	select {
	case st.wake <- struct{}{}:
	default: // it has not taken the last one yet and will find both
	}
}

// judge records how late a step ended and returns the instant at which the
// next one starts: where this one should have ended, unless it is hopeless.
func (d *driver) judge(end, now time.Time) time.Time {
	late := now.Sub(end)
	d.metrics.stepEnded(late, late > lateLimit)
	if late <= lateLimit {
		return end
	}
	d.late++
	if now.Sub(d.lastLog) > lateWarnEvery {
		d.lastLog = now
		d.log.Printf("warning: a step ended %v late (%d late steps so far): this machine is too busy, latencies are not those of the model",
			late.Round(100*time.Microsecond), d.late)
	}
	if late > resyncLimit {
		return now
	}
	return end
}

// inbox carries requests and cancelations to the driver.
type inbox struct {
	mu       sync.Mutex
	added    []*stream
	canceled []uint64
	wake     chan struct{} // holds one; full = there is something
}

func (b *inbox) add(st *stream) {
	b.mu.Lock()
	b.added = append(b.added, st)
	b.mu.Unlock()
	b.ring()
}

func (b *inbox) cancel(id uint64) {
	b.mu.Lock()
	b.canceled = append(b.canceled, id)
	b.mu.Unlock()
	b.ring()
}

func (b *inbox) ring() {
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

// take empties the inbox, in order of arrival.
func (b *inbox) take() (added []*stream, canceled []uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	added, canceled = b.added, b.canceled
	b.added, b.canceled = nil, nil
	return added, canceled
}
