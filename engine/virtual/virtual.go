// Package virtual measures a simulated engine in virtual time. It takes an
// engine's configuration, a step timer and a workload; it gives the records
// that a client would have made of that engine, had neither it nor the network
// cost any time: a second of load takes microseconds. It refuses workloads
// without requests; a request that the engine cannot hold is a record with a
// failure, as from a server. It reads no clock: equal calls give equal records.
//
// It is engine/simserver and profile/load without the HTTP and the waiting.
// Prompts are known to the prefix cache by what the workload says of them, and
// warm-up requests cost no step time, as there.
package virtual

import (
	"context"
	"fmt"
	"time"

	"plimsoll/engine"
	"plimsoll/engine/sim"
	"plimsoll/profile"
)

// Engine is a simulated engine whose prefix cache outlives a measurement. It is
// not safe for concurrent use.
type Engine struct {
	core     *sim.Engine
	overhead engine.Picoseconds
	perToken engine.Picoseconds
	ids      uint64 // given out
	fresh    uint64 // prompts that no other call has
	elapsed  engine.Picoseconds
}

// New makes an idle engine. Overhead is the time of each request between the
// client and the engine's scheduler (HTTP), before its first step; perToken is more of it
// per prompt token (tokenizing). Requests do not overtake each other there.
func New(c sim.Config, t sim.StepTimer, overhead, perToken engine.Picoseconds) (*Engine, error) {
	if overhead < 0 || perToken < 0 {
		return nil, fmt.Errorf("overhead of %v per request, %v per token: want none below 0", overhead.Duration(), perToken.Duration())
	}
	core, err := sim.New(c, t)
	if err != nil {
		return nil, err
	}
	return &Engine{core: core, overhead: overhead, perToken: perToken}, nil
}

// Config is the engine's, defaults filled in.
func (e *Engine) Config() sim.Config { return e.core.Config() }

// Elapsed is the virtual time that all loads together took until now, waits for
// arrivals included: for so long a real engine would have been held.
func (e *Engine) Elapsed() time.Duration { return e.elapsed.Duration() }

// Measurement is what one load gave.
type Measurement struct {
	Requests []profile.Request // ordered by Index
	Running  []Count           // one for each step
	Window   profile.Window    // of stairs: what was measured
	Void     string            // of stairs: why it must not count; empty = it may
}

// Count is how many requests ran in the step that ended at an instant, on the
// records' base.
type Count struct {
	At        time.Duration
	N         int
	Waiting   int
	Preempted int64 // ever
}

// lead is between a measurement's base and its first request, so that no
// instant is 0.
const lead = engine.Millisecond

// Measure runs w to its end: InFlight requests are sent at the start, and each
// further one when one ends. When ctx ends, what is not finished is marked canceled.
func (e *Engine) Measure(ctx context.Context, w profile.Workload) (Measurement, error) {
	switch {
	case w.Requests < 1:
		return Measurement{}, fmt.Errorf("workload: %d requests: want at least 1", w.Requests)
	case w.ISL < 1 || w.OSL < 1:
		return Measurement{}, fmt.Errorf("workload: ISL %d and OSL %d: want at least 1 token each", w.ISL, w.OSL)
	case w.InFlight < 1:
		return Measurement{}, fmt.Errorf("workload: %d requests in flight: want at least 1", w.InFlight)
	}
	l := e.begin(w)
	for range min(w.InFlight, w.Requests) {
		l.send(lead)
	}
	l.run(ctx)
	e.elapsed += max(l.now-lead, 0)
	return Measurement{Requests: l.records, Running: l.running}, nil
}

// begin prepares w's records and takes numbers for its requests and prompts.
func (e *Engine) begin(w profile.Workload) *load {
	l := &load{
		w: w, core: e.core, overhead: e.overhead, perToken: e.perToken, firstID: e.ids + 1,
		records: make([]profile.Request, w.Requests), entries: make([]engine.Picoseconds, 0, w.Requests),
	}
	e.ids += uint64(w.Requests)
	first := promptSeed(w)
	if !w.SharedPrompts {
		first = sim.Mix(first, e.fresh)
		e.fresh++
	}
	l.prompt = func(i int) uint64 { return first + uint64(i) } //nolint:gosec // an index is not negative
	for i := range l.records {
		l.records[i] = profile.Request{Index: i, ISL: w.ISL, OSL: w.OSL, CachedTokens: -1}
	}
	return l
}
