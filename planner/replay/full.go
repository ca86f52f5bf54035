package replay

import (
	"fmt"

	"plimsoll/engine"
	"plimsoll/engine/sim/fleet"
	"plimsoll/planner"
)

// full is how one replica of a pool serves when more come than it can, others being
// no hindrance.
type full struct {
	rate   float64  // requests/s
	holds  cellPool // without what waits
	itl    planner.Spread[float64]
	metITL float64 // share
	tpots  sample
}

// fullRequests find what a pool can do at most.
const fullRequests = 1200

// full is that of a pool's replica, for the lengths of a load.
func (c *cells) full(pool int, load RateBin) (*full, error) {
	key := c.lengths(load)
	key.n[pool] = 1
	if known := c.most[key]; known != nil {
		return known, nil
	}
	made, err := c.fill(pool, key)
	c.most[key] = made
	return made, err
}

// fill gives a replica all its requests at once, and looks at it while it serves the
// middle ones of them.
func (c *cells) fill(pool int, key cellKey) (*full, error) {
	n := key.n
	for i := range c.s.Fleet.Pools {
		if i != pool {
			n[i] = 2 * mostInCell
		}
	}
	var t tally
	f, err := c.fleet(n, t.done)
	if err != nil {
		return nil, err
	}
	d := c.draw(key, fullBlock)
	for range fullRequests {
		if err := f.Offer(d.request(0)); err != nil {
			return nil, fmt.Errorf("a full fleet: %w", err)
		}
	}
	served := func() int { return t.ended }
	if c.s.Fleet.Pools[pool].Engine.Role == engine.RolePrefill { // others have them yet
		served = func() int { return fullRequests - waiting(f, engine.RolePrefill) }
	}
	until := func(n int) error {
		for more := true; more; more = served() < n {
			// In steps that are short beside what went before.
			if err := f.Advance(f.Now() + f.Now()/50 + 10*engine.Millisecond); err != nil {
				return fmt.Errorf("a full fleet: %w", err)
			}
		}
		return nil
	}
	if err := until(fullRequests / 5); err != nil {
		return nil, err
	}
	f.Interval()
	if err := until(fullRequests - fullRequests/5); err != nil {
		return nil, err
	}
	v := f.Interval()
	if err := f.Finish(fleet.Forever); err != nil {
		return nil, fmt.Errorf("a full fleet: %w", err)
	}
	out := &full{holds: cellPool{running: v.Pools[pool].RunningMean, kv: v.Pools[pool].KVUse}, itl: seconds(v.ITL)}
	out.rate, out.tpots = t.middle()
	out.metITL = out.tpots.within(int64(engine.FromDuration(c.s.Deployment.SLA.ITL)))
	return out, nil
}

// waiting is the requests that wait at the replicas of a role.
func waiting(f *fleet.Fleet, role engine.Role) int {
	sum := 0
	for _, r := range f.Replicas() {
		if r.Role == role {
			sum += r.Waiting
		}
	}
	return sum
}

// tally is what became of requests, in order of their ends.
type tally struct {
	ended int
	ends  []engine.Picoseconds // of those that finished
	tpots []int64
}

func (t *tally) done(o fleet.Outcome) {
	if t.ended++; o.Status == fleet.Finished {
		t.ends, t.tpots = append(t.ends, o.Last), append(t.tpots, int64(o.TPOT()))
	}
}

// middle is the rate in requests/s at which the middle three fifths ended, and their
// TPOTs; nothing where hardly any did.
func (t *tally) middle() (rate float64, tpots sample) {
	n := len(t.ends)
	if n <= 10 {
		return 0, nil
	}
	low, high := n/5, n-n/5
	return float64(high-low) / (t.ends[high] - t.ends[low]).Seconds(), sampled(t.tpots[low:high])
}
