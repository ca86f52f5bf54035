package fleet

import (
	"cmp"
	"fmt"
	"slices"

	"plimsoll/engine"
	"plimsoll/engine/sim"
)

// ScaleEvent is a change of a pool's size that somebody decided, or a failure.
type ScaleEvent struct {
	At       engine.Picoseconds
	Role     engine.Role
	From, To int  // replicas that take requests or will
	Failed   bool // a replica was lost; nobody decided it
}

// Scale makes a pool have n replicas that are starting or ready. It advances to
// the instant and starts what is missing. What is too much drains: starting
// replicas first, then ready ones that hold the fewest requests; of equals the
// highest number.
func (f *Fleet) Scale(role engine.Role, n int, at engine.Picoseconds) error {
	if err := f.may("scale", at); err != nil {
		return err
	}
	p, err := f.pool(role)
	if err != nil {
		return err
	}
	if n < 0 {
		return fmt.Errorf("cannot scale the %s pool to %d replicas: want 0 or more", role, n)
	}
	f.until(at)
	from := p.size()
	for p.size() < n {
		r := f.spawn(p)
		f.agenda.set(r, sim.Plus(at, p.StartUp))
	}
	for p.size() > n {
		f.drain(p.leastNeeded())
	}
	if from != n {
		f.scales = append(f.scales, ScaleEvent{At: at, Role: role, From: from, To: n})
	}
	return nil
}

// size is how many replicas take requests or will.
func (p *pool) size() int { return len(p.ready) + int(p.starting.value) }

// leastNeeded is the replica to drain next, of a pool with a size.
func (p *pool) leastNeeded() *replica {
	var candidates []*replica
	for _, r := range p.live {
		if r.state != draining {
			candidates = append(candidates, r)
		}
	}
	return slices.MinFunc(candidates, func(a, b *replica) int {
		return cmp.Or(cmp.Compare(a.state, b.state), cmp.Compare(a.load, b.load), cmp.Compare(b.ordinal, a.ordinal))
	})
}

// pool is the one of a role.
func (f *Fleet) pool(role engine.Role) (*pool, error) {
	for _, p := range f.pools {
		if p.role() == role {
			return p, nil
		}
	}
	return nil, fmt.Errorf("this fleet has no pool of role %q: want that of one of its pools", role)
}

// Fail ends a replica at an instant, to which the fleet advances. Its requests
// are lost, or start again where the fleet retries: at the router of the first
// pool, at once, in order of their arrival.
func (f *Fleet) Fail(number int, at engine.Picoseconds) error {
	if err := f.may("fail a replica", at); err != nil {
		return err
	}
	f.until(at)
	r := f.replica(number)
	if r == nil {
		return fmt.Errorf("cannot fail replica %d: there is no such replica at %v", number, at.Duration())
	}
	p := r.pool
	f.catchUp(r, at)
	from := p.size()
	p.close(r)
	if p.delivers() {
		p.kvTwice = p.kvTwice.minus(r.kvTwiceAfter(at))
	} else {
		p.kv.change(at, -r.used)
		f.unstall(r)
		f.loseHeld(r)
	}
	p.running.change(at, -r.engine.Running())
	p.waiting.change(at, -r.engine.Waiting())
	if r.busy {
		p.busy.change(at, -1)
	}
	f.leave(r)
	p.failed++
	f.scales = append(f.scales, ScaleEvent{At: at, Role: p.role(), From: from, To: p.size(), Failed: true})
	for _, i := range f.where(func(x *flight) bool { return x.replica == r.ordinal }) {
		f.forsake(i)
	}
	return nil
}

// replica is the one of a number, or nil.
func (f *Fleet) replica(number int) *replica {
	for _, p := range f.pools {
		for _, r := range p.live {
			if int(r.ordinal) == number {
				return r
			}
		}
	}
	return nil
}

// forsake loses a request whose replica failed, or starts it again.
func (f *Fleet) forsake(i int32) {
	f.letGo(i)
	x := &f.flights.slots[i]
	if !f.retry {
		f.tally.lost++
		f.give(i, Lost)
		return
	}
	f.tally.retries++
	o := x.Outcome
	*x = flight{
		Outcome: Outcome{
			Number: o.Number, ID: o.ID, ISL: o.ISL, OSL: o.OSL, At: o.At, First: o.First,
			Retries: o.Retries + 1,
		},
		prefix: x.prefix, replica: none, live: true,
	}
	f.enter(i)
}
