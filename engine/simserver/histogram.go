package simserver

import (
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// histogram counts durations, or tokens, under its owner's lock. Unlike client_golang's it
// finds the bucket once for the equal values that the tokens of a step have.
type histogram struct {
	bounds []float64 // seconds or tokens, rising
	counts []uint64  // by bound, and one for all above
	sum    float64   // of the values

	lastValue  time.Duration // in lastBucket; 0 is in the first one
	lastBucket int
}

// newHistogram makes an empty one; bounds in seconds or tokens.
func newHistogram(bounds []float64) *histogram {
	return &histogram{bounds: bounds, counts: make([]uint64, len(bounds)+1)}
}

// observe counts v.
func (h *histogram) observe(v time.Duration) {
	if v != h.lastValue {
		h.lastValue = v
		h.lastBucket, _ = slices.BinarySearch(h.bounds, v.Seconds())
	}
	h.counts[h.lastBucket]++
	h.sum += v.Seconds()
}

// observeTokens counts a length.
func (h *histogram) observeTokens(n int) {
	at, _ := slices.BinarySearch(h.bounds, float64(n))
	h.counts[at]++
	h.sum += float64(n)
}

// metric is the histogram as Prometheus wants it.
func (h *histogram) metric(desc *prometheus.Desc) prometheus.Metric {
	cumulative := make(map[float64]uint64, len(h.bounds))
	var n uint64
	for i, b := range h.bounds {
		n += h.counts[i]
		cumulative[b] = n
	}
	return prometheus.MustNewConstHistogram(desc, n+h.counts[len(h.bounds)], h.sum, cumulative)
}
