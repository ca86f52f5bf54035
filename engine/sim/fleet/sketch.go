package fleet

import (
	"math"
	"math/bits"
	"slices"
	"time"

	"plimsoll/engine"
	"plimsoll/profile"
)

// Each octave of a Sketch's values is cut into this many buckets of equal width.
const (
	octaveBits    = 7
	octaveBuckets = 1 << octaveBits
)

// SketchError is the largest relative error of a Sketch's quantiles: half a
// bucket's width over its lower bound.
const SketchError = 1.0 / (2 * octaveBuckets)

// Sketch is a distribution of non-negative integers, of picoseconds or of
// tokens, in fixed memory: at most 7296 counters, grown to the largest value.
// Its count, sum, minimum and maximum are exact; its quantiles are within
// SketchError of a value of that rank, and exact below 256. The zero value is
// empty. Merging is exact: it gives what adding everything to one Sketch does.
//
// Buckets are log-linear as in HdrHistogram (G. Tene, 2012): a value's bucket
// is its highest 8 bits and their place.
type Sketch struct {
	buckets  []int64
	count    int64
	sum      wide
	min, max int64
}

// bucketOf is the index of v's bucket, v ≥ 0.
func bucketOf(v int64) int {
	e := max(bits.Len64(uint64(v))-octaveBits-1, 0)
	return e<<octaveBits + int(v>>e)
}

// bounds are the least and the greatest value of a bucket.
func bounds(bucket int) (low, high int64) {
	if bucket < 2*octaveBuckets {
		return int64(bucket), int64(bucket)
	}
	e := bucket>>octaveBits - 1
	low = int64(bucket-e<<octaveBits) << e
	return low, low + (int64(1)<<e - 1)
}

// Add adds a value, weight times; a negative value counts as 0, and a weight
// below 1 does nothing.
func (s *Sketch) Add(value, weight int64) {
	if weight < 1 {
		return
	}
	value = max(value, 0)
	s.put(bucketOf(value), weight)
	s.note(value, value, weight, product(value, weight))
}

// AddRun adds the n values first, first + growth, …, each weight times, at the
// cost of the buckets that they fall into. None of them may be negative.
func (s *Sketch) AddRun(first, growth, n, weight int64) {
	if n < 1 || weight < 1 {
		return
	}
	if growth < 0 {
		first, growth = first+growth*(n-1), -growth
	}
	last := first + growth*(n-1)
	// n·first + growth·n(n−1)/2 = n(first + last)/2
	sum := product(n, first).plus(product(n, last)).half()
	if weight > 1 {
		sum = sum.times(weight)
	}
	s.note(first, last, n*weight, sum)
	for i := int64(0); i < n; {
		v := first + growth*i
		bucket := bucketOf(v)
		_, high := bounds(bucket)
		next := n
		if last > high {
			next = i + (high-v)/growth + 1
		}
		s.put(bucket, (next-i)*weight)
		i = next
	}
}

// put counts in a bucket.
func (s *Sketch) put(bucket int, weight int64) {
	if bucket >= len(s.buckets) {
		// To the end of the octave: sizes change seldom.
		s.buckets = append(s.buckets, make([]int64, (bucket|(octaveBuckets-1))+1-len(s.buckets))...)
	}
	s.buckets[bucket] += weight
}

// note keeps the exact figures.
func (s *Sketch) note(least, most, weight int64, sum wide) {
	if s.count == 0 {
		s.min, s.max = least, most
	}
	s.min, s.max = min(s.min, least), max(s.max, most)
	s.count += weight
	s.sum = s.sum.plus(sum)
}

// Merge adds all that o holds.
func (s *Sketch) Merge(o Sketch) {
	if o.count == 0 {
		return
	}
	s.put(len(o.buckets)-1, 0)
	for i, n := range o.buckets {
		s.buckets[i] += n
	}
	s.note(o.min, o.max, o.count, o.sum)
}

// Since is what was added after s was as earlier: count and sum are exact,
// minimum and maximum within SketchError.
func (s Sketch) Since(earlier Sketch) Sketch {
	d := Sketch{buckets: slices.Clone(s.buckets), count: s.count - earlier.count, sum: s.sum.minus(earlier.sum)}
	for i, n := range earlier.buckets {
		d.buckets[i] -= n
	}
	if d.count == 0 {
		return d
	}
	d.min, _ = bounds(slices.IndexFunc(d.buckets, func(n int64) bool { return n > 0 }))
	for i, n := range d.buckets {
		if n > 0 {
			_, d.max = bounds(i)
		}
	}
	d.min, d.max = max(d.min, s.min), min(d.max, s.max)
	return d
}

// Clone is a copy of its own.
func (s Sketch) Clone() Sketch {
	s.buckets = slices.Clone(s.buckets)
	return s
}

// Count is how many values were added, weights included.
func (s Sketch) Count() int64 { return s.count }

// Mean is the exact mean; 0 of nothing.
func (s Sketch) Mean() float64 {
	if s.count == 0 {
		return 0
	}
	return s.sum.float() / float64(s.count)
}

// Min is the least value; 0 of nothing.
func (s Sketch) Min() int64 { return s.min }

// Max is the greatest value; 0 of nothing.
func (s Sketch) Max() int64 { return s.max }

// Quantile is the value of rank ⌈q·count⌉ (at least 1), within SketchError;
// 0 of nothing. q is from 0 to 1.
func (s Sketch) Quantile(q float64) int64 {
	rank := max(int64(math.Ceil(q*float64(s.count))), 1)
	for i, n := range s.buckets {
		if rank -= n; rank <= 0 {
			low, high := bounds(i)
			return min(max(low+(high-low)/2, s.min), s.max)
		}
	}
	return s.max
}

// Above is how many values are above a bound; of those in the bound's own bucket
// the part that lies above it, as if they were spread evenly.
func (s Sketch) Above(bound int64) float64 {
	if s.count == 0 || bound >= s.max {
		return 0
	}
	if bound < s.min {
		return float64(s.count)
	}
	own, above := bucketOf(bound), 0.0
	for i := own + 1; i < len(s.buckets); i++ {
		above += float64(s.buckets[i])
	}
	low, high := bounds(own)
	return above + float64(s.buckets[own])*float64(high-bound)/(float64(high-low)+1)
}

// std is the sample standard deviation, each value taken at the middle of its
// bucket: within about SketchError of the mean.
func (s Sketch) std() float64 {
	if s.count < 2 {
		return 0
	}
	mean, sum := s.Mean(), 0.0
	for i, n := range s.buckets {
		if n > 0 {
			low, high := bounds(i)
			d := float64(low)/2 + float64(high)/2 - mean
			sum += d * d * float64(n)
		}
	}
	return math.Sqrt(sum / float64(s.count-1))
}

// Distribution is the sketch of picoseconds in the words of a profile. It has
// no confidence interval: the values of one simulation are not independent.
func (s Sketch) Distribution() profile.Distribution {
	at := func(q float64) time.Duration { return engine.Picoseconds(s.Quantile(q)).Duration() }
	return profile.Distribution{
		N:    int(s.count),
		Mean: duration(s.Mean()), Std: duration(s.std()),
		Min: engine.Picoseconds(s.min).Duration(), Max: engine.Picoseconds(s.max).Duration(),
		P50: at(0.50), P90: at(0.90), P95: at(0.95), P99: at(0.99),
	}
}

// duration is ps picoseconds.
func duration(ps float64) time.Duration {
	return time.Duration(math.Round(ps / float64(engine.Nanosecond)))
}
