package virtual

import (
	"context"
	"errors"

	"plimsoll/engine"
	"plimsoll/engine/sim"
	"plimsoll/profile"
)

// HTTP statuses that a server would have answered with.
const (
	statusOK         = 200
	statusBadRequest = 400
)

// load is one Measure under way. Requests are sent in the order of their
// index, at instants that rise.
type load struct {
	w        profile.Workload
	core     *sim.Engine
	overhead engine.Picoseconds
	perToken engine.Picoseconds
	last     engine.Picoseconds         // when the last one so far reaches the engine
	firstID  uint64                     // of request 0
	prompt   func(i int) uint64         // decides the prompt of request i
	stop     func(profile.Request) bool // asked after each request that ended; may be nil
	stopped  bool                       // it said so

	transferred bool // the KV of its requests comes from elsewhere

	now     engine.Picoseconds   // since the base
	entries []engine.Picoseconds // when each request sent so far reaches the engine
	entered int                  // of them, those that have
	oldest  int                  // all requests before it have ended, whether they were entered or not
	records []profile.Request
	running []Count
}

// send issues the next request at an instant not before the last one's.
func (l *load) send(at engine.Picoseconds) {
	r := &l.records[len(l.entries)]
	if r.Due == 0 { // a script's are known before
		r.Due = at.Duration()
	}
	r.Sent, r.Header = at.Duration(), at.Duration()
	r.Chunks = make([]profile.Chunk, 0, r.OSL)
	l.last = max(l.last, at+l.overhead+l.perToken*engine.Picoseconds(r.ISL))
	l.entries = append(l.entries, l.last)
}

// askEvery is after how many steps ctx is asked whether to go on.
const askEvery = 512

// run takes steps until no request is left.
func (l *load) run(ctx context.Context) {
	for n := 0; ; n++ {
		if l.stopped || n%askEvery == 0 && ctx.Err() != nil {
			l.cancel()
			return
		}
		l.expire()
		l.enter()
		step, ok := l.core.Begin()
		if !ok {
			if l.entered == len(l.entries) {
				return
			}
			l.now = max(l.now, l.entries[l.entered])
			continue
		}
		l.now += step.Duration
		l.running = append(l.running, count(l.now, l.core.Stats()))
		l.expire()
		l.deliver(l.core.End())
	}
}

func count(at engine.Picoseconds, st sim.Stats) Count {
	return Count{At: at.Duration(), N: st.Running, Waiting: st.Waiting, Preempted: st.Preemptions}
}

// enter gives the engine what has reached it by now.
func (l *load) enter() {
	for ; l.entered < len(l.entries) && l.entries[l.entered] <= l.now; l.entered++ {
		i := l.entered
		if l.records[i].End > 0 {
			continue // its client gave up before
		}
		err := l.core.Add(sim.Request{
			ID: l.firstID + uint64(i), PromptTokens: l.records[i].ISL, OutputTokens: l.records[i].OSL, WarmUp: l.w.Warmup, Transferred: l.transferred,
			Prefix: l.prefix(i),
		})
		if err == nil {
			l.records[i].Status = statusOK
			continue
		}
		var tooLong *sim.TooLongError
		if errors.As(err, &tooLong) {
			l.records[i].Status = statusBadRequest
		}
		l.fail(i, profile.FailStatus, err.Error(), l.now)
	}
}

// prefix is the prompt of request i as the prefix cache knows it.
func (l *load) prefix(i int) []uint64 {
	c := l.core.Config()
	if !c.PrefixCaching {
		return nil
	}
	return chain(l.prompt(i), l.records[i].ISL/c.Limits.BlockSize)
}

// deliver books the tokens of the step that ended now.
func (l *load) deliver(events []sim.Event) {
	at := l.now.Duration()
	for _, ev := range events {
		i := int(ev.ID - l.firstID)
		r := &l.records[i]
		if r.Failure != "" {
			continue // it ended while the step was under way
		}
		if ev.First {
			r.First, r.PromptTokens, r.CachedTokens = at, r.ISL, ev.CachedTokens
		}
		if ev.Last {
			r.Chunks = append(r.Chunks, profile.Chunk{At: at})
			r.Last, r.End, r.OutputTokens, r.UsageSeen, r.Finish = at, at, len(r.Chunks), true, "length"
			if r.OutputTokens < r.OSL { // a prefill engine's one token
				r.Failure, r.Error = profile.FailShort, "the engine's role lets it produce one token only"
			}
			l.over(i, l.now)
		}
	}
	for id := range l.core.Decoding() {
		r := &l.records[id-l.firstID]
		r.Chunks = append(r.Chunks, profile.Chunk{At: at})
	}
}

// expire ends the requests whose own deadline passed before now: a client does
// not wait for a step to end, nor for a request to reach the engine, and sends
// the next one at the deadline.
func (l *load) expire() {
	for ; l.w.Timeout > 0 && l.oldest < len(l.entries); l.oldest++ {
		r := &l.records[l.oldest]
		if r.End > 0 {
			continue
		}
		end := r.Sent + l.w.Timeout
		if end >= l.now.Duration() {
			return
		}
		l.core.Cancel(l.firstID + uint64(l.oldest))
		l.fail(l.oldest, profile.FailTimeout, "not finished within "+l.w.Timeout.String(), engine.FromDuration(end))
	}
}

// fail ends request i without success.
func (l *load) fail(i int, why profile.Failure, detail string, at engine.Picoseconds) {
	r := &l.records[i]
	r.Failure, r.Error, r.End = why, detail, at.Duration()
	if n := len(r.Chunks); n > 0 {
		r.Last, r.OutputTokens = r.Chunks[n-1].At, n
	}
	l.over(i, at)
}

// over sends the request that takes the place of i, which ended at an instant.
func (l *load) over(i int, at engine.Picoseconds) {
	if l.stop != nil && l.stop(l.records[i]) {
		l.stopped = true
	}
	if k := len(l.entries); k < l.w.Requests {
		l.send(max(at, engine.FromDuration(l.records[k].Due)))
	}
}

// cancel marks what has not ended, and empties the engine.
func (l *load) cancel() {
	l.w.Requests, l.stop = len(l.entries), nil // nothing more is sent
	for i := range l.records {
		r := &l.records[i]
		if r.End > 0 {
			continue
		}
		l.core.Cancel(l.firstID + uint64(i))
		l.fail(i, profile.FailCanceled, "the measurement was stopped", max(l.now, engine.FromDuration(r.Sent)))
	}
}

// promptSeed decides the prompts of a workload: as with the measuring client by
// Seed, of prompts that are not shared by ISL, too.
func promptSeed(w profile.Workload) uint64 {
	const shared, unique = 0x736861726564, 0x756e69717565
	if w.SharedPrompts {
		return sim.Mix(shared, w.Seed)
	}
	return sim.Mix(sim.Mix(unique, w.Seed), uint64(w.ISL))
}

// chain is the hash chain of n blocks of a prompt of random tokens: no token is
// drawn, since only whether blocks are equal matters.
func chain(prompt uint64, n int) []uint64 {
	hashes := make([]uint64, n)
	h := prompt
	for i := range hashes {
		h = sim.Mix(h, uint64(i))
		hashes[i] = h
	}
	return hashes
}
