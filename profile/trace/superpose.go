package trace

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"
)

// Superpose lays copies of a trace over it, so that its rate is factor times as
// high, factor 1 to 1000: every arrival stays where it is, and factor − 1 copies
// of it (a fractional part is the probability of one more) come less than jitter
// before or after it, each by its own random time, as from other users with the
// same habits. What would come before the first arrival or after the last comes
// as much later or earlier: the trace has the span that it had, and the rate its
// shape over times longer than jitter, from the first moment to the last. Blocks
// of copy number c are other blocks than those of the original, but shared among
// the arrivals' copies number c.
//
// It holds the arrivals and copies of two jitters in memory.
func Superpose(t Trace, factor float64, jitter time.Duration, seed uint64) (Trace, error) {
	if err := within("factor", factor, 1, 1000); err != nil {
		return nil, fmt.Errorf("superposing a trace: %w", err)
	}
	if jitter <= 0 || jitter > math.MaxInt64/4 {
		return nil, fmt.Errorf("superposing a trace: jitter %v is out of range: want above 0, at most 73 years", jitter)
	}
	return func(yield func(Arrival, error) bool) {
		s := superposition{factor: factor, jitter: jitter, rng: stream(seed, opStream)}
		for a, err := range t {
			if err == nil && a.At > math.MaxInt64/2 {
				err = fmt.Errorf("superposing a trace: an arrival at %v is too late for a time in nanoseconds", a.At)
			}
			if err != nil {
				if s.end(yield) {
					yield(Arrival{}, err)
				}
				return
			}
			s.add(a)
			if !s.held.release(a.At-jitter, yield) {
				return
			}
		}
		s.end(yield)
	}, nil
}

// superposition is a trace and its copies, held back until nothing earlier can
// come.
type superposition struct {
	factor      float64
	jitter      time.Duration
	rng         *rand.Rand
	held        sorter
	begun       bool
	first, last time.Duration
}

// add takes the next arrival of the trace, and its copies.
func (s *superposition) add(a Arrival) {
	if !s.begun {
		s.first, s.begun = a.At, true
	}
	s.last = a.At
	s.held.add(a)
	copies := int(s.factor) - 1
	if s.rng.Float64() < s.factor-float64(int(s.factor)) {
		copies++
	}
	for c := 1; c <= copies; c++ {
		b := a
		b.At += time.Duration(s.rng.Int64N(2*int64(s.jitter)-1)) - s.jitter + 1
		if b.At < s.first {
			b.At = 2*s.first - b.At
		}
		if b.Blocks != nil {
			b.Blocks = salted(b.Blocks, uint64(c))
		}
		s.held.add(b)
	}
}

// end gives what is held, with what lies beyond the last arrival turned back
// into the span. None of it is earlier than what was given before: that was
// a jitter before the last arrival, or more. False = the receiver is done.
func (s *superposition) end(yield func(Arrival, error) bool) bool {
	var turned sorter
	for len(s.held.held) > 0 {
		a := s.held.pop()
		a.At = s.first + fold(a.At-s.first, s.last-s.first)
		turned.add(a)
	}
	return turned.release(math.MaxInt64, yield)
}

// fold reflects d ≥ 0 at both ends of a span until it lies within.
func fold(d, span time.Duration) time.Duration {
	if span <= 0 {
		return 0
	}
	if d %= 2 * span; d > span {
		d = 2*span - d
	}
	return d
}

// salted are other ids for the same blocks, decided by salt: a copy shares none with
// what it is a copy of.
func salted(ids []uint64, salt uint64) []uint64 {
	other := make([]uint64, len(ids))
	for i, id := range ids {
		other[i] = uint64(chain(salt).then(id))
	}
	return other
}
