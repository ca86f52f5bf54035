package observe

import (
	"cmp"
	"math"
	"slices"
)

// bucket is a cumulative bucket of a histogram: how many values were at most the
// bound.
type bucket struct {
	bound float64 // the last one is +Inf
	count float64
}

// Histogram is what a histogram gained over a range, all series together.
type Histogram struct {
	Count float64 // values; not whole, since Prometheus extrapolates to the range's ends
	Sum   float64 // of the values; NaN = not known

	buckets []bucket // by rising bounds, counts never falling
	// bent is the largest share of Count by which a bucket had to be raised to
	// that below it.
	bent float64
}

// newHistogram makes one from buckets by bound; false where it has no value, or
// no bucket +Inf, or a count that is not a number.
func newHistogram(counts map[float64]float64, sum float64) (Histogram, bool) {
	h := Histogram{Sum: sum}
	for bound, n := range counts {
		if math.IsNaN(bound) || !(n >= 0) || math.IsInf(n, 1) {
			return Histogram{}, false
		}
		h.buckets = append(h.buckets, bucket{bound, n})
	}
	slices.SortFunc(h.buckets, func(a, b bucket) int { return cmp.Compare(a.bound, b.bound) })
	if n := len(h.buckets); n == 0 || !math.IsInf(h.buckets[n-1].bound, 1) {
		return Histogram{}, false
	}
	// Series of different buckets, or scraped while they changed, add up to counts
	// that fall.
	var fallen float64
	for i := 1; i < len(h.buckets); i++ {
		b := &h.buckets[i]
		fallen = max(fallen, h.buckets[i-1].count-b.count)
		b.count = max(b.count, h.buckets[i-1].count)
	}
	h.Count = h.buckets[len(h.buckets)-1].count
	if h.Count <= 0 {
		return Histogram{}, false
	}
	h.bent = fallen / h.Count
	return h, true
}

// Mean is Sum / Count: of all values, so that a series of many requests weighs
// more than one of few.
func (h Histogram) Mean() float64 { return h.Sum / h.Count }

// Quantile is as much as buckets tell about one: the value lies in (Low, High].
type Quantile struct {
	// Value is linear between the bounds, as Prometheus' histogram_quantile has
	// it; Low where there is no upper bound. NaN = not known.
	Value float64
	Low   float64 // the bound below; 0 below the lowest
	High  float64 // +Inf where the value is above the highest finite bound
}

// unknown is a quantile of nothing.
func unknown() Quantile { return Quantile{math.NaN(), math.NaN(), math.NaN()} }

// Known reports whether there was anything to take a quantile of.
func (q Quantile) Known() bool { return !math.IsNaN(q.Value) }

// Unbounded reports whether the value is somewhere above Low.
func (q Quantile) Unbounded() bool { return math.IsInf(q.High, 1) }

// rounding is the relative error of sums that are taken for equal: Prometheus'
// smallDeltaTolerance (promql/quantile.go, v3.5).
const rounding = 1e-12

// Quantile of p, from 0 to 1. Values are taken to be above 0, as lengths and
// latencies are.
func (h Histogram) Quantile(p float64) Quantile {
	if h.Count <= 0 || !(p >= 0 && p <= 1) {
		return unknown()
	}
	rank := p * h.Count
	i := slices.IndexFunc(h.buckets, func(b bucket) bool { return b.count >= rank*(1-rounding) && b.count > 0 })
	if i < 0 { // rank rounded above the count
		i = len(h.buckets) - 1
	}
	low, below := 0.0, 0.0
	if i > 0 {
		low, below = max(0, h.buckets[i-1].bound), h.buckets[i-1].count
	}
	b := h.buckets[i]
	if math.IsInf(b.bound, 1) {
		return Quantile{Value: low, Low: low, High: b.bound}
	}
	share := 1.0
	if b.count > below {
		share = min(1, max(0, (rank-below)/(b.count-below)))
	}
	return Quantile{Value: low + share*(b.bound-low), Low: low, High: b.bound}
}
