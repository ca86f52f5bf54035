package planner

import (
	"encoding/json"
	"fmt"
	"math"
	"time"

	"plimsoll/profile"
)

// Figure is a number that may be missing. Missing is not 0: Value is 0 then, and
// nobody may read it without asking Known.
type Figure[T int | float64 | time.Duration] struct {
	Value T
	Known bool
	Age   time.Duration // of the newest sample behind it, at the end of the interval
}

// Known is a figure just measured.
func Known[T int | float64 | time.Duration](v T) Figure[T] { return Figure[T]{Value: v, Known: true} }

// Milliseconds is a latency in ms, for what speaks in them: gauges, scalars.
func Milliseconds(f Figure[time.Duration]) Figure[float64] {
	return Figure[float64]{Value: profile.Milliseconds(f.Value), Known: f.Known, Age: f.Age}
}

// Or is the value, or other where it is missing.
func (f Figure[T]) Or(other T) T {
	if f.Known {
		return f.Value
	}
	return other
}

// MarshalJSON writes the value, durations in nanoseconds; null where it is missing
// or no number that JSON has: one NaN of a metric must not cost the whole event.
func (f Figure[T]) MarshalJSON() ([]byte, error) {
	if v := float64(f.Value); !f.Known || math.IsNaN(v) || math.IsInf(v, 0) {
		return []byte("null"), nil
	}
	return json.Marshal(f.Value)
}

// UnmarshalJSON reads what MarshalJSON writes; the age is lost.
func (f *Figure[T]) UnmarshalJSON(b []byte) error {
	*f = Figure[T]{}
	if string(b) == "null" {
		return nil
	}
	f.Known = true
	return json.Unmarshal(b, &f.Value)
}

// Percentile is a percentile as far as it is known. A histogram tells only the bucket that
// it lies in: it is above Low and at most High. An exact one is both.
type Percentile[T float64 | time.Duration] struct {
	Figure[T]      // linear between the ends, as Prometheus' histogram_quantile has it
	Low, High T    // High means nothing where there is none
	Open      bool // it is above the highest bound
}

// Exactly is a percentile that is known.
func Exactly[T float64 | time.Duration](v T) Percentile[T] {
	return Percentile[T]{Figure: Known(v), Low: v, High: v}
}

// Above reports whether it is above a limit, wherever in its bucket it lies.
func (p Percentile[T]) Above(limit T) bool {
	return p.Known && (p.Low > limit || p.Low == limit && (p.Open || p.High > p.Low))
}

// Straddles reports whether nothing tells if it is above a limit.
func (p Percentile[T]) Straddles(limit T) bool {
	return p.Known && !p.Above(limit) && (p.Open || p.High > limit)
}

// String is the value, or what is known of it.
func (p Percentile[T]) String() string {
	switch {
	case !p.Known:
		return "missing"
	case p.Open:
		return fmt.Sprintf("above %v", p.Low)
	case p.High > p.Low:
		return fmt.Sprintf("between %v and %v", p.Low, p.High)
	}
	return fmt.Sprint(p.Value)
}

// MarshalJSON writes both ends, the upper one null where there is none; null where it is
// missing.
func (p Percentile[T]) MarshalJSON() ([]byte, error) {
	if !p.Known {
		return []byte("null"), nil
	}
	high := Known(p.High)
	high.Known = !p.Open
	return json.Marshal([2]Figure[T]{Known(p.Low), high})
}

// Bucket is a part of a distribution: the share of its values, 0 to 1, that are above the
// bound.
type Bucket[T float64 | time.Duration] struct {
	Bound T
	Above float64
}

// Spread is a figure over the requests of an interval: its mean, and percentiles
// where the source has them.
type Spread[T float64 | time.Duration] struct {
	Count float64       `json:"count"` // requests behind it; 0 where nothing is known
	Mean  Figure[T]     `json:"mean"`
	P50   Percentile[T] `json:"p50"` // [low, high]
	P90   Percentile[T] `json:"p90"`
	P95   Percentile[T] `json:"p95"`
	P99   Percentile[T] `json:"p99"`

	// Buckets are those of the histogram that it was read from, by rising bounds, all
	// finite; none where the percentiles are exact.
	Buckets []Bucket[T] `json:"-"`
}

// At is the figure that a statistic names.
func (s Spread[T]) At(stat profile.Statistic) Percentile[T] {
	switch stat {
	case profile.P50:
		return s.P50
	case profile.P90:
		return s.P90
	case profile.P95:
		return s.P95
	case profile.P99:
		return s.P99
	default:
		return Percentile[T]{Figure: s.Mean, Low: s.Mean.Value, High: s.Mean.Value}
	}
}

// Above is the share of the values above a limit, by the buckets: at least and at most, and
// how many times as high as low the bucket is that the limit lies in, 1 where it is a bound.
// All are NaN without buckets.
func (s Spread[T]) Above(limit T) (least, most, width float64) {
	if len(s.Buckets) == 0 {
		return math.NaN(), math.NaN(), math.NaN()
	}
	below := Bucket[T]{Above: 1}
	for _, b := range s.Buckets {
		switch {
		case b.Bound == limit:
			return b.Above, b.Above, 1
		case b.Bound > limit:
			return b.Above, below.Above, float64(b.Bound) / float64(below.Bound)
		}
		below = b
	}
	return 0, below.Above, math.Inf(1)
}
