package fleet

import (
	"fmt"

	"plimsoll/engine"
)

// Status is how a request left the fleet.
type Status string

// The ways to leave a fleet.
const (
	Finished   Status = "finished"
	Rejected   Status = "rejected"   // too long for an engine
	Lost       Status = "lost"       // its replica failed
	Unfinished Status = "unfinished" // the simulation ended before it did
)

// Outcome is what became of one request. Instants count from the simulation's
// start; 0 where it did not happen. Those of a retried request are of its last
// attempt, but for First.
type Outcome struct {
	Number   int64 // among all offered, from 1
	ID       uint64
	ISL, OSL int // tokens
	Status   Status
	Retries  int

	At          engine.Picoseconds // arrival
	Moved       engine.Picoseconds // its KV was at the decode pool's router
	First, Last engine.Picoseconds // tokens; First is the first that any attempt gave

	started     engine.Picoseconds // its first step in the first pool began
	prefilled   engine.Picoseconds // a prefill engine had computed the prompt
	decodeStart engine.Picoseconds // its first step in the decode pool began
	cached      int                // prompt tokens that the first pool's engine had cached
}

// TTFT is the time from arrival to the first token.
func (o Outcome) TTFT() engine.Picoseconds { return o.First - o.At }

// E2E is the time from arrival to the last token.
func (o Outcome) E2E() engine.Picoseconds { return o.Last - o.At }

// TPOT is the mean gap between tokens, rounded up to a picosecond; 0 for one
// token.
func (o Outcome) TPOT() engine.Picoseconds {
	if o.OSL < 2 {
		return 0
	}
	gaps := engine.Picoseconds(o.OSL - 1)
	return (o.Last - o.First + gaps - 1) / gaps
}

// check refuses a request that no fleet can make sense of.
func (r Request) check(number int64, now engine.Picoseconds) error {
	switch {
	case r.At < now:
		return fmt.Errorf("request %d arrives at %v, before %v: offer requests in order of time", number, r.At.Duration(), now.Duration())
	case r.At > Latest:
		return fmt.Errorf("request %d arrives after %v: virtual time is for %v (hint: less of it, or a higher rate)", number, r.At.Duration(), Latest.Duration())
	case r.ISL < 1:
		return fmt.Errorf("request %d: ISL of %d tokens: want at least 1", number, r.ISL)
	case r.OSL < 1:
		return fmt.Errorf("request %d: OSL of %d tokens: want at least 1", number, r.OSL)
	}
	return nil
}
