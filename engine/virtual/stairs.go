package virtual

import (
	"context"
	"fmt"
	"time"

	"plimsoll/engine"
	"plimsoll/engine/sim"
	"plimsoll/profile"
)

// Stairs are streams that decode for as long as Level looks on: virtual time
// passes nowhere else. They are not safe for concurrent use, and their engine
// serves nobody else until Close.
type Stairs struct {
	engine *Engine
	w      profile.Workload
	prompt uint64 // decides the prompts

	now     engine.Picoseconds // since the base, which all levels share
	streams []*stream          // in the order in which they were sent
	entered int                // of them, those that have reached the engine
	byID    map[uint64]*stream // of all
	sent    int                // ever
	ended   bool               // a stream gave all of its tokens
	opened  bool               // a window is: chunks are kept
}

// stream is one request that decodes until it is canceled.
type stream struct {
	id     uint64
	prompt uint64             // decides the prompt
	enters engine.Picoseconds // when it reaches the engine
	record profile.Request    // its chunks are the latest window's
	given  int                // tokens
}

// idleSteps is how many steps that compute no prompt, though requests wait, show
// that the engine will not take them in. A request waits for two at most where
// nothing hinders it (AsyncScheduling).
const idleSteps = 8

// Climb begins stairs of streams of w.ISL prompt tokens and at most w.OSL output
// tokens; w.InFlight is the most at once. Prompts are new to the engine; where w
// shares them, the stream in place i has that of request i of any such workload. It
// refuses what the engine could never hold.
func (e *Engine) Climb(w profile.Workload) (*Stairs, error) {
	switch {
	case w.InFlight < 1:
		return nil, fmt.Errorf("stairs of at most %d streams: want at least 1", w.InFlight)
	case e.Config().Role == engine.RolePrefill:
		return nil, fmt.Errorf("a %s engine does not decode", engine.RolePrefill)
	case !e.core.Idle():
		return nil, fmt.Errorf("the engine still runs %d requests and %d wait: close the stairs before", e.core.Running(), e.core.Waiting())
	}
	if err := e.Config().Check(sim.Request{PromptTokens: w.ISL, OutputTokens: w.OSL}); err != nil {
		return nil, err
	}
	s := &Stairs{engine: e, w: w, now: lead, prompt: promptSeed(w), byID: map[uint64]*stream{}}
	if !w.SharedPrompts {
		s.prompt = sim.Mix(s.prompt, e.fresh)
		e.fresh++
	}
	return s, nil
}

// Level brings the streams to n, waits until all of them decode and nothing
// else does, and then measures until each has given tokens more. The records
// are those of the n streams, cut to the window: chunks from the one at its
// beginning on, OutputTokens up to its end; without end or usage. Void says why the level must not count:
// the engine did not take all n, or preempted some. Where streams would end
// before that, the error is profile.ErrGrown, and nothing is measured.
func (s *Stairs) Level(ctx context.Context, n, tokens int) (Measurement, error) {
	switch {
	case n < 1 || n > s.w.InFlight:
		return Measurement{}, fmt.Errorf("a level of %d streams: want 1 to %d, as the stairs were begun for", n, s.w.InFlight)
	case tokens < 1:
		return Measurement{}, fmt.Errorf("a level of %d tokens of each stream: want at least 1", tokens)
	}
	s.shrink(n)
	if err := s.lasts(tokens); err != nil {
		return Measurement{}, err
	}
	s.grow(n)
	void, err := s.fill(ctx)
	if err != nil || void != "" {
		return Measurement{Void: void}, err
	}
	if err := s.lasts(tokens); err != nil {
		return Measurement{}, err
	}
	return s.measure(ctx, tokens)
}

// Close cancels what streams. The engine is idle then.
func (s *Stairs) Close() { s.shrink(0) }

// shrink cancels the latest streams beyond n.
func (s *Stairs) shrink(n int) {
	for ; len(s.streams) > n; s.streams = s.streams[:len(s.streams)-1] {
		id := s.streams[len(s.streams)-1].id
		s.engine.core.Cancel(id)
		delete(s.byID, id)
	}
	s.entered = min(s.entered, len(s.streams))
}

// grow sends more streams, now, until there are n.
func (s *Stairs) grow(n int) {
	for len(s.streams) < n {
		s.engine.ids++
		at := s.now.Duration()
		st := &stream{
			id: s.engine.ids, enters: s.now + s.engine.overhead + s.engine.perToken*engine.Picoseconds(s.w.ISL),
			record: profile.Request{Index: s.sent, ISL: s.w.ISL, OSL: s.w.OSL, CachedTokens: -1, Due: at, Sent: at, Header: at},
		}
		place := s.sent // of a prompt that is nobody else's
		if s.w.SharedPrompts {
			place = len(s.streams)
		}
		st.prompt = s.prompt + uint64(place)
		s.streams, s.byID[st.id] = append(s.streams, st), st
		s.sent++
	}
}

// lasts refuses where a stream has no more than so many tokens left: the last
// one would end it.
func (s *Stairs) lasts(tokens int) error {
	most := 0
	for _, st := range s.streams {
		most = max(most, st.given)
	}
	if s.ended || most+tokens >= s.w.OSL {
		return fmt.Errorf("%w: %d of %d are given, and the level takes another %d", profile.ErrGrown, most, s.w.OSL, tokens)
	}
	return nil
}

// fill takes steps until all streams decode; it says why they never will.
func (s *Stairs) fill(ctx context.Context) (void string, err error) {
	core := s.engine.core
	before, idle := core.Stats().Preemptions, 0
	for steps := 0; !s.full(); steps++ {
		if steps%askEvery == 0 && ctx.Err() != nil {
			return "", ctx.Err()
		}
		batch, err := s.step()
		if err != nil {
			return "", err
		}
		if idle++; batch.PrefillTokens > 0 || s.entered < len(s.streams) {
			idle = 0
		}
		st := core.Stats()
		switch {
		case s.ended:
			return "", s.lasts(1)
		case st.Preemptions > before:
			return preempted(st.Preemptions-before) + " before all streamed", nil
		case idle >= idleSteps:
			return fmt.Sprintf("the engine runs %d of %d: %d wait", st.Running, len(s.streams), st.Waiting), nil
		}
	}
	return "", nil
}

// full reports whether all streams decode and nothing else is in the engine.
func (s *Stairs) full() bool {
	if s.entered < len(s.streams) || s.engine.core.Waiting() > 0 || s.engine.core.Running() != len(s.streams) {
		return false
	}
	for _, st := range s.streams {
		if st.given == 0 {
			return false
		}
	}
	return true
}

// measure opens a window now and takes steps until each stream has given so
// many tokens.
func (s *Stairs) measure(ctx context.Context, tokens int) (Measurement, error) {
	core := s.engine.core
	m := Measurement{Window: profile.Window{From: s.now.Duration()}}
	for _, st := range s.streams {
		st.open(m.Window.From, tokens)
	}
	before := core.Stats().Preemptions
	s.opened = true
	defer func() { s.opened = false }()
	for i := range tokens {
		if i%askEvery == 0 && ctx.Err() != nil {
			return Measurement{}, ctx.Err()
		}
		if _, err := s.step(); err != nil {
			return Measurement{}, err
		}
		st := core.Stats()
		m.Running = append(m.Running, count(s.now, st))
		if st.Preemptions > before {
			m.Void = preempted(st.Preemptions - before)
			break
		}
	}
	m.Window.To = s.now.Duration()
	for _, st := range s.streams {
		m.Requests = append(m.Requests, st.record)
	}
	return m, nil
}

func preempted(n int64) string {
	if n == 1 {
		return "1 preemption"
	}
	return fmt.Sprintf("%d preemptions", n)
}

// open begins the record of a window at from: a token that came then is its
// first.
func (st *stream) open(from time.Duration, tokens int) {
	r := &st.record
	r.Chunks, r.Before, r.OutputTokens = make([]profile.Chunk, 0, tokens+1), st.given, st.given
	if r.Last == from {
		r.Before--
		r.OutputTokens--
		st.keep(from)
	}
}

// step lets the engine take its next step, and time pass.
func (s *Stairs) step() (engine.Batch, error) {
	core := s.engine.core
	for {
		if err := s.enter(); err != nil {
			return engine.Batch{}, err
		}
		step, ok := core.Begin()
		if ok {
			s.pass(step.Duration)
			s.deliver(core.End())
			return step.Batch, nil
		}
		if s.entered == len(s.streams) {
			return engine.Batch{}, fmt.Errorf("the engine holds %d requests and does nothing", core.Running()+core.Waiting())
		}
		s.pass(s.streams[s.entered].enters - s.now)
	}
}

func (s *Stairs) pass(d engine.Picoseconds) {
	s.now += d
	s.engine.elapsed += d
}

// enter gives the engine what has reached it by now.
func (s *Stairs) enter() error {
	c := s.engine.Config()
	for ; s.entered < len(s.streams) && s.streams[s.entered].enters <= s.now; s.entered++ {
		st := s.streams[s.entered]
		r := sim.Request{ID: st.id, PromptTokens: s.w.ISL, OutputTokens: s.w.OSL}
		if c.PrefixCaching {
			r.Prefix = chain(st.prompt, s.w.ISL/c.Limits.BlockSize)
		}
		if err := s.engine.core.Add(r); err != nil {
			return err
		}
		st.record.Status = statusOK
	}
	return nil
}

// deliver books the tokens of the step that ended now: one of each stream that
// decodes.
func (s *Stairs) deliver(events []sim.Event) {
	at := s.now.Duration()
	for _, ev := range events {
		if r := &s.byID[ev.ID].record; ev.First {
			r.First, r.CachedTokens = at, ev.CachedTokens
		}
		s.ended = s.ended || ev.Last
	}
	for id := range s.engine.core.Decoding() {
		st := s.byID[id]
		st.given++
		st.record.Last = at
		if s.opened {
			st.keep(at)
		}
	}
}

// keep books a chunk of the window.
func (st *stream) keep(at time.Duration) {
	st.record.Chunks = append(st.record.Chunks, profile.Chunk{At: at})
	st.record.OutputTokens++
}
