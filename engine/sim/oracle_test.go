package sim

import (
	"cmp"
	"math"
	"slices"

	"plimsoll/engine"
)

// oracle is the scheduler again, as dumb as can be: every block is an object,
// every step looks at every sequence, and every figure is a sum from scratch.
type oracle struct {
	cfg     Config
	blocks  []*oracleBlock
	lower   [2]oracleTier
	load    engine.Picoseconds // of this step
	running []*oracleSeq
	waiting []*oracleSeq
	held    []*oracleSeq
	use     int
	begun   int  // steps
	inside  bool // one of them
	stats   Stats
	batch   engine.Batch
}

type oracleBlock struct {
	name uint64 // 0 = none
	refs int
	used int // when it was last let go
}

// oracleTier holds names of blocks, the least recently used first.
type oracleTier struct {
	Tier
	names []uint64
}

type oracleSeq struct {
	Request
	known, computed    int
	best               int // the most tokens that it ever had in KV
	blocks, window     []*oracleBlock
	started, recompute bool
	decodes            bool // since its last start it produced a token, or its prompt was transferred
	cached             int
	scheduled          int // tokens in this step
	first              int // number of the first step that it can be part of
}

func newOracle(c Config) *oracle {
	o := &oracle{cfg: c, lower: [2]oracleTier{{Tier: c.DRAM}, {Tier: c.NVMe}}}
	for range c.KVBlocks {
		o.blocks = append(o.blocks, &oracleBlock{})
	}
	return o
}

func (o *oracle) add(r Request) {
	r.OutputTokens = o.cfg.Output(r.OutputTokens)
	s := &oracleSeq{Request: r, known: r.PromptTokens, first: o.begun + 1}
	if o.cfg.AsyncScheduling && (o.inside || len(o.running) > 0) {
		s.first++ // the next step is scheduled already
	}
	o.waiting = append(o.waiting, s)
}

func (o *oracle) cancel(id uint64) {
	same := func(s *oracleSeq) bool { return s.ID == id }
	for _, s := range append(slices.Clone(o.running), o.held...) {
		if same(s) {
			o.free(s)
		}
	}
	o.held = slices.DeleteFunc(o.held, same)
	o.running = slices.DeleteFunc(o.running, same)
	o.waiting = slices.DeleteFunc(o.waiting, same)
}

func (o *oracle) available() int {
	n := 0
	for _, b := range o.blocks {
		if b.refs == 0 {
			n++
		}
	}
	return n
}

// allocate gives s a block.
func (o *oracle) allocate(s *oracleSeq) { s.blocks = append(s.blocks, o.any()) }

// ofWindow is how many blocks s takes for layers with a window: a share of each of
// the first blocks that it will ever have.
func (o *oracle) ofWindow(s *oracleSeq) int {
	share, size := 0.0, o.cfg.Limits.BlockSize
	for i := 0; i < o.cfg.Window.Blocks && i*size < s.PromptTokens+s.OutputTokens; i++ {
		share += o.cfg.Window.Share
	}
	return int(math.Ceil(share))
}

// any is a block: one without a name, or the one let go longest ago.
func (o *oracle) any() *oracleBlock {
	var best *oracleBlock
	for _, b := range o.blocks {
		if b.refs > 0 {
			continue
		}
		if best == nil || (b.name == 0 && best.name != 0) || (b.name != 0 && best.name != 0 && b.used < best.used) {
			best = b
		}
	}
	if best.name != 0 {
		o.evict(best.name)
	}
	*best = oracleBlock{refs: 1}
	return best
}

// evict hands a name down, tier by tier, to where it pushes nobody out.
func (o *oracle) evict(name uint64) {
	for i := range o.lower {
		t := &o.lower[i]
		t.names = append(t.names, name)
		if len(t.names) <= t.Blocks {
			return
		}
		name, t.names = t.names[0], t.names[1:]
	}
}

func (o *oracle) free(s *oracleSeq) {
	for _, b := range slices.Backward(s.blocks) {
		o.use++
		b.refs--
		b.used = o.use
	}
	for _, b := range s.window {
		b.refs--
	}
	s.blocks, s.window, s.computed, s.decodes = nil, nil, 0, false
}

func (o *oracle) named(name uint64) *oracleBlock {
	for _, b := range o.blocks {
		if b.name == name {
			return b
		}
	}
	return nil
}

// below is the lower tier that has a name, nil where none has.
func (o *oracle) below(name uint64) *oracleTier {
	for i := range o.lower {
		if slices.Contains(o.lower[i].names, name) {
			return &o.lower[i]
		}
	}
	return nil
}

// raise takes a name out of its lower tier, if it is in one.
func (o *oracle) raise(name uint64) {
	if t := o.below(name); t != nil {
		t.names = slices.DeleteFunc(t.names, func(n uint64) bool { return n == name })
	}
}

// overlap is how many names of the chain are cached anywhere.
func (o *oracle) overlap(chain []uint64) int {
	n := slices.IndexFunc(chain, func(name uint64) bool { return o.named(name) == nil && o.below(name) == nil })
	if n < 0 {
		return len(chain)
	}
	return n
}

// need is how many more blocks s needs for n more tokens.
func (o *oracle) need(s *oracleSeq, n int) int {
	size := o.cfg.Limits.BlockSize
	return (s.computed+n+size-1)/size - len(s.blocks)
}

func (o *oracle) compute(s *oracleSeq, n int) {
	for range o.need(s, n) {
		o.allocate(s)
	}
	for range n {
		if s.computed++; s.computed <= s.best && !s.WarmUp {
			o.stats.Recomputed++
		}
	}
	s.best = max(s.best, s.computed)
	s.scheduled = n
	if o.cfg.PrefixCaching {
		size := o.cfg.Limits.BlockSize
		for i := (s.computed - n) / size; i < min(s.computed/size, len(s.Prefix)); i++ {
			if o.named(s.Prefix[i]) == nil { // otherwise it stays a nameless double
				o.raise(s.Prefix[i])
				s.blocks[i].name = s.Prefix[i]
			}
		}
	}
}

func (o *oracle) preemptLast() {
	s := o.running[len(o.running)-1]
	o.running = o.running[:len(o.running)-1]
	o.free(s)
	s.recompute = true
	o.waiting = slices.Insert(o.waiting, 0, s)
	o.stats.Preemptions++
}

func (o *oracle) begin() (engine.Batch, bool) {
	if len(o.running)+len(o.waiting) == 0 {
		return engine.Batch{}, false
	}
	o.batch, o.load = engine.Batch{}, 0
	o.begun++
	o.inside = true
	idle := len(o.running) == 0
	before := o.stats.Preemptions
	for _, s := range append(slices.Clone(o.running), o.waiting...) {
		s.scheduled = 0
	}
	alone := o.cfg.PrefillAlone && o.cfg.Role != engine.RoleDecode
	if alone {
		budget := o.resume(o.cfg.Limits.MaxNumBatchedTokens)
		had := len(o.running)
		if o.admit(budget, idle); o.batch.PrefillSeqs > 0 || len(o.running) > had {
			return o.batch, true
		}
	}
	o.growAll()
	budget := o.cfg.Limits.MaxNumBatchedTokens
	for _, s := range o.running {
		if s.decodes {
			o.batch.AddDecode(s.known)
			o.compute(s, 1)
			budget--
		}
	}
	budget = o.resume(budget)
	if o.stats.Preemptions > before {
		return o.batch, true
	}
	if !alone {
		o.admit(budget, idle)
	}
	if len(o.running) == 0 { // no step at all
		o.begun--
		o.inside = false
		return engine.Batch{}, false
	}
	return o.batch, true
}

// resume computes more of prompts that were cut, and gives the budget that is left.
func (o *oracle) resume(budget int) int {
	for i := 0; i < len(o.running); i++ {
		s := o.running[i]
		if s.scheduled > 0 || s.decodes {
			continue
		}
		n := min(s.known-s.computed, budget)
		if o.need(s, n) > o.available() {
			o.preemptLast()
			continue
		}
		o.batch.AddChunk(n, s.computed)
		o.compute(s, n)
		budget -= n
	}
	return budget
}

// growAll preempts until every decoding sequence can have its block.
func (o *oracle) growAll() {
	for {
		need := 0
		for _, s := range o.running {
			if s.decodes {
				need += o.need(s, 1)
			}
		}
		if need <= o.available() {
			return
		}
		o.preemptLast()
	}
}

func (o *oracle) admit(budget int, idle bool) {
	for len(o.waiting) > 0 && len(o.running) < o.cfg.Limits.MaxNumSeqs {
		if n := len(o.running); n > 0 && !o.running[n-1].decodes && o.running[n-1].computed < o.running[n-1].known {
			return // a prompt is cut
		}
		s := o.waiting[0]
		if o.cfg.AsyncScheduling && s.first > o.begun && !idle {
			return
		}
		moved := o.cfg.Role == engine.RoleDecode && !s.WarmUp && !s.recompute
		if !s.WarmUp && budget == 0 {
			return
		}
		hits := o.hits(s, moved)
		found := len(hits) * o.cfg.Limits.BlockSize
		n := s.known - found
		if !s.WarmUp && !moved {
			n = min(n, budget)
		}
		must := found + n
		if o.cfg.ReserveFullPrompt {
			must = s.known
		}
		if o.need(s, must)-o.inUse(hits)+o.ofWindow(s) > o.available() {
			return
		}
		o.take(s, hits)
		o.waiting = o.waiting[1:]
		o.running = append(o.running, s)
		for range o.ofWindow(s) {
			s.window = append(s.window, o.any())
		}
		o.compute(s, n)
		switch {
		case s.WarmUp:
		case moved:
			s.decodes = true
			o.batch.AddDecode(s.known)
			budget--
		default:
			o.batch.AddChunk(n, found)
			budget -= n
		}
	}
}

// hits are the names at the head of s's prompt that are cached where s may
// have them from.
func (o *oracle) hits(s *oracleSeq, moved bool) []uint64 {
	if !o.cfg.PrefixCaching {
		return nil
	}
	chain := s.Prefix[:min(len(s.Prefix), (s.known-1)/o.cfg.Limits.BlockSize)]
	for i, name := range chain {
		if o.named(name) == nil && (moved || o.below(name) == nil) {
			return chain[:i]
		}
	}
	return chain
}

// inUse is how many of the names cost no available block.
func (o *oracle) inUse(names []uint64) int {
	n := 0
	for _, name := range names {
		if b := o.named(name); b != nil && b.refs > 0 {
			n++
		}
	}
	return n
}

// take gives s the cached blocks, and counts them where it starts for the
// first time. First all are taken out of the way of eviction, then those from
// below get their blocks.
func (o *oracle) take(s *oracleSeq, names []uint64) {
	size := o.cfg.Limits.BlockSize
	var from [2]int
	fromBelow := map[uint64]bool{}
	for _, name := range names {
		if b := o.named(name); b != nil {
			b.refs++
			continue
		}
		fromBelow[name] = true
		t := o.below(name)
		o.raise(name)
		if t == &o.lower[0] {
			from[0] += size
		} else {
			from[1] += size
		}
	}
	for k := 0; k < (from[0]+from[1])/size && !s.WarmUp; k++ { // from the prompt's end: what is lowest comes first
		t := o.cfg.DRAM
		if k < from[1]/size {
			t = o.cfg.NVMe
		}
		o.load += t.Load
		if k >= t.Window {
			o.load -= t.Windowed
		}
	}
	for _, name := range names {
		if fromBelow[name] {
			o.allocate(s)
			s.blocks[len(s.blocks)-1].name = name
		} else {
			s.blocks = append(s.blocks, o.named(name))
		}
		s.computed += size
	}
	if s.started {
		return
	}
	s.started, s.cached = true, s.computed
	if o.cfg.PrefixCaching {
		o.stats.PrefixQueries += int64(s.PromptTokens)
		o.stats.PrefixHits += int64(s.cached)
		o.stats.PrefixHitsDRAM += int64(from[0])
		o.stats.PrefixHitsNVMe += int64(from[1])
	}
}

func rank(s *oracleSeq) int {
	if s.decodes {
		return 0
	}
	return 1
}

// end returns the requests that got a token, and the events among them.
func (o *oracle) end() (tokens []uint64, events []Event) {
	o.stats.Steps++
	o.inside = false
	// The order in which blocks are let go decides who is evicted: decoding
	// requests before prompts, otherwise by arrival.
	slices.SortStableFunc(o.running, func(a, b *oracleSeq) int { return cmp.Compare(rank(a), rank(b)) })
	defer func() { slices.SortFunc(o.running, func(a, b *oracleSeq) int { return cmp.Compare(a.ID, b.ID) }) }()
	for _, s := range slices.Clone(o.running) {
		if s.computed < s.known {
			continue
		}
		s.known++
		s.decodes = true
		produced := s.known - s.PromptTokens
		tokens = append(tokens, s.ID)
		o.stats.OutputTokens++
		ev := Event{ID: s.ID, First: produced == 1, Last: produced == s.OutputTokens, CachedTokens: s.cached}
		if ev.First {
			o.stats.PromptTokens += int64(s.PromptTokens)
		}
		if ev.First || ev.Last {
			events = append(events, ev)
		}
		if ev.Last {
			if o.cfg.HoldKV && o.cfg.Role == engine.RolePrefill && !s.WarmUp {
				o.held = append(o.held, s)
			} else {
				o.free(s)
			}
			o.running = slices.DeleteFunc(o.running, func(r *oracleSeq) bool { return r == s })
		}
	}
	return tokens, events
}

func (o *oracle) state() Stats {
	s := o.stats
	s.Running, s.Waiting, s.Held, s.KVTotal = len(o.running), len(o.waiting), len(o.held), len(o.blocks)
	s.KVUsed = len(o.blocks) - o.available()
	for _, b := range o.blocks {
		if b.refs == 0 && b.name != 0 {
			s.KVCached++
		}
	}
	s.DRAMCached, s.NVMeCached = len(o.lower[0].names), len(o.lower[1].names)
	return s
}
