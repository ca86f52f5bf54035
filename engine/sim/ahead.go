package sim

import (
	"math"

	"plimsoll/engine"
)

// Ahead is the run of steps that comes next; without any where the next step
// must go through Begin and End, as every step must where there is noise, or
// where the timer is no DecodeTimer. It changes nothing.
func (e *Engine) Ahead() Run {
	seqs := len(e.decoders.heap)
	if e.runs == nil || e.stepping || seqs == 0 || e.partial != nil {
		return Run{}
	}
	before := e.decoders.nextLast() - e.step // the next last token
	if before == 0 {
		return Run{}
	}
	steps := before + 1
	if e.waiting.n > 0 && e.waiting.head.from > e.step {
		steps = min(steps, e.waiting.head.from-e.step)
	} else if !e.headStays() {
		return Run{}
	}
	steps = e.decoders.affordable(e.step, steps, e.cache.available())
	if steps == 0 {
		return Run{}
	}
	first, growth, most := e.runs.DecodeRun(seqs, e.decoders.context(e.step))
	if growth < 0 {
		most = min(most, int64(first/-growth)+1)
	}
	if first < 0 || most < 1 { // Begin takes a negative time for 0
		return Run{}
	}
	n := min(int64(min(steps, math.MaxInt64)), most)
	return Run{First: first, Growth: growth, Steps: min(n, int64(before)), Seqs: seqs, Ends: n > int64(before)}
}

// headStays reports whether no waiting request can start while nothing but
// decoding happens. It says no where nobody has looked yet. A head that lacked
// blocks goes on lacking them: decoding only takes blocks, and where that costs
// the cache a block of the head's prompt, the last one it has, the head needs
// at most one block less while one less is there.
func (e *Engine) headStays() bool {
	budget := e.cfg.Limits.MaxNumBatchedTokens
	if !e.cfg.PrefillAlone {
		budget -= len(e.decoders.heap)
	}
	return e.waiting.n == 0 || e.running.n >= e.cfg.Limits.MaxNumSeqs || e.blocked > 0 && budget >= e.blocked
}

// Skip takes the next n steps at once, at most Ahead().Steps: the engine is
// then as if each had gone through Begin and End. More are the caller's bug,
// and panic where they would pass a last token or need a preemption.
func (e *Engine) Skip(n int64) {
	if n <= 0 {
		return
	}
	d := &e.decoders
	grown := d.grown(e.step, uint64(n))
	if len(d.heap) == 0 || e.stepping || d.nextLast()-e.step < uint64(n) || grown > e.cache.available() {
		panic("sim: Skip of more steps than Ahead gave")
	}
	e.cache.take(grown)
	e.step += uint64(n)
	e.stats.Steps += n
	e.stats.OutputTokens += n * int64(len(d.heap))
}

// BeginLast begins the step after a run that Ends, all of which was skipped, as
// Begin would, but need neither schedule nor time it. Anywhere else it is the
// caller's bug, and panics.
func (e *Engine) BeginLast() {
	d := &e.decoders
	grown := d.growing[e.step%uint64(len(d.growing))]
	if len(d.heap) == 0 || e.stepping || d.nextLast() != e.step || grown > e.cache.available() {
		panic("sim: BeginLast without the end of a run before it")
	}
	e.cache.take(grown)
	e.batch = engine.Batch{DecodeSeqs: len(d.heap), DecodeContext: d.context(e.step)}
	e.loading, e.alone = 0, false
	e.stepping = true
}
