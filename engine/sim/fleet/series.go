package fleet

import (
	"math"

	"plimsoll/engine"
	"plimsoll/engine/sim"
)

// finest is the width of a series' bins at the start.
const finest = engine.Millisecond

// Bin is what happened in a span of a simulation. Waiting, Running and KVUse
// are means over its time.
type Bin struct {
	From, To           engine.Picoseconds
	Arrivals, Finished int64
	Waiting, Running   float64            // requests, over all pools
	KVUse              float64            // share of the KV cache in use, from 0 to 1, of the pool that decodes
	FirstTokens        int64              // requests that got their first token
	TTFTMean, TTFTMax  engine.Picoseconds // of them
}

// mark is what happened up to an instant.
type mark struct {
	at                 engine.Picoseconds
	arrivals, finished int64
	waiting, running   wide
	kvTwice, capacity  wide // block-picoseconds in use, twice, and there
	firsts             int64
	ttft               wide
	slowest            engine.Picoseconds // TTFT since the mark before
}

// series is marks at equal distances, at most so many: when it is full, every
// second one goes and the distance doubles.
type series struct {
	marks   []mark
	width   engine.Picoseconds
	edge    engine.Picoseconds // where the next mark belongs; Forever = nowhere
	slowest engine.Picoseconds // TTFT since the last mark
}

// newSeries is an empty series of n bins at most, n rounded up to an even number.
func newSeries(n int) series {
	return series{marks: make([]mark, 0, n+n%2), width: finest, edge: finest}
}

// close adds the mark at the edge.
func (s *series) close(m mark) {
	s.marks = append(s.marks, m)
	s.slowest = 0
	if len(s.marks) == cap(s.marks) {
		s.thin()
	}
	s.edge = sim.Plus(m.at, s.width)
}

// thin leaves every second mark.
func (s *series) thin() {
	for i := range len(s.marks) / 2 {
		kept := s.marks[2*i+1]
		kept.slowest = max(kept.slowest, s.marks[2*i].slowest)
		s.marks[i] = kept
	}
	s.marks = s.marks[:len(s.marks)/2]
	s.width = sim.Plus(s.width, s.width)
}

// mark is what happened up to an instant, which the fleet's replicas have
// caught up with.
func (f *Fleet) mark(at engine.Picoseconds) mark {
	m := mark{
		at: at, arrivals: f.tally.offered, finished: f.tally.finished,
		firsts: f.ttft.count, ttft: f.ttft.sum, slowest: f.series.slowest,
	}
	for _, p := range f.pools {
		m.waiting = m.waiting.plus(p.waiting.area(at))
		m.running = m.running.plus(p.running.area(at))
	}
	last := f.pools[len(f.pools)-1]
	m.kvTwice, m.capacity = last.kvTwiceAt(at), last.capacity(at)
	return m
}

// kvTwiceAt is twice the integral of KV blocks in use up to an instant.
func (p *pool) kvTwiceAt(at engine.Picoseconds) wide {
	w := p.kvTwice.plus(p.kv.area(at).times(2))
	for _, r := range p.live {
		w = w.minus(r.kvTwiceAfter(at))
	}
	return w
}

// capacity is the integral of the KV blocks of all replicas in service.
func (p *pool) capacity(at engine.Picoseconds) wide {
	return p.serving.area(at).times(int64(p.Engine.KVBlocks))
}

// bin is what happened between two marks.
func bin(from, to mark) Bin {
	span := to.at - from.at
	b := Bin{
		From: from.at, To: to.at,
		Arrivals: to.arrivals - from.arrivals, Finished: to.finished - from.finished,
		Waiting: per(to.waiting.minus(from.waiting), span), Running: per(to.running.minus(from.running), span),
		KVUse:       share(to.kvTwice.minus(from.kvTwice), to.capacity.minus(from.capacity)) / 2,
		FirstTokens: to.firsts - from.firsts, TTFTMax: to.slowest,
	}
	if b.FirstTokens > 0 {
		b.TTFTMean = engine.Picoseconds(math.Round(to.ttft.minus(from.ttft).float() / float64(b.FirstTokens)))
	}
	return b
}

// share is a/b; 0 of nothing.
func share(a, b wide) float64 {
	if b == (wide{}) {
		return 0
	}
	return a.float() / b.float()
}

// bins is the series up to now; the last bin may be narrower than the others.
func (f *Fleet) bins() []Bin {
	var bins []Bin
	var before mark
	for _, m := range f.series.marks {
		bins = append(bins, bin(before, m))
		before = m
	}
	if f.now > before.at {
		bins = append(bins, bin(before, f.mark(f.now)))
	}
	return bins
}
