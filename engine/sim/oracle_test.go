package sim

import (
	"cmp"
	"slices"

	"plimsoll/engine"
)

// oracle is the scheduler again, as dumb as can be: every block is an object,
// every step looks at every sequence, and every figure is a sum from scratch.
type oracle struct {
	cfg     Config
	blocks  []*oracleBlock
	running []*oracleSeq
	waiting []*oracleSeq
	use     int
	stats   Stats
	batch   engine.Batch
}

type oracleBlock struct {
	name uint64 // 0 = none
	refs int
	used int // when it was last let go
}

type oracleSeq struct {
	Request
	known, computed    int
	blocks             []*oracleBlock
	started, recompute bool
	decodes            bool // since its last start it produced a token, or its prompt was transferred
	cached             int
	scheduled          int // tokens in this step
}

func newOracle(c Config) *oracle {
	o := &oracle{cfg: c}
	for range c.KVBlocks {
		o.blocks = append(o.blocks, &oracleBlock{})
	}
	return o
}

func (o *oracle) add(r Request) {
	r.OutputTokens = o.cfg.Output(r.OutputTokens)
	o.waiting = append(o.waiting, &oracleSeq{Request: r, known: r.PromptTokens})
}

func (o *oracle) cancel(id uint64) {
	same := func(s *oracleSeq) bool { return s.ID == id }
	for _, s := range o.running {
		if same(s) {
			o.free(s)
		}
	}
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

// allocate gives s a block: one without a name, or the one let go longest ago.
func (o *oracle) allocate(s *oracleSeq) {
	var best *oracleBlock
	for _, b := range o.blocks {
		if b.refs > 0 {
			continue
		}
		if best == nil || (b.name == 0 && best.name != 0) || (b.name != 0 && best.name != 0 && b.used < best.used) {
			best = b
		}
	}
	*best = oracleBlock{refs: 1}
	s.blocks = append(s.blocks, best)
}

func (o *oracle) free(s *oracleSeq) {
	for _, b := range slices.Backward(s.blocks) {
		o.use++
		b.refs--
		b.used = o.use
	}
	s.blocks, s.computed, s.decodes = nil, 0, false
}

func (o *oracle) named(name uint64) *oracleBlock {
	for _, b := range o.blocks {
		if b.name == name {
			return b
		}
	}
	return nil
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
	s.computed += n
	s.scheduled = n
	if o.cfg.PrefixCaching {
		size := o.cfg.Limits.BlockSize
		for i := (s.computed - n) / size; i < min(s.computed/size, len(s.Prefix)); i++ {
			if o.named(s.Prefix[i]) == nil { // otherwise it stays a nameless double
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
	o.batch = engine.Batch{}
	before := o.stats.Preemptions
	for _, s := range append(slices.Clone(o.running), o.waiting...) {
		s.scheduled = 0
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
	for i := 0; i < len(o.running); i++ {
		s := o.running[i]
		if s.scheduled > 0 {
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
	if o.stats.Preemptions == before {
		o.admit(budget)
	}
	return o.batch, true
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

func (o *oracle) admit(budget int) {
	for len(o.waiting) > 0 && len(o.running) < o.cfg.Limits.MaxNumSeqs {
		if n := len(o.running); n > 0 && o.running[n-1].computed < o.running[n-1].known {
			return // a prompt is cut
		}
		s := o.waiting[0]
		moved := o.cfg.Role == engine.RoleDecode && !s.WarmUp && !s.recompute
		if !s.WarmUp && budget == 0 {
			return
		}
		o.hit(s)
		n := s.known - s.computed
		if !s.WarmUp && !moved {
			n = min(n, budget)
		}
		if o.need(s, n) > o.available() {
			o.unhit(s)
			return
		}
		found := s.computed
		if !s.started {
			s.started, s.cached = true, found
			if o.cfg.PrefixCaching {
				o.stats.PrefixQueries += int64(s.PromptTokens)
				o.stats.PrefixHits += int64(found)
			}
		}
		o.waiting = o.waiting[1:]
		o.running = append(o.running, s)
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

// hit gives s the cached blocks at the head of its prompt; unhit takes them
// back without a trace in their order.
func (o *oracle) hit(s *oracleSeq) {
	if !o.cfg.PrefixCaching {
		return
	}
	for i := range min(len(s.Prefix), (s.known-1)/o.cfg.Limits.BlockSize) {
		b := o.named(s.Prefix[i])
		if b == nil {
			return
		}
		b.refs++
		s.blocks = append(s.blocks, b)
		s.computed += o.cfg.Limits.BlockSize
	}
}

func (o *oracle) unhit(s *oracleSeq) {
	for _, b := range s.blocks {
		b.refs--
	}
	s.blocks, s.computed = nil, 0
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
			o.free(s)
			o.running = slices.DeleteFunc(o.running, func(r *oracleSeq) bool { return r == s })
		}
	}
	return tokens, events
}

func (o *oracle) state() Stats {
	s := o.stats
	s.Running, s.Waiting, s.KVTotal = len(o.running), len(o.waiting), len(o.blocks)
	s.KVUsed = len(o.blocks) - o.available()
	return s
}
