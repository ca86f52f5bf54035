package sim

import (
	"errors"
	"fmt"
	"iter"
	"math"
	"math/rand/v2"

	"plimsoll/engine"
)

// Engine is one simulated engine. Its caller repeats Begin, the passing of the
// step's time, and End; Add and Cancel may come at any moment. It is not safe
// for concurrent use.
type Engine struct {
	cfg   Config
	timer StepTimer
	runs  DecodeTimer // the timer, where steps may be taken in runs; otherwise nil
	noise *rand.Rand  // nil without noise

	byID             table[*sequence]
	waiting, running queue // every running request arrived before every waiting one
	held             queue // finished ones whose KV is kept
	decoders         decoders
	cache            cache
	spare            *sequence // forgotten, to use again, and by next all of them
	// partial is the prompt that is computed in part. There is one at most, the
	// latest of the running ones: a prompt is cut only where the budget ends,
	// and no other one starts before it is complete.
	partial *sequence

	arrivals uint64 // requests ever added
	step     uint64 // number of the step in progress, or of the next one
	stepping bool
	alone    bool               // the step in progress has prompts and no decoding
	batch    engine.Batch       // of the step in progress
	loading  engine.Picoseconds // time that it takes to bring cached blocks up
	complete []*sequence        // prompts that the step in progress completes
	moved    []*sequence        // transferred prompts that it decodes for the first time
	doomed   []*sequence        // running requests canceled during it
	blocked  int                // the budget with which the head of the queue lacked blocks, and none were freed since; 0 = it did not
	events   []Event
	stats    Stats
}

// New makes an idle engine.
func New(c Config, t StepTimer) (*Engine, error) {
	c, err := c.Normal()
	if err != nil {
		return nil, err
	}
	if t == nil {
		return nil, errors.New("no step timer given")
	}
	e := &Engine{
		cfg: c, timer: t,
		cache:    newCache(c),
		decoders: decoders{growing: make([]int, c.Limits.BlockSize)},
	}
	if c.Noise > 0 {
		e.noise = rand.New(rand.NewPCG(c.Seed, 0x6a09e667f3bcc908))
	} else if runs, ok := t.(DecodeTimer); ok {
		e.runs = runs
	}
	return e, nil
}

// Config is what the engine was made with, defaults filled in.
func (e *Engine) Config() Config { return e.cfg }

// Add puts a request at the end of the queue. It refuses what Check refuses
// and an ID that the engine holds already.
func (e *Engine) Add(r Request) error {
	if err := e.cfg.Check(r); err != nil {
		return err
	}
	if e.byID.get(r.ID) != nil {
		return fmt.Errorf("request %d is in the engine already: give each request its own id", r.ID)
	}
	r.OutputTokens = e.cfg.Output(r.OutputTokens)
	s := e.makeSequence(r)
	s.from = e.nextUnscheduled()
	e.byID.put(r.ID, s)
	e.waiting.pushBack(s)
	return nil
}

// nextUnscheduled is the first step that a request of now can be part of.
func (e *Engine) nextUnscheduled() uint64 {
	switch {
	case !e.cfg.AsyncScheduling:
		return e.step
	case e.stepping:
		return e.step + 2
	case e.running.n == 0:
		return e.step
	default:
		return e.step + 1
	}
}

// Cancel forgets a request and frees what it holds, at once or, where it takes
// part in the step in progress, at that step's end. It reports whether the
// engine held the request.
func (e *Engine) Cancel(id uint64) bool {
	s := e.byID.get(id)
	switch {
	case s == nil:
		return false
	case e.stepping && s.queue == &e.running:
		e.doomed = append(e.doomed, s)
	default:
		e.forget(s)
	}
	return true
}

// Release frees the KV of a finished request that the engine holds (HoldKV), at
// any moment. It reports whether there was one of that ID. What is free again
// may let Begin go on.
func (e *Engine) Release(id uint64) bool {
	s := e.byID.get(id)
	if s == nil || s.queue != &e.held {
		return false
	}
	e.forget(s)
	return true
}

// Decoding yields the requests that decode and got a token by the step that ended: all
// that decode, but for a step with prompts alone.
func (e *Engine) Decoding() iter.Seq[uint64] {
	return func(yield func(uint64) bool) {
		for _, f := range e.decoders.heap {
			if e.alone && f.s.joined != e.stats.Steps {
				continue
			}
			if !yield(f.s.ID) {
				return
			}
		}
	}
}

// Begin schedules the next step; false where there is nothing to do, or nothing
// can be done before a Release.
func (e *Engine) Begin() (Step, bool) {
	if e.stepping {
		panic("sim: Begin before the End of the step in progress")
	}
	if e.Idle() {
		return Step{}, false
	}
	e.loading = 0
	if !e.schedule() {
		return Step{}, false
	}
	e.stepping = true
	return Step{Batch: e.batch, Duration: Plus(e.duration(), e.loading), Load: e.loading}, true
}

// duration is the time of the step in progress, with jitter and without loads.
func (e *Engine) duration() engine.Picoseconds {
	if e.batch.Empty() {
		return 0
	}
	d := max(e.timer.StepTime(e.batch), 0)
	if e.noise == nil {
		return d
	}
	// E[exp(σz − σ²/2)] = 1 for standard normal z: the mean stays what it was.
	f := math.Exp(e.cfg.Noise*e.noise.NormFloat64() - e.cfg.Noise*e.cfg.Noise/2)
	return engine.Picoseconds(math.Round(float64(d) * f))
}

// End finishes the step in progress and returns the first and last tokens that
// came out of it, at most one Event for each request. All other tokens are
// those of Decoding. The slice is valid until the next End.
func (e *Engine) End() []Event {
	if !e.stepping {
		panic("sim: End without a step in progress")
	}
	e.stepping = false
	if !e.alone {
		e.step++
	}
	e.stats.Steps++
	e.stats.OutputTokens += int64(e.batch.DecodeSeqs + len(e.complete))
	e.events = e.events[:0]
	for len(e.decoders.heap) > 0 && e.decoders.nextLast() < e.step {
		s := e.decoders.heap[0].s
		e.emit(s, s.OutputTokens == 1, true)
	}
	for _, s := range e.moved {
		if s.OutputTokens > 1 {
			e.emit(s, true, false)
		}
	}
	for _, s := range e.complete {
		s.target++
		n := s.produced()
		if n < s.OutputTokens {
			e.decoders.join(s, e.step)
			s.joined = e.stats.Steps
		}
		e.emit(s, n == 1, n == s.OutputTokens)
	}
	for _, s := range e.doomed {
		if e.byID.get(s.ID) == s {
			e.forget(s)
		}
	}
	e.complete, e.moved, e.doomed = e.complete[:0], e.moved[:0], e.doomed[:0]
	return e.events
}

// emit records that s got its first or last token, or neither.
func (e *Engine) emit(s *sequence, first, last bool) {
	if first {
		e.stats.PromptTokens += int64(s.PromptTokens)
	}
	if first || last {
		e.events = append(e.events, Event{ID: s.ID, First: first, Last: last, CachedTokens: s.cached})
	}
	switch {
	case last && e.cfg.HoldKV && !s.WarmUp:
		e.running.remove(s)
		e.held.pushBack(s)
	case last:
		e.forget(s)
	}
}

// forget removes s from the engine.
func (e *Engine) forget(s *sequence) {
	if s.queue != &e.waiting {
		e.release(s)
	} else if s == e.waiting.head {
		e.blocked = 0
	}
	s.queue.remove(s)
	e.byID.remove(s.ID)
	e.recycle(s)
}
