package oracle

import (
	"errors"
	"fmt"
	"math"

	"plimsoll/engine"
	"plimsoll/engine/sim/fleet"
)

// Case is a fleet, all that will come to it, and what is promised.
type Case struct {
	// Fleet has each pool's replicas at the start, which are ready, and the SLA.
	// There must be no noise. Done and Bins are not looked at.
	Fleet fleet.Config
	// Requests are in order of arrival. All of them arrive before the end of the
	// schedule, Every·Bins.
	Requests []fleet.Request
	// Every is how long a bin of a schedule is, Bins how many it has. After the last
	// one no GPU counts: what is in flight may go on for Drain, and is missed then.
	Every engine.Picoseconds
	Bins  int
	Drain engine.Picoseconds
	// Attainment is the share of all requests that must meet both TTFT and TPOT,
	// above 0, at most 1.
	Attainment float64
	// Bounds are each pool's, in the order of Fleet.Pools.
	Bounds []Bounds
	// Budget is how many GPUs all pools' replicas that are starting or ready may
	// have; 0 = any number.
	Budget int
}

// Bounds are how many replicas a pool may be asked for.
type Bounds struct{ Min, Max int }

// Schedule is how many replicas, starting or ready, each pool is asked for in
// each bin: Schedule[pool][bin].
type Schedule [][]int

// Clone is a copy of its own.
func (s Schedule) Clone() Schedule {
	c := make(Schedule, len(s))
	for i := range s {
		c[i] = append([]int(nil), s[i]...)
	}
	return c
}

// Outcome is what became of a schedule.
type Outcome struct {
	// Attainment is the share of all requests, from 0 to 1, that met both TTFT and
	// TPOT; rejected and unfinished ones did not.
	Attainment float64
	GPUHours   float64 // start-up and draining included
	// Missed counts, by the bin of their arrival, requests that did not; each is
	// under the pool to blame, as far as latencies tell: Missed[pool][bin].
	Missed [][]int
}

// Evaluate is what says what becomes of a schedule.
type Evaluate func(Schedule) (Outcome, error)

// end is the end of the schedule.
func (c Case) end() engine.Picoseconds { return c.Every * engine.Picoseconds(c.Bins) }

// keep is the least number of requests whose share reaches the attainment.
func (c Case) keep() int {
	n := len(c.Requests)
	k := int(math.Ceil(c.Attainment * float64(n)))
	for k > 0 && float64(k-1)/float64(n) >= c.Attainment {
		k--
	}
	return min(k, n)
}

// gpus are those of one replica of a pool.
func (c Case) gpus(pool int) int { return max(1, c.Fleet.Pools[pool].GPUs) }

// Check says what is wrong with c; the fleet's own faults come from its New.
func (c Case) Check() error {
	var errs []error
	complain := func(bad bool, format string, args ...any) {
		if bad {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	complain(c.Every <= 0 || c.Bins < 1, "%d bins of %v: want one at least, longer than 0", c.Bins, c.Every.Duration())
	complain(c.Drain < 0, "drain of %v: want 0 or more", c.Drain.Duration())
	complain(!(c.Attainment > 0 && c.Attainment <= 1), "attainment %v: want above 0, at most 1", c.Attainment)
	complain(c.Budget < 0, "budget of %d GPUs: want 0 (any number) or more", c.Budget)
	complain(len(c.Requests) == 0, "no requests: there is nothing to plan for")
	complain(len(c.Bounds) != len(c.Fleet.Pools), "%d bounds for %d pools: want one of each for every pool", len(c.Bounds), len(c.Fleet.Pools))
	for i, b := range c.Bounds {
		complain(b.Min < 0 || b.Max < max(b.Min, 1), "pool %d: from %d to %d replicas: want 0 or more, and a maximum of at least 1 and the minimum", i+1, b.Min, b.Max)
	}
	for i, p := range c.Fleet.Pools {
		complain(p.Engine.Noise != 0, "pool %d: noise %v: want 0, with noise a step may take any time", i+1, p.Engine.Noise)
	}
	before := engine.Picoseconds(0)
	for i, r := range c.Requests {
		if r.At < before || r.At >= c.end() || r.ISL < 1 || r.OSL < 1 {
			complain(true, "request %d of %d and %d tokens at %v: want tokens, and arrivals in order of time and before the end of the schedule at %v",
				i+1, r.ISL, r.OSL, r.At.Duration(), c.end().Duration())
			break
		}
		before = r.At
	}
	return errors.Join(errs...)
}
