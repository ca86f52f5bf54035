package sim

// block is a full block of prompt KV that the prefix cache knows.
type block struct {
	hash       uint64
	refs       int
	prev, next *block // in the list of unused blocks; nil while used
}

// pool counts the blocks of the KV cache: private (of one request, without a
// name), cached and used, cached and unused, and free ones, which is the rest.
type pool struct {
	total   int
	private int
	used    int               // cached blocks with refs > 0
	cached  map[uint64]*block // by hash
	unused  block             // ring of cached blocks with refs = 0; next is the least recently used
}

func newPool(total int) *pool {
	p := &pool{total: total, cached: map[uint64]*block{}}
	p.unused.prev, p.unused.next = &p.unused, &p.unused
	return p
}

// held is how many blocks requests hold.
func (p *pool) held() int { return p.private + p.used }

// available is how many blocks could be taken now, unused ones evicted.
func (p *pool) available() int { return p.total - p.held() }

// take makes n available blocks private, free ones first.
func (p *pool) take(n int) {
	p.private += n
	for p.private+len(p.cached) > p.total {
		b := p.unused.next
		b.unlink()
		delete(p.cached, b.hash)
	}
}

// give frees n private blocks.
func (p *pool) give(n int) { p.private -= n }

// match returns the cached blocks at the head of the chain, and how many of
// them are unused. It changes nothing.
func (p *pool) match(chain []uint64) (hits []*block, unused int) {
	for _, h := range chain {
		b, ok := p.cached[h]
		if !ok {
			break
		}
		if b.refs == 0 {
			unused++
		}
		hits = append(hits, b)
	}
	return hits, unused
}

// use adds a reference to each block.
func (p *pool) use(blocks []*block) {
	for _, b := range blocks {
		if b.refs == 0 {
			b.unlink()
			p.used++
		}
		b.refs++
	}
}

// drop removes a reference from each block, the last block first, so that the
// tail of a chain is evicted before its head.
func (p *pool) drop(blocks []*block) {
	for i := len(blocks) - 1; i >= 0; i-- {
		b := blocks[i]
		if b.refs--; b.refs == 0 {
			p.used--
			b.link(&p.unused)
		}
	}
}

// name turns one private block into a cached one in use; nil where the cache
// has the hash already, and the block stays private.
func (p *pool) name(hash uint64) *block {
	if _, ok := p.cached[hash]; ok {
		return nil
	}
	b := &block{hash: hash, refs: 1}
	p.cached[hash] = b
	p.private--
	p.used++
	return b
}

// link puts b at the end of the ring, as the most recently used.
func (b *block) link(ring *block) {
	b.prev, b.next = ring.prev, ring
	b.prev.next, ring.prev = b, b
}

func (b *block) unlink() {
	b.prev.next, b.next.prev = b.next, b.prev
	b.prev, b.next = nil, nil
}
