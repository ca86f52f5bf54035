package profile

import (
	"math"
	"slices"
	"time"
)

// An engine decodes all of its streams in one step after another, so the chunks
// of a step arrive together, or in the same order as in the step before. Where
// steps begin is found from the instants alone: one stream after the other is
// followed, each as far as it goes; between two chunks of it the longest pause
// among all arrivals is where one step ends and the next begins. That asks for no
// threshold: chunks that arrive at once fall on one side of the cut, whatever
// their jitter, and where arrivals are spread evenly any cut will do, since
// every stream then has one chunk on each side of it.

// stepStarts are the instants at which engine steps begin to arrive, rising, from
// the instants of each stream's chunks, rising likewise.
func stepStarts(streams [][]time.Duration) []time.Duration {
	all := slices.Concat(streams...)
	slices.Sort(all)
	var starts []time.Duration
	next := 0 // of all
	last := time.Duration(math.MinInt64)
	for _, at := range chain(streams) {
		cut, pause := at, time.Duration(0)
		for ; next < len(all) && all[next] <= at; next++ {
			if all[next] > last && next > 0 && all[next]-all[next-1] > pause {
				cut, pause = all[next], all[next]-all[next-1]
			}
		}
		if len(starts) == 0 && len(all) > 0 {
			cut = all[0]
		}
		if len(starts) == 0 || cut > starts[len(starts)-1] {
			starts = append(starts, cut)
		}
		last = at
	}
	return starts
}

// chain follows one stream to its end, then the one that goes on the longest,
// and so on: at every instant at which anything streams, a stream is followed.
func chain(streams [][]time.Duration) []time.Duration {
	var out []time.Duration
	t := time.Duration(math.MinInt64)
	for {
		best := -1
		for i, s := range streams {
			if len(s) == 0 || s[len(s)-1] <= t {
				continue
			}
			if best < 0 || better(s, streams[best], t) {
				best = i
			}
		}
		if best < 0 {
			return out
		}
		s := streams[best]
		from := 0
		if t > math.MinInt64 {
			from, _ = slices.BinarySearch(s, t+1)
			if from > 0 && s[from]-t < t-s[from-1] {
				from++ // of the step that t is in
			}
		}
		out = append(out, s[from:]...)
		t = s[len(s)-1]
	}
}

// better prefers streams under way at t, then those that go on the longest; where
// none is, the one that begins first.
func better(a, b []time.Duration, t time.Duration) bool {
	under := func(s []time.Duration) bool { return s[0] <= t }
	switch {
	case under(a) != under(b):
		return under(a)
	case !under(a) && a[0] != b[0]:
		return a[0] < b[0]
	}
	return a[len(a)-1] > b[len(b)-1]
}

// stepMeans are the mean gap of each step that brought one, ns, in order.
func stepMeans(streams [][]time.Duration) []float64 {
	starts := stepStarts(streams)
	sums, counts := make([]float64, len(starts)), make([]float64, len(starts))
	for _, s := range streams {
		step := 0
		if len(s) > 1 {
			after, _ := slices.BinarySearch(starts, s[1]+1)
			step = after - 1
		}
		for i := 1; i < len(s); i++ {
			for step+1 < len(starts) && starts[step+1] <= s[i] {
				step++
			}
			sums[step] += float64(s[i] - s[i-1])
			counts[step]++
		}
	}
	var means []float64
	for i, n := range counts {
		if n > 0 {
			means = append(means, sums[i]/n)
		}
	}
	return means
}
