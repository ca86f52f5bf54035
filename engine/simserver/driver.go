package simserver

import (
	"fmt"
	"log"
	"runtime"
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
// where the driver woke up, so that lateness does not add up. A step takes in
// the requests that were there when it started by that timeline, so that their
// instants decide all that follows, as in virtual time. An idle driver sleeps
// until the first request's instant, which is the overhead after its arrival.
type driver struct {
	core    *sim.Engine
	in      inbox
	record  func(Record) // may be nil
	epoch   time.Time    // records count from it
	resyncs int
	streams map[uint64]*stream
	metrics *metrics
	log     *log.Logger
	lastLog time.Time // of a warning about lateness
	late    int       // late steps
}

func newDriver(core *sim.Engine, m *metrics, l *log.Logger, o Options) *driver {
	return &driver{
		core: core, metrics: m, log: l, record: o.Record, epoch: time.Now(),
		in:      inbox{overhead: o.Overhead, perToken: o.PerToken, wake: make(chan struct{}, 1)},
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
	end := instant{at: d.epoch} // of the last step
	for idle := true; ; {
		if idle && !d.await(sleep, quit) {
			return
		}
		end = d.receive(end, idle)
		step, ok := d.core.Begin()
		if idle = !ok; idle {
			d.metrics.publish(d.core.Stats())
			continue
		}
		end = end.add(step.Duration)
		if !sleep.until(end.at, quit, nil) {
			return
		}
		now := time.Now()
		if step.Duration > 0 { // otherwise the lateness is the last step's
			end = d.judge(end, now)
		}
		events := d.core.End()
		d.note(events, end)
		d.deliver(events, now)
	}
}

// await sleeps until the instant of the first request in the inbox; false where
// quit was closed before. A request may come in that is due earlier: it arrived
// earlier, and its body took longer.
func (d *driver) await(sleep *sleeper, quit <-chan struct{}) bool {
	for {
		first, ok := d.in.first()
		switch {
		case !ok:
			select {
			case <-d.in.wake:
			case <-quit:
				return false
			}
		case sleep.until(first.at, quit, d.in.wake):
			return true
		}
		select {
		case <-quit:
			return false
		default:
		}
	}
}

// receive takes in what came up to the start of the next step, which it
// returns: the end of the last one, or the first arrival at an idle engine.
func (d *driver) receive(end instant, idle bool) (start instant) {
	added, canceled, start := d.in.take(end, idle)
	for _, st := range added {
		if err := d.core.Add(st.req); err != nil {
			panic(fmt.Sprintf("simserver: a request that was checked is refused: %v", err))
		}
		d.streams[st.req.ID] = st
	}
	for _, id := range canceled {
		if d.core.Cancel(id) {
			d.note([]sim.Event{{ID: id, CachedTokens: d.streams[id].cached}}, start)
			delete(d.streams, id)
			d.metrics.finished.WithLabelValues(string(finishAbort)).Inc()
		}
	}
	return start
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
			m.ended(st.finish, now.Sub(st.arrived), st.req.PromptTokens, st.req.OutputTokens)
			m.tpot.Observe((st.last.Sub(st.began) / time.Duration(max(1, st.produced.Load()-1))).Seconds()) // vLLM counts 0 for a single token
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
		st.began = now
		d.metrics.ttft.Observe(now.Sub(st.arrived).Seconds())
	} else {
		for _, h := range d.metrics.itl {
			h.Observe(now.Sub(st.last).Seconds())
		}
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
func (d *driver) judge(end instant, now time.Time) instant {
	late := now.Sub(end.at)
	d.metrics.late.Observe(max(late, 0).Seconds())
	if late <= lateLimit {
		return end
	}
	d.metrics.lateSteps.Inc()
	d.late++
	if now.Sub(d.lastLog) > lateWarnEvery {
		d.lastLog = now
		d.log.Printf("warning: a step ended %v late (%d late steps so far): this machine is too busy, latencies are not those of the model",
			late.Round(100*time.Microsecond), d.late)
	}
	if late > resyncLimit {
		d.resyncs++
		return instant{at: now}
	}
	return end
}
