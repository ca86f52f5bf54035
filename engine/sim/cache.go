package sim

// level is where a cached block lies.
type level uint8

const (
	hbm level = iota
	dram
	nvme
	levels
)

// block is a full block of prompt KV that the prefix cache knows.
type block struct {
	hash       uint64
	refs       int32 // running requests that use it; then it is in HBM
	prev, next int32 // in its level's ring of unused blocks; next alone in the list of spare ones
	level      level
	state      bool // the state after it is kept, too
}

// cache counts the blocks of HBM: private (of one request, without a name),
// cached and used, cached and unused, and free ones, which is the rest. It
// knows the cached ones of every level by name; each is in one level at a time.
type cache struct {
	total   int // blocks in HBM
	private int
	used    int          // cached blocks with refs > 0
	cached  [levels]int  // used or not
	room    [levels]int  // for cached blocks below HBM
	byHash  table[int32] // indices of blocks
	// blocks has the head of each level's ring first: next is its least
	// recently used block, prev its most recently used one.
	blocks []block
	states bool  // hits end where a state is kept
	spare  int32 // a slot of blocks to use again, and by next all of them; 0 = none
}

func newCache(c Config) cache {
	p := cache{total: c.KVBlocks, blocks: make([]block, levels, 64), states: c.States != ""}
	p.room[dram], p.room[nvme] = c.DRAM.Blocks, c.NVMe.Blocks
	for l := range p.blocks {
		p.blocks[l].prev, p.blocks[l].next = int32(l), int32(l)
	}
	return p
}

// held is how many blocks requests hold.
func (p *cache) held() int { return p.private + p.used }

// available is how many blocks could be taken now, unused ones evicted.
func (p *cache) available() int { return p.total - p.held() }

// overlap is how many blocks at the head of the chain are cached at any level and can
// be used, and how many are without regard to states.
func (p *cache) overlap(chain []uint64) (usable, known int) {
	for n, h := range chain {
		i := p.byHash.get(h)
		if i == 0 {
			break
		}
		if known = n + 1; !p.states || p.blocks[i].state {
			usable = known
		}
	}
	return usable, known
}

// match appends to hits the usable cached blocks at the head of the chain, down to
// the lowest level. It changes nothing.
func (p *cache) match(hits []int32, chain []uint64, lowest level) []int32 {
	for _, h := range chain {
		i := p.byHash.get(h)
		if i == 0 || p.blocks[i].level > lowest {
			break
		}
		hits = append(hits, i)
	}
	for p.states && len(hits) > 0 && !p.blocks[hits[len(hits)-1]].state {
		hits = hits[:len(hits)-1]
	}
	return hits
}

// keepState keeps the state after the last block of a chain, which is cached.
func (p *cache) keepState(chain []uint64) {
	if n := len(chain); p.states && n > 0 {
		p.blocks[p.byHash.get(chain[n-1])].state = true
	}
}

// idle is how many of the blocks nobody uses: those must be taken.
func (p *cache) idle(blocks []int32) int {
	n := 0
	for _, i := range blocks {
		if p.blocks[i].refs == 0 {
			n++
		}
	}
	return n
}

// use adds a reference to each block, in HBM from now on, and counts where
// those lay that nobody used. The caller's next take makes room for what came
// up.
func (p *cache) use(blocks []int32) (loaded [levels]int) {
	for _, i := range blocks {
		b := &p.blocks[i]
		if b.refs == 0 {
			loaded[b.level]++
			p.unlink(i)
			p.cached[b.level]--
			p.cached[hbm]++
			b.level = hbm
			p.used++
		}
		b.refs++
	}
	return loaded
}

// drop removes a reference from each block, the last block first, so that the
// tail of a chain is evicted before its head.
func (p *cache) drop(blocks []int32) {
	for k := len(blocks) - 1; k >= 0; k-- {
		b := &p.blocks[blocks[k]]
		if b.refs--; b.refs == 0 {
			p.used--
			p.link(blocks[k], hbm)
		}
	}
}

// take makes n available blocks private, free ones first.
func (p *cache) take(n int) {
	p.private += n
	for p.private+p.cached[hbm] > p.total {
		p.sink(p.blocks[hbm].next)
	}
}

// give frees n private blocks.
func (p *cache) give(n int) { p.private -= n }

// name turns one private block into a cached one in use; 0 where HBM has the
// hash already, and the block stays private. A copy at a lower level goes.
func (p *cache) name(hash uint64) int32 {
	i := p.byHash.get(hash)
	state := i != 0 && p.blocks[i].state
	switch {
	case i == 0:
		i = p.slot()
		p.byHash.put(hash, i)
	case p.blocks[i].level == hbm:
		return 0
	default:
		p.unlink(i)
		p.cached[p.blocks[i].level]--
	}
	p.blocks[i] = block{hash: hash, refs: 1, state: state}
	p.cached[hbm]++
	p.private--
	p.used++
	return i
}

// sink moves an unused block to the next level that has room at all, which
// sinks that level's least recently used one where it is full.
func (p *cache) sink(i int32) {
	l := p.blocks[i].level
	p.unlink(i)
	p.cached[l]--
	for l++; l < levels && p.room[l] == 0; l++ {
	}
	if l == levels {
		p.byHash.remove(p.blocks[i].hash)
		p.blocks[i].next, p.spare = p.spare, i
		return
	}
	p.link(i, l)
	p.cached[l]++
	if p.cached[l] > p.room[l] {
		p.sink(p.blocks[l].next)
	}
}

// slot is an index of blocks that is free.
func (p *cache) slot() int32 {
	i := p.spare
	if i == 0 {
		p.blocks = append(p.blocks, block{})
		return int32(len(p.blocks) - 1)
	}
	p.spare = p.blocks[i].next
	return i
}

// link puts a block at the end of a level's ring, as the most recently used.
func (p *cache) link(i int32, l level) {
	ring, b := &p.blocks[l], &p.blocks[i]
	b.level, b.prev, b.next = l, ring.prev, int32(l)
	p.blocks[ring.prev].next = i
	ring.prev = i
}

// unlink takes an unused block out of its level's ring.
func (p *cache) unlink(i int32) {
	b := &p.blocks[i]
	p.blocks[b.prev].next, p.blocks[b.next].prev = b.next, b.prev
}
