package fleet

import (
	"fmt"
	"time"

	"plimsoll/engine"
)

// OverloadError says that Config.MaxInFlight requests are in the fleet: more
// come than it serves, for so long that they are that many.
type OverloadError struct {
	InFlight, Waiting int                // requests in the fleet, and of them those that wait
	Since, At         engine.Picoseconds // when the fleet last held half as many, and now
	Offered, Served   int64              // requests that came and that left between them
}

// OfferedPerSecond is the rate at which requests came from Since to At, when the
// fleet had more to do than it could; 0 where no time passed.
func (e *OverloadError) OfferedPerSecond() float64 { return e.perSecond(e.Offered) }

// ServedPerSecond is the rate at which they left in that time: all that the fleet
// can; 0 where no time passed.
func (e *OverloadError) ServedPerSecond() float64 { return e.perSecond(e.Served) }

func (e *OverloadError) perSecond(n int64) float64 {
	if e.At <= e.Since {
		return 0
	}
	return float64(n) / (e.At - e.Since).Seconds()
}

func (e *OverloadError) Error() string {
	s := fmt.Sprintf("the fleet is overloaded: at %v it holds %d requests, of which %d wait", e.At.Duration().Round(time.Millisecond), e.InFlight, e.Waiting)
	if e.At <= e.Since {
		return s + "; they came all at once"
	}
	return fmt.Sprintf("%s; since %v %.4g/s were offered and %.4g/s served", s, e.Since.Duration().Round(time.Millisecond), e.OfferedPerSecond(), e.ServedPerSecond())
}

// overload watches how the requests in a fleet pile up to a bound.
type overload struct {
	most int // 0 = no bound

	// When an arrival last found half of the bound in the fleet, and how many had
	// come before it. What came and was served from then on tells the fleet's own
	// rate, which the time before, when it may have been idle, does not.
	since   engine.Picoseconds
	offered int64
}

// admit refuses one more request where the bound is reached.
func (o *overload) admit(f *Fleet) error {
	n := f.flights.n
	if n == o.most/2 {
		o.since, o.offered = f.now, f.tally.offered-f.tally.rejected
	}
	if n < o.most {
		return nil
	}
	f.catchUpAll(f.now)
	waiting := 0
	for _, p := range f.pools {
		waiting += int(p.waiting.value)
	}
	offered := f.tally.offered - f.tally.rejected - o.offered
	return &OverloadError{
		InFlight: n, Waiting: waiting, Since: o.since, At: f.now,
		Offered: offered, Served: offered - int64(n-o.most/2),
	}
}
