package planner

import (
	"encoding/json"
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

// Spread is a figure over the requests of an interval: its mean, and percentiles
// where the source has them.
type Spread[T float64 | time.Duration] struct {
	Count float64   `json:"count"` // requests behind it; 0 where nothing is known
	Mean  Figure[T] `json:"mean"`
	P50   Figure[T] `json:"p50"`
	P90   Figure[T] `json:"p90"`
	P95   Figure[T] `json:"p95"`
	P99   Figure[T] `json:"p99"`
}

// At is the figure that a statistic names.
func (s Spread[T]) At(stat profile.Statistic) Figure[T] {
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
		return s.Mean
	}
}
