package fleet

import (
	"slices"

	"plimsoll/engine/sim"
)

// enter brings a flight to its pool's router now.
func (f *Fleet) enter(i int32) {
	x := &f.flights.slots[i]
	p := f.pools[x.pool]
	x.entered = f.now
	if p.delivers() && len(f.pools) > 1 {
		x.Moved = f.now
	}
	p.waiting.change(f.now, 1)
	if len(p.ready) == 0 {
		p.held.push(&f.flights, i)
		return
	}
	f.route(p, i)
}

// route gives a flight to a ready replica; there is one.
func (f *Fleet) route(p *pool, i int32) {
	x := &f.flights.slots[i]
	r := f.choose(p, x)
	x.replica = r.ordinal
	p.routed++
	r.turn = p.routed
	r.carry(1, 1)
	r.fresh.push(&f.flights, i)
	f.add(r, i)
	switch {
	case !r.busy:
		f.wake(r)
	case r.run.Steps > 0 || r.run.Ends: // the run ends with the step in progress
		r.run = sim.Run{}
		f.agenda.set(r, r.since)
	}
}

// add puts a flight into an engine, at the end of the step in progress where
// there is one: the engine looks at its queue then.
func (f *Fleet) add(r *replica, i int32) {
	f.catchUp(r, f.now)
	x := &f.flights.slots[i]
	err := r.engine.Add(r.pool.request(uint64(i), x.ISL, x.OSL, x.prefix))
	if err != nil {
		panic("fleet: an engine refuses what Offer has checked: " + err.Error())
	}
}

// choose picks the replica of a flight.
func (f *Fleet) choose(p *pool, x *flight) *replica {
	switch p.Router {
	case LeastLoaded:
		return p.least()
	case KVAware:
		return f.cheapest(p, x)
	case RoundRobin:
	}
	i, _ := slices.BinarySearchFunc(p.ready, p.turn, func(r *replica, turn int32) int { return int(r.ordinal - turn) })
	if i == len(p.ready) {
		i = 0
	}
	p.turn = p.ready[i].ordinal + 1
	return p.ready[i]
}

// cheapest is the replica of the least cost in blocks, the lowest number where
// several are: prompt blocks of requests without a first token that it was
// given before, as far as its cache did not hold them then; those of this
// request that it does not hold; and all blocks in use.
//
// It is the cost function of NVIDIA Dynamo's KV router (documentation of
// v0.8, "Router", "Cost Function"): overlap weight × prefill blocks + active
// blocks, with its default weight of 1 and temperature of 0. Dynamo estimates
// the blocks from its own account of requests; here they are the engine's.
func (f *Fleet) cheapest(p *pool, x *flight) *replica {
	blocks := p.blocks(x.ISL)
	var best *replica
	least := 0
	for _, r := range p.ready {
		f.catchUp(r, f.now)
		used, _ := r.engine.KVBlocks()
		need := blocks - r.engine.Overlap(x.prefix)
		if cost := r.backlog + need + used; best == nil || cost < least {
			best, least, x.need = r, cost, need
		}
	}
	best.backlog += x.need
	return best
}
