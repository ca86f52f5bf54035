package trace

import (
	"math"
	"slices"
	"time"
)

// Stats sum up a trace.
type Stats struct {
	Requests int
	Duration time.Duration // from the first arrival to the last
	// Rate is requests / Duration, in requests per second; 0 where all arrive
	// at once.
	Rate float64
	// CV is the coefficient of variation of the gaps between arrivals (with the
	// sample standard deviation): 1 is Poisson's. 0 for fewer than two gaps.
	CV       float64
	Peaks    []Peak // one per window asked for, in the same order
	ISL, OSL LengthStats
	Blocks   BlockStats
}

// Peak is how far load rises above its mean: a ratio that means nothing
// without the window that it was counted in.
type Peak struct {
	Window time.Duration
	// Requests are the most in any one of the windows that follow each other
	// from the first arrival on.
	Requests int
	// Ratio is Requests over Rate · Window; 0 where Rate is. It says little
	// where the trace is not many windows long, and can then be below 1.
	Ratio float64
}

// LengthStats sum up lengths in tokens. Quantiles are exact, and interpolated
// between order statistics (Hyndman & Fan 1996, type 7, numpy's default).
type LengthStats struct {
	Mean, P50, P99 float64
	Max            int
}

// BlockStats say how much of the prompts occurred before.
type BlockStats struct {
	Requests int // that have blocks
	Blocks   int // of them all
	// Repeated is the share of blocks whose id an earlier prompt, or the same
	// one, had: the hit rate of a cache that forgets nothing. Exact up to
	// a million different blocks; beyond that an estimate from a random part of
	// the ids that has at least half a million.
	Repeated float64
	Exact    bool
}

// Summarize sums up a trace in one pass, with peaks in the windows given (each
// above 0). Its memory grows with the number of different lengths, and with
// that of different blocks up to a million, not with the trace.
func Summarize(t Trace, windows ...time.Duration) (Stats, error) {
	s := summary{peaks: make([]peak, len(windows)), isl: counts{}, osl: counts{}, blocks: newBlockCounts()}
	for i, w := range windows {
		if err := within("window", w.Seconds(), 1e-9, math.MaxFloat64); err != nil {
			return Stats{}, err
		}
		s.peaks[i].window = w
	}
	for a, err := range t {
		if err != nil {
			return Stats{}, err
		}
		s.add(a)
	}
	return s.stats(), nil
}

// summary is Stats so far.
type summary struct {
	n           int
	first, last time.Duration
	gapMean     float64 // of gaps, in seconds, with the sum of squares around it by
	gapSquares  float64 // Welford's update (Technometrics 4(3), 1962)
	peaks       []peak
	isl, osl    counts
	requests    int // with blocks
	blocks      blockCounts
}

func (s *summary) add(a Arrival) {
	if s.n == 0 {
		s.first = a.At
	} else {
		gap := (a.At - s.last).Seconds()
		off := gap - s.gapMean
		s.gapMean += off / float64(s.n)
		s.gapSquares += off * (gap - s.gapMean)
	}
	s.n++
	s.last = a.At
	for i := range s.peaks {
		s.peaks[i].add(a.At - s.first)
	}
	s.isl[a.ISL]++
	s.osl[a.OSL]++
	if len(a.Blocks) > 0 {
		s.requests++
	}
	for _, id := range a.Blocks {
		s.blocks.add(id)
	}
}

func (s *summary) stats() Stats {
	st := Stats{Requests: s.n, Duration: s.last - s.first, ISL: s.isl.stats(), OSL: s.osl.stats(), Blocks: s.blocks.stats(s.requests)}
	if st.Duration > 0 {
		st.Rate = float64(s.n) / st.Duration.Seconds()
	}
	if s.n > 2 && s.gapMean > 0 {
		st.CV = math.Sqrt(s.gapSquares/float64(s.n-2)) / s.gapMean
	}
	for _, p := range s.peaks {
		out := Peak{Window: p.window, Requests: p.most}
		if st.Rate > 0 {
			out.Ratio = float64(p.most) / (st.Rate * p.window.Seconds())
		}
		st.Peaks = append(st.Peaks, out)
	}
	return st
}

// peak counts arrivals in one window after the other.
type peak struct {
	window time.Duration
	index  int64 // of the window that is being counted
	in     int   // arrivals in it
	most   int
}

func (p *peak) add(since time.Duration) {
	if i := int64(since / p.window); i != p.index {
		p.index, p.in = i, 0
	}
	p.in++
	p.most = max(p.most, p.in)
}

// counts are how often each length occurred.
type counts map[int]int

func (c counts) stats() LengthStats {
	if len(c) == 0 {
		return LengthStats{}
	}
	lengths := make([]int, 0, len(c))
	n, sum := 0, 0
	for l, times := range c {
		lengths = append(lengths, l)
		n += times
		sum += l * times
	}
	slices.Sort(lengths)
	return LengthStats{Mean: float64(sum) / float64(n), P50: c.quantile(lengths, n, 0.5), P99: c.quantile(lengths, n, 0.99), Max: lengths[len(lengths)-1]}
}

// quantile q of n sorted lengths: h = (n−1)·q, linear between the neighbours.
func (c counts) quantile(sorted []int, n int, q float64) float64 {
	h := q * float64(n-1)
	at := func(rank int) float64 {
		upTo := 0
		for _, l := range sorted {
			if upTo += c[l]; rank < upTo {
				return float64(l)
			}
		}
		return float64(sorted[len(sorted)-1])
	}
	low := math.Floor(h)
	return at(int(low)) + (h-low)*(at(int(low)+1)-at(int(low)))
}

// maxBlocks is how many different blocks are counted one by one.
const maxBlocks = 1 << 20

// blockCounts are how often each block occurred, of those blocks whose hash
// has as many low zero bits as bits says: all of them, until there are too many.
type blockCounts struct {
	seen  map[uint64]int
	bits  int
	total int
	limit int
}

func newBlockCounts() blockCounts { return blockCounts{seen: map[uint64]int{}, limit: maxBlocks} }

func (b *blockCounts) add(id uint64) {
	b.total++
	if !b.counted(id) {
		return
	}
	b.seen[id]++
	if len(b.seen) <= b.limit {
		return
	}
	b.bits++
	for id := range b.seen {
		if !b.counted(id) {
			delete(b.seen, id)
		}
	}
}

func (b *blockCounts) counted(id uint64) bool {
	mask := uint64(1)<<b.bits - 1
	return uint64(chain(0).then(id))&mask == 0
}

func (b *blockCounts) stats(requests int) BlockStats {
	st := BlockStats{Requests: requests, Blocks: b.total, Exact: b.bits == 0}
	occurred := 0
	for _, times := range b.seen {
		occurred += times
	}
	if occurred > 0 {
		st.Repeated = float64(occurred-len(b.seen)) / float64(occurred)
	}
	return st
}
