package trace

import (
	"fmt"
	"iter"
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

func salted(ids []uint64, salt uint64) []uint64 {
	other := make([]uint64, len(ids))
	for i, id := range ids {
		other[i] = uint64(chain(salt).then(id))
	}
	return other
}

// Relabel replaces every block id by another one, decided by salt: traces with
// other salts share no blocks, however alike their ids were. Each trace given
// to Merge wants its own, unless the same id means the same block in all.
func Relabel(t Trace, salt uint64) Trace {
	return each(t, func(a *Arrival) {
		if a.Blocks != nil {
			a.Blocks = salted(a.Blocks, salt)
		}
	})
}

// Merge is all arrivals of several traces in order of time; of those at the
// same instant, an earlier trace's come first.
func Merge(traces ...Trace) Trace {
	return func(yield func(Arrival, error) bool) {
		var heads sorter
		nexts := make([]func() (Arrival, error, bool), len(traces))
		for i, t := range traces {
			next, stop := iter.Pull2(t)
			defer stop()
			nexts[i] = next
		}
		refill := func(i int) error {
			a, err, more := nexts[i]()
			if more && err == nil {
				heads.push(a, i)
			}
			return err
		}
		for i := range nexts {
			if err := refill(i); err != nil {
				yield(Arrival{}, err)
				return
			}
		}
		for len(heads.held) > 0 {
			a, i := heads.pop()
			if !yield(a, nil) {
				return
			}
			if err := refill(i); err != nil {
				yield(Arrival{}, err)
				return
			}
		}
	}
}
