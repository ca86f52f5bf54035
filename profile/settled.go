package profile

import (
	"math"
	"slices"
	"time"
)

// An engine may still warm up when all streams run: graphs are captured, clocks
// rise, caches fill. How much of the beginning is that is decided by MSER-5
// (White, Simulation 69(6), 1997; White, Cobb & Spratt, WSC 2000): of the means
// of five steps each, drop as many as make the standard error of the rest least,
// half of them at most. It is followed only where that halves the squared error,
// and where half of what is dropped lies off the line through the rest by more
// than transient and by more than three of its standard deviations: a stall in
// the middle, or plain noise, is the engine's and stays.
const (
	mserBatch = 5
	transient = 0.05 // of the mean gap
)

// settled is the instant in w from which on the gaps of all streams follow one
// line; w.From where they do from the start.
func settled(rs []Request, w Window) time.Duration {
	streams := gather(rs, w)
	ms := stepMeans(streams)
	drop := mserBatch * transientBatches(batches(ms))
	if drop == 0 {
		return w.From
	}
	// Steps with a gap begin with the second one.
	if starts := stepStarts(streams); drop < len(starts) {
		return starts[drop]
	}
	return w.From
}

// batches are the means of mserBatch steps each, the first ones first.
func batches(ms []float64) []float64 { return batchMeans(ms[:len(ms)/mserBatch*mserBatch], mserBatch) }

// transientBatches is how many of the batches at the beginning are warm-up.
func transientBatches(ms []float64) int {
	mser := func(d int) float64 {
		n := float64(len(ms) - d)
		return sumSquares(residuals(ms[d:], true)) / n / n
	}
	best := 0
	for d := 1; d <= len(ms)/2 && len(ms)-d >= 4; d++ {
		if mser(d) < mser(best) {
			best = d
		}
	}
	if best == 0 || mser(best) > mser(0)/2 {
		return 0
	}
	rest := ms[best:]
	n := float64(len(rest))
	rs := residuals(rest, true)
	// The line's value before its first point, by its own first two.
	first, slope := rest[0]-rs[0], (rest[1]-rs[1])-(rest[0]-rs[0])
	offs := make([]float64, best)
	for i, m := range ms[:best] {
		offs[i] = math.Abs(m - (first - slope*float64(best-i)))
	}
	slices.Sort(offs)
	off := offs[(best-1)/2]
	noise := sumSquares(rs) / (n - 2)
	mean := 0.0
	for _, m := range rest {
		mean += m / n
	}
	if off*off <= 9*noise || off <= transient*mean {
		return 0
	}
	return best
}
