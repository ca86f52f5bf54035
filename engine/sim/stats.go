package sim

// Stats is what an engine is doing and what it has done.
type Stats struct {
	Running, Waiting int // requests
	Held             int // finished ones whose KV waits for its Release
	// Blocks of HBM: all, those that running and held requests have, and those
	// that only the prefix cache knows. The rest is free.
	KVUsed, KVCached, KVTotal int
	DRAMCached, NVMeCached    int // blocks in the tiers below

	Steps         int64
	PromptTokens  int64 // of requests that got their first token
	OutputTokens  int64
	PrefixQueries int64 // prompt tokens looked up in the prefix cache, once for each request
	PrefixHits    int64 // of them, found
	// Of PrefixHits, those that came up from a tier below HBM.
	PrefixHitsDRAM, PrefixHitsNVMe int64
	Preemptions                    int64
	// Tokens computed again because a preemption had lost their KV.
	Recomputed int64
}

// Stats is the engine's state and its counters.
func (e *Engine) Stats() Stats {
	s := e.stats
	s.Running, s.Waiting, s.Held = e.running.n, e.waiting.n, e.held.n
	s.KVUsed, s.KVTotal = e.KVBlocks()
	s.KVCached = e.cache.cached[hbm] - e.cache.used
	s.DRAMCached, s.NVMeCached = e.cache.cached[dram], e.cache.cached[nvme]
	return s
}

// Idle reports whether no request runs or waits.
func (e *Engine) Idle() bool { return e.running.n+e.waiting.n == 0 }

// Running is how many requests run: they hold KV blocks.
func (e *Engine) Running() int { return e.running.n }

// Waiting is how many requests wait in the queue.
func (e *Engine) Waiting() int { return e.waiting.n }

// Held is how many finished requests have KV that waits for its Release.
func (e *Engine) Held() int { return e.held.n }

// KVBlocks is how many blocks of HBM running and held requests have, and how many
// there are.
func (e *Engine) KVBlocks() (used, total int) { return e.cache.held(), e.cache.total }

// Overlap is how many blocks of a hash chain, from its head, the prefix cache
// holds now, in any tier. It costs a look at each of them, and changes nothing.
func (e *Engine) Overlap(prefix []uint64) int {
	usable, _ := e.cache.overlap(prefix)
	return usable
}
