package planner

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"time"

	"plimsoll/profile"
)

// Histogram is what a histogram of metrics gained over a range, all series together.
type Histogram struct {
	Count float64 // values; not whole where a server extrapolates to the range's ends
	Sum   float64 // of the values; NaN = not known
	// Bent is the largest share of Count by which a bucket had to be raised to that below it.
	Bent float64

	buckets []bucket // by rising bounds, counts never falling
}

// bucket is cumulative: how many values were at most the bound.
type bucket struct {
	bound float64 // the last one is +Inf
	count float64
}

// NewHistogram makes one of the values at most each bound; false where it has no value, or
// no bucket +Inf, or a count that is not a number.
func NewHistogram(counts map[float64]float64, sum float64) (Histogram, bool) {
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
	h.Bent = fallen / h.Count
	return h, true
}

// Mean is Sum / Count: of all values, so that a series of many requests weighs
// more than one of few.
func (h Histogram) Mean() float64 { return h.Sum / h.Count }

// rounding is the relative error of sums that are taken for equal: Prometheus'
// smallDeltaTolerance (promql/quantile.go, v3.5).
const rounding = 1e-12

// Quantile of p, from 0 to 1. Values are taken to be above 0, as lengths and
// latencies are.
func (h Histogram) Quantile(p float64) Percentile[float64] {
	if h.Count <= 0 || !(p >= 0 && p <= 1) {
		return Percentile[float64]{}
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
		return Percentile[float64]{Figure: Known(low), Low: low, Open: true}
	}
	share := 1.0
	if b.count > below {
		share = min(1, max(0, (rank-below)/(b.count-below)))
	}
	return Percentile[float64]{Figure: Known(low + share*(b.bound-low)), Low: low, High: b.bound}
}

// Variation is the squared coefficient of variation of values in buckets, taken for
// lognormal with their mean: the largest that is about as likely as the likeliest, which is
// what buckets allow that are too coarse to tell. It is not ok without buckets or a mean.
func (s Spread[T]) Variation() (v float64, ok bool) {
	mean := math.Log(float64(s.Mean.Value))
	if len(s.Buckets) == 0 || !s.Mean.Known || math.IsInf(mean, 0) || math.IsNaN(mean) {
		return 0, false
	}
	type part struct{ share, low, high float64 } // of the values, between logarithms
	var parts []part
	below := Bucket[T]{Above: 1}
	for _, b := range append(s.Buckets[:len(s.Buckets):len(s.Buckets)], Bucket[T]{}) {
		high := math.Log(float64(b.Bound))
		if b == (Bucket[T]{}) {
			high = math.Inf(1)
		}
		if share := below.Above - b.Above; share > 0 {
			parts = append(parts, part{share, math.Log(float64(below.Bound)), high})
		}
		below = b
	}
	likely := func(sigma float64) (sum float64) {
		cdf := func(x float64) float64 { return math.Erfc(-((x-mean)/sigma+sigma/2)/math.Sqrt2) / 2 }
		for _, p := range parts {
			sum += p.share * s.Count * math.Log(math.Max(cdf(p.high)-cdf(p.low), leastLikely))
		}
		return sum
	}
	const least, most, steps = 0.01, 2.4, 100 // of sigma
	best, sigma := math.Inf(-1), least
	for i := range steps {
		at := least * math.Pow(most/least, float64(i)/(steps-1))
		if l := likely(at); l >= best-0.5 { // one standard error
			best, sigma = max(best, l), at
		}
	}
	v = math.Expm1(sigma * sigma)
	if p := s.P99; p.Known && !p.Open { // other distributions reach no further
		v = min(v, profile.Spread2(float64(s.Mean.Value), float64(p.High)))
	}
	return v, true
}

// leastLikely keeps a value that no such distribution has from ruling all of them out.
const leastLikely = 1e-9

// SpreadOf is a histogram in figures of an age, its values in another unit.
func SpreadOf[T float64 | time.Duration](h Histogram, unit func(float64) T, age time.Duration) Spread[T] {
	out := Spread[T]{Count: h.Count}
	figure := func(v float64) Figure[T] { return Figure[T]{Value: unit(v), Known: true, Age: age} }
	if !math.IsNaN(h.Sum) {
		out.Mean = figure(h.Mean())
	}
	at := func(p float64) Percentile[T] {
		q := h.Quantile(p)
		return Percentile[T]{Figure: figure(q.Value), Low: unit(q.Low), High: unit(q.High), Open: q.Open}
	}
	out.P50, out.P90, out.P95, out.P99 = at(0.50), at(0.90), at(0.95), at(0.99)
	for _, b := range h.buckets[:len(h.buckets)-1] {
		out.Buckets = append(out.Buckets, Bucket[T]{Bound: unit(b.bound), Above: 1 - b.count/h.Count})
	}
	return out
}

// Seconds are a duration, to the nanosecond.
func Seconds(v float64) time.Duration { return time.Duration(math.Round(v * float64(time.Second))) }

// Tokens are themselves.
func Tokens(v float64) float64 { return v }

// Bounds are the upper bounds of a server's histograms but the last, +Inf: latencies in
// seconds, lengths in tokens. Without bounds a distribution is seen exactly.
type Bounds struct {
	TTFT, ITL, TPOT, E2E []float64
	ISL, OSL             []float64
}

// How finely histograms are cut around a promise: each bound is so many times the one
// below, from limit/2.7 to 2.7·limit.
const (
	fine      = 1.15
	fineSteps = 7
)

// Around are the bounds with finer ones around what an SLA promises, its limits among them:
// whether it is kept is known then, and by how much to 15 %.
func (b Bounds) Around(sla profile.SLA) Bounds {
	around := func(bounds []float64, limit time.Duration) []float64 {
		at, reach := limit.Seconds(), math.Pow(fine, fineSteps)
		if at == 0 || len(bounds) == 0 {
			return bounds
		}
		out := slices.DeleteFunc(slices.Clone(bounds), func(v float64) bool { return v > at/reach/fine && v < at*reach*fine })
		for i := -fineSteps; i <= fineSteps; i++ {
			v := at
			if i != 0 { // three digits do
				v, _ = strconv.ParseFloat(strconv.FormatFloat(at*math.Pow(fine, float64(i)), 'g', 3, 64), 64)
			}
			out = append(out, v)
		}
		slices.Sort(out)
		return slices.Compact(out)
	}
	b.TTFT, b.ITL, b.TPOT = around(b.TTFT, sla.TTFT), around(b.ITL, sla.ITL), around(b.TPOT, sla.ITL)
	return b
}
