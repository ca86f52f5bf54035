package replay

import (
	"slices"
	"sort"

	"plimsoll/engine"
	"plimsoll/engine/sim/fleet"
	"plimsoll/profile"
)

// sample is latencies in picoseconds, sorted.
type sample []int64

// mostInSample is how many latencies of each kind a cell keeps.
const mostInSample = 500

// sampled are values, sorted in place, or as many of them in equal steps of rank.
func sampled(values []int64) sample {
	slices.Sort(values)
	if len(values) <= mostInSample {
		return values
	}
	out := make(sample, mostInSample)
	for i := range out {
		out[i] = values[(2*i+1)*len(values)/(2*mostInSample)]
	}
	return out
}

// within is the share of a sample that is at most a limit; 1 of none.
func (s sample) within(limit int64) float64 {
	if len(s) == 0 {
		return 1
	}
	return float64(sort.Search(len(s), func(i int) bool { return s[i] > limit })) / float64(len(s))
}

// latency is a distribution of latencies of parts of requests: so many shares make
// one request.
type latency struct{ fleet.Sketch }

const sharesOfRequest = 1000

// add adds requests whose latencies are a sample's, and as much longer.
func (l *latency) add(s sample, requests float64, longer engine.Picoseconds) {
	if len(s) == 0 {
		return
	}
	weight := int64(requests*sharesOfRequest/float64(len(s)) + 0.5)
	for _, v := range s {
		l.Add(v+int64(longer), weight)
	}
}

func (l *latency) distribution() profile.Distribution {
	d := l.Distribution()
	d.N /= sharesOfRequest
	return d
}

// tails are the latencies of all that a fluid fleet served. Requests that waited for
// nobody are kept by the cell that served them, since steps are many and cells few.
type tails struct {
	ttft, tpot, e2e latency
	first           map[*cell]float64 // requests, by how their first token came
	decoded         map[*cell]float64 // and by how the others did, where no backlog was
}

func newTails() tails { return tails{first: map[*cell]float64{}, decoded: map[*cell]float64{}} }

// add takes in a step's requests that got their first token: they waited so long on
// average, and a share of them was decoded by full engines, whose tokens make a
// request longer by so much.
func (t *tails) add(c *cell, n float64, waited, longer engine.Picoseconds, by backlog) {
	if waited == 0 && by.share == 0 {
		t.first[c] += n
		t.decoded[c] += n
		return
	}
	t.ttft.add(c.ttfts, n, waited)
	t.e2e.add(c.e2es, n, waited+longer)
	t.decoded[c] += n * (1 - by.share)
	if by.share > 0 {
		t.tpot.add(by.full.tpots, n*by.share, 0)
	}
}

// sum is all of them in a result.
func (t *tails) sum(out *Result) {
	for c, n := range t.first {
		t.ttft.add(c.ttfts, n, 0)
		t.e2e.add(c.e2es, n, 0)
	}
	for c, n := range t.decoded {
		t.tpot.add(c.tpots, n, 0)
	}
	out.TTFT, out.TPOT, out.E2E = t.ttft.distribution(), t.tpot.distribution(), t.e2e.distribution()
}
