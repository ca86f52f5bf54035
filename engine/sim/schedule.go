package sim

import "plimsoll/engine"

// schedule fills the batch of the next step: decoding requests first, then the
// prompt computed in part, then waiting requests in order of arrival. False where
// nothing runs and nothing could start: held KV takes the room.
func (e *Engine) schedule() bool {
	preemptions, idle := e.stats.Preemptions, e.running.n == 0
	if e.alone = e.cfg.PrefillAlone && e.cfg.Role != engine.RoleDecode && e.prefill(idle); e.alone {
		return true
	}
	e.grow()
	e.batch = engine.Batch{
		DecodeSeqs:    len(e.decoders.heap),
		DecodeContext: e.decoders.context(e.step),
	}
	budget := e.cfg.Limits.MaxNumBatchedTokens - e.batch.DecodeSeqs
	if e.partial != nil {
		budget -= e.resume(budget)
	}
	if e.stats.Preemptions > preemptions {
		return true // what was just freed is for those that run
	}
	if !e.cfg.PrefillAlone || e.cfg.Role == engine.RoleDecode {
		e.admit(budget, idle)
	}
	return e.running.n > 0
}

// prefill fills the batch with prompts alone; false where there are none that could be
// computed: decoding waits until there are.
func (e *Engine) prefill(idle bool) bool {
	e.batch = engine.Batch{}
	budget := e.cfg.Limits.MaxNumBatchedTokens
	if e.partial != nil {
		budget -= e.resume(budget)
	}
	e.admit(budget, idle)
	return e.batch.PrefillSeqs > 0 || len(e.complete) > 0 // warm-ups take no time
}

// admit starts waiting requests as far as they can.
func (e *Engine) admit(budget int, idle bool) {
	for e.waiting.n > 0 && e.running.n < e.cfg.Limits.MaxNumSeqs && e.partial == nil {
		if e.waiting.head.from > e.step && !idle {
			return // this step was scheduled before it came
		}
		if e.blocked > 0 && budget >= e.blocked {
			return // looking again would not help
		}
		n, ok := e.start(e.waiting.head, budget)
		if !ok {
			return
		}
		budget -= n
	}
}

// grow gives every decoding sequence the block that its next token needs,
// preempting the latest arrivals where there are too few.
func (e *Engine) grow() {
	phase := e.step % uint64(len(e.decoders.growing))
	for e.decoders.growing[phase] > e.cache.available() {
		e.preempt(e.running.tail)
	}
	e.cache.take(e.decoders.growing[phase])
}

// resume computes the next chunk of the partial prompt, or preempts it where
// blocks are lacking: it is the latest arrival of all that run. It returns the
// budget spent.
func (e *Engine) resume(budget int) int {
	s := e.partial
	n := min(s.target-s.computed, budget)
	need := e.blocks(s.computed+n) - s.held
	if need > e.cache.available() {
		e.preempt(s)
		return 0
	}
	e.partial = nil
	e.hold(s, need)
	e.batch.AddChunk(n, s.computed)
	e.compute(s, n)
	return n
}

// start moves the head of the queue to the running requests and computes its
// first chunk; false where budget or blocks are lacking. It returns the budget
// spent.
func (e *Engine) start(s *sequence, budget int) (int, bool) {
	if budget == 0 && !s.WarmUp {
		return 0, false
	}
	e.lookUp(s)
	found := len(s.shared) * e.cfg.Limits.BlockSize
	n := s.target - found
	if !s.WarmUp && !e.transferred(s) {
		n = min(n, budget)
	}
	need := e.blocks(found+n) - len(s.shared)
	window := e.cfg.Window.Extra(e.blocks(s.PromptTokens + s.OutputTokens))
	if e.mustFit(s, found+n)-len(s.shared)+e.cache.idle(s.shared)+window > e.cache.available() {
		e.blocked = budget
		if e.cfg.ReserveFullPrompt {
			e.blocked = 1 // the budget makes no difference
		}
		return 0, false
	}
	e.blocked = 0
	if e.cfg.States == StatesAtForks {
		_, known := e.cache.overlap(s.Prefix)
		e.cache.keepState(s.Prefix[:known]) // this prompt will compute it
	}
	loaded := e.cache.use(s.shared)
	if !s.WarmUp {
		// The tail of a prompt sinks first, so that its last blocks are the lowest.
		below := e.cfg.NVMe.load(loaded[nvme], 0)
		e.loading = Plus(e.loading, Plus(below, e.cfg.DRAM.load(loaded[dram], loaded[nvme])))
	}
	e.countStart(s, loaded)
	s.named, s.held, s.computed = len(s.shared), len(s.shared), found
	e.hold(s, need)
	s.window = window
	e.cache.take(window)
	e.waiting.remove(s)
	e.running.pushBack(s)
	e.compute(s, n)
	switch {
	case s.WarmUp:
		return 0, true
	case e.transferred(s):
		e.batch.AddDecode(s.target)
		return 1, true
	default:
		e.batch.AddChunk(n, found)
		return n, true
	}
}

// mustFit is how many blocks a sequence needs to start, shared ones too, where
// its first step leaves so many tokens in KV.
func (e *Engine) mustFit(s *sequence, computed int) int {
	if e.cfg.ReserveFullPrompt {
		computed = s.target
	}
	return e.blocks(computed)
}

// transferred reports whether the KV of s comes from a prefill engine.
func (e *Engine) transferred(s *sequence) bool {
	return (s.Transferred || e.cfg.Role == engine.RoleDecode) && !s.recompute && !s.WarmUp
}

// lookUp sets the shared blocks of s, which waits, to what the prefix cache
// holds of it. The block of the last token is never among them: that token must
// be computed to get the next one. What is transferred is not loaded.
func (e *Engine) lookUp(s *sequence) {
	s.shared = s.shared[:0]
	if !e.cfg.PrefixCaching {
		return
	}
	lowest := nvme
	if e.transferred(s) {
		lowest = hbm
	}
	s.shared = e.cache.match(s.shared, s.Prefix[:min(len(s.Prefix), (s.target-1)/e.cfg.Limits.BlockSize)], lowest)
}

// countStart counts the first start of s in the prefix statistics.
func (e *Engine) countStart(s *sequence, loaded [levels]int) {
	if s.started || !e.cfg.PrefixCaching {
		return
	}
	size := e.cfg.Limits.BlockSize
	s.started, s.cached = true, len(s.shared)*size
	e.stats.PrefixQueries += int64(s.PromptTokens)
	e.stats.PrefixHits += int64(s.cached)
	e.stats.PrefixHitsDRAM += int64(loaded[dram] * size)
	e.stats.PrefixHitsNVMe += int64(loaded[nvme] * size)
}

// hold gives s another n blocks.
func (e *Engine) hold(s *sequence, n int) {
	e.cache.take(n)
	s.held += n
}

// compute puts the next n tokens of s into KV and says what becomes of it.
// Full blocks are known to the cache at once, as in vLLM: a later prompt of the
// same step may use them.
func (e *Engine) compute(s *sequence, n int) {
	if !s.WarmUp {
		e.stats.Recomputed += int64(max(min(s.computed+n, s.lost)-s.computed, 0))
	}
	s.computed += n
	if e.cfg.PrefixCaching {
		full := min(s.computed/e.cfg.Limits.BlockSize, len(s.Prefix))
		for ; s.named < full; s.named++ {
			if i := e.cache.name(s.Prefix[s.named]); i != 0 {
				s.shared = append(s.shared, i)
			}
			if s.named+1 == s.PromptTokens/e.cfg.Limits.BlockSize {
				e.cache.keepState(s.Prefix[:s.named+1])
			}
		}
	}
	switch {
	case s.computed < s.target:
		e.partial = s
	case e.transferred(s):
		e.decoders.join(s, e.step)
		e.moved = append(e.moved, s)
	default:
		e.complete = append(e.complete, s)
	}
}

// preempt sends a running sequence back to the head of the queue, its KV gone.
func (e *Engine) preempt(s *sequence) {
	e.release(s)
	s.recompute = true
	e.stats.Preemptions++
	e.running.remove(s)
	e.waiting.pushFront(s)
}

// release frees the KV of a running sequence between steps.
func (e *Engine) release(s *sequence) {
	if s == e.partial {
		e.partial = nil
	}
	if s.decoding {
		e.decoders.leave(s, e.step)
		s.computed = s.target - 1 // the newest token is not in KV yet
		s.held = e.blocks(s.computed)
	}
	s.lost = max(s.lost, s.computed)
	e.cache.drop(s.shared)
	e.cache.give(s.held - len(s.shared) + s.window)
	s.shared, s.named, s.held, s.window, s.computed = s.shared[:0], 0, 0, 0, 0
	e.blocked = 0
}

// blocks is how many blocks n tokens fill or begin.
func (e *Engine) blocks(n int) int {
	return (n + e.cfg.Limits.BlockSize - 1) / e.cfg.Limits.BlockSize
}

// load is the time to bring up n blocks of a prompt that end so many before its last.
func (t Tier) load(n, before int) engine.Picoseconds {
	windowed := min(n, max(0, t.Window-before))
	return Plus(times(n, t.Load-t.Windowed), times(windowed, t.Windowed))
}
