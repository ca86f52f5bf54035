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
	firstID  uint64 // of request 0
	prompt   uint64 // decides the prompts

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
	r.Due, r.Sent, r.Header = at.Duration(), at.Duration(), at.Duration()
	r.Chunks = make([]profile.Chunk, 0, l.w.OSL)
	l.entries = append(l.entries, at+l.overhead)
}

// askEvery is after how many steps ctx is asked whether to go on.
const askEvery = 512

// run takes steps until no request is left.
func (l *load) run(ctx context.Context) {
	for n := 0; ; n++ {
		if n%askEvery == 0 && ctx.Err() != nil {
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
		l.running = append(l.running, Count{At: l.now.Duration(), N: l.core.Stats().Running})
		l.expire()
		l.deliver(l.core.End())
	}
}

// enter gives the engine what has reached it by now.
func (l *load) enter() {
	for ; l.entered < len(l.entries) && l.entries[l.entered] <= l.now; l.entered++ {
		i := l.entered
		if l.records[i].End > 0 {
			continue // its client gave up before
		}
		err := l.core.Add(sim.Request{
			ID: l.firstID + uint64(i), PromptTokens: l.w.ISL, OutputTokens: l.w.OSL, WarmUp: l.w.Warmup,
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
	return chain(l.prompt+uint64(i), l.w.ISL/c.Limits.BlockSize)
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
			r.First, r.PromptTokens, r.CachedTokens = at, l.w.ISL, ev.CachedTokens
		}
		if ev.Last {
			r.Chunks = append(r.Chunks, profile.Chunk{At: at})
			r.Last, r.End, r.OutputTokens, r.UsageSeen, r.Finish = at, at, len(r.Chunks), true, "length"
			if r.OutputTokens < l.w.OSL { // a prefill engine's one token
				r.Failure, r.Error = profile.FailShort, "the engine's role lets it produce one token only"
			}
			l.next(l.now)
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
	l.next(at)
}

// next sends the request that takes the place of one that ended.
func (l *load) next(ended engine.Picoseconds) {
	if l.w.Arrival == profile.ClosedLoop && len(l.entries) < l.w.Requests {
		l.send(ended)
	}
}

// cancel marks what has not ended, and empties the engine.
func (l *load) cancel() {
	l.w.Requests = len(l.entries) // nothing more is sent
	for i := range l.records {
		r := &l.records[i]
		if r.End > 0 {
			continue
		}
		l.core.Cancel(l.firstID + uint64(i))
		l.fail(i, profile.FailCanceled, "the measurement was stopped", max(l.now, engine.FromDuration(r.Sent)))
	}
}

// promptSeed decides the prompts of a workload that shares them: as with the
// measuring client, by Seed and ISL.
func promptSeed(w profile.Workload) uint64 {
	const shared, unique = 0x736861726564, 0x756e69717565
	domain := uint64(unique)
	if w.SharedPrompts {
		domain = shared
	}
	return sim.Mix(sim.Mix(domain, w.Seed), uint64(w.ISL))
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
