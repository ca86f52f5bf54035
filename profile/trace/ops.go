package trace

import (
	"fmt"
	"slices"
	"time"
)

// each applies change to every arrival.
func each(t Trace, change func(*Arrival)) Trace {
	return func(yield func(Arrival, error) bool) {
		for a, err := range t {
			if err == nil {
				change(&a)
			}
			if !yield(a, err) || err != nil {
				return
			}
		}
	}
}

// Limit is the first n arrivals.
func Limit(t Trace, n int) Trace {
	return func(yield func(Arrival, error) bool) {
		left := n
		if left <= 0 {
			return
		}
		for a, err := range t {
			if left--; !yield(a, err) || left == 0 || err != nil {
				return
			}
		}
	}
}

// Between is the arrivals from one instant on and before another, each at its
// own time: Rebase moves them to 0.
func Between(t Trace, from, to time.Duration) Trace {
	return func(yield func(Arrival, error) bool) {
		for a, err := range t {
			if err == nil && a.At < from {
				continue
			}
			if (err == nil && a.At >= to) || !yield(a, err) || err != nil {
				return
			}
		}
	}
}

// Rebase moves the trace so that its first arrival is at 0.
func Rebase(t Trace) Trace {
	return func(yield func(Arrival, error) bool) {
		base, begun := time.Duration(0), false
		for a, err := range t {
			if err == nil && !begun {
				base, begun = a.At, true
			}
			a.At -= base
			if !yield(a, err) || err != nil {
				return
			}
		}
	}
}

// Compress divides all times by factor: 2 doubles the rate in half the time,
// 0.5 halves it. Peaks keep their height against the mean, and daily patterns
// become shorter; Thin and Superpose change the rate in the same time. It wants
// a factor of 1e-6 to 1e6, and ends with an error where a time grows too long.
func Compress(t Trace, factor float64) (Trace, error) {
	if err := within("factor", factor, 1e-6, 1e6); err != nil {
		return nil, fmt.Errorf("compressing a trace: %w", err)
	}
	return func(yield func(Arrival, error) bool) {
		for a, err := range t {
			if err == nil {
				at, fits := seconds(a.At.Seconds() / factor)
				if !fits {
					err = fmt.Errorf("compressing a trace by %v: an arrival at %v comes too late for a time in nanoseconds", factor, a.At)
				}
				a.At = at
			}
			if !yield(a, err) || err != nil {
				return
			}
		}
	}, nil
}

// Thin keeps each arrival with probability keep, 0 to 1: the rate falls to that
// share of itself at every time. Poisson arrivals stay so; other gaps come
// closer to Poisson's.
func Thin(t Trace, keep float64, seed uint64) (Trace, error) {
	if err := within("share to keep", keep, 0, 1); err != nil {
		return nil, fmt.Errorf("thinning a trace: %w", err)
	}
	return func(yield func(Arrival, error) bool) {
		rng := stream(seed, opStream)
		for a, err := range t {
			if err == nil && rng.Float64() >= keep {
				continue
			}
			if !yield(a, err) || err != nil {
				return
			}
		}
	}, nil
}

// spread moves the arrivals of each instant apart: over the tick that follows it, or up
// to the next instant, at random, in the order that they have.
func spread(t Trace, tick time.Duration, seed uint64) Trace {
	return func(yield func(Arrival, error) bool) {
		rng := stream(seed, tickStream)
		var held []Arrival
		release := func(over time.Duration) bool {
			later := make([]float64, len(held))
			for i := range later {
				later[i] = rng.Float64()
			}
			slices.Sort(later)
			for i, a := range held {
				if a.At += time.Duration(later[i] * float64(over)); !yield(a, nil) {
					return false
				}
			}
			held = held[:0]
			return true
		}
		for a, err := range t {
			if err != nil {
				if release(tick) {
					yield(a, err)
				}
				return
			}
			if len(held) > 0 && a.At > held[0].At && !release(min(tick, a.At-held[0].At)) {
				return
			}
			held = append(held, a)
		}
		release(tick)
	}
}
