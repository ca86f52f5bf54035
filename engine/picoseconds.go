package engine

import (
	"math"
	"time"
)

// Picoseconds is a span of virtual time, or an instant since a simulation's
// start; it reaches 106 days. Sums of integers are exact in every order, so
// that a run of steps taken at once ends where the steps one by one do.
type Picoseconds int64

// Spans of virtual time.
const (
	Nanosecond  Picoseconds = 1000
	Microsecond             = 1000 * Nanosecond
	Millisecond             = 1000 * Microsecond
	Second                  = 1000 * Millisecond
	Day                     = 24 * 3600 * Second
)

// FromDuration is d in picoseconds; beyond 106 days it stays there.
func FromDuration(d time.Duration) Picoseconds {
	const most = math.MaxInt64 / int64(Nanosecond)
	return Picoseconds(min(max(int64(d), -most), most)) * Nanosecond
}

// FromSeconds is s seconds, rounded to a picosecond; beyond 106 days it stays
// there, and what is not a number is 0.
func FromSeconds(s float64) Picoseconds {
	ps := math.Round(s * float64(Second))
	switch {
	case ps >= math.MaxInt64:
		return math.MaxInt64
	case ps <= math.MinInt64:
		return math.MinInt64
	case math.IsNaN(ps):
		return 0
	}
	return Picoseconds(ps)
}

// Duration is p rounded to a nanosecond, halves away from zero.
func (p Picoseconds) Duration() time.Duration {
	half := Nanosecond / 2
	if p < 0 {
		half = -half
	}
	return time.Duration((p / Nanosecond)) + time.Duration((p%Nanosecond+half)/Nanosecond)
}

// Seconds is p in seconds.
func (p Picoseconds) Seconds() float64 { return float64(p) / float64(Second) }

// Milliseconds is p in milliseconds.
func (p Picoseconds) Milliseconds() float64 { return float64(p) / float64(Millisecond) }
