package replay

import (
	"math"
	"slices"

	"plimsoll/engine"
	"plimsoll/engine/sim"
)

// fluidPool is a pool's replicas. What drains is gone, or what starts is ready, at
// its instant.
type fluidPool struct {
	queues             []float64 // requests that wait at each replica that serves
	held               float64   // requests at the router, while no replica serves
	one                float64   // requests/s that a replica can do; 0: not known yet
	starting, draining []engine.Picoseconds
	gpuSeconds         float64
}

// ready is how many replicas serve.
func (p *fluidPool) ready() int { return len(p.queues) }

// waiting is the requests that wait.
func (p *fluidPool) waiting() float64 {
	sum := p.held
	for _, q := range p.queues {
		sum += q
	}
	return sum
}

// behind is the share of the replicas that serve which have a backlog: they are full.
func (p *fluidPool) behind() float64 {
	n := 0
	for _, q := range p.queues {
		if q > 0 {
			n++
		}
	}
	return float64(n) / max(1, float64(len(p.queues)))
}

// pass makes replicas ready, or lets them go, whose time has come.
func (p *fluidPool) pass(now engine.Picoseconds) {
	due := func(at engine.Picoseconds) bool { return at <= now }
	before := len(p.starting)
	p.starting = slices.DeleteFunc(p.starting, due)
	p.queues = append(p.queues, make([]float64, before-len(p.starting))...)
	p.draining = slices.DeleteFunc(p.draining, due)
}

// stop drains a replica: one that starts, or the one with the shortest queue, which
// it serves before it is gone, and what it runs, which takes as long as is said.
func (p *fluidPool) stop(now, runs engine.Picoseconds) {
	if n := len(p.starting); n > 0 {
		p.starting = p.starting[:n-1]
		return
	}
	i := slices.Index(p.queues, slices.Min(p.queues))
	left := runs
	if p.one > 0 {
		left = sim.Plus(left, engine.FromSeconds(p.queues[i]/p.one))
	}
	p.queues = slices.Delete(p.queues, i, i+1)
	if left > 0 {
		p.draining = append(p.draining, sim.Plus(now, left))
	}
}

// lose ends a replica, and gives the requests of its queue.
func (p *fluidPool) lose() float64 {
	last := len(p.queues) - 1
	queue := p.queues[last]
	p.queues = p.queues[:last]
	return queue
}

// take brings requests to the pool and serves for some seconds. It gives what it
// served, and how long, in seconds, those who came wait for others to be served.
// Who has come to a replica stays there: one that is new helps those who come
// after. level says that they go where least wait; otherwise all replicas get
// as many.
func (p *fluidPool) take(come, seconds float64, level bool) (served, wait float64) {
	if len(p.queues) == 0 {
		p.held += come
		return 0, math.Inf(1)
	}
	come, p.held = come+p.held, 0
	slices.Sort(p.queues)
	idle := 0 // replicas without a backlog
	for idle < len(p.queues) && p.queues[idle] == 0 {
		idle++
	}
	if !level || idle == len(p.queues) {
		for i := range p.queues {
			wait += p.queues[i] / float64(len(p.queues))
			p.queues[i] += come / float64(len(p.queues))
		}
	} else {
		wait = fill(p.queues, come)
	}
	for i, q := range p.queues {
		each := p.one * seconds
		if i < idle {
			each *= nearlyFull
		}
		now := min(q, each)
		p.queues[i], served = q-now, served+now
	}
	if p.one == 0 {
		return served, math.Inf(1)
	}
	return served, wait / p.one
}

// fill pours an amount into queues, which are in order, the lowest first, and gives
// the level that it met.
func fill(queues []float64, amount float64) float64 {
	lowest, level, filled := queues[0], queues[0], 0
	for left := amount; ; {
		for filled < len(queues) && queues[filled] <= level {
			filled++
		}
		if filled == len(queues) || (queues[filled]-level)*float64(filled) >= left {
			level += left / float64(filled)
			break
		}
		left -= (queues[filled] - level) * float64(filled)
		level = queues[filled]
	}
	for i := range filled {
		queues[i] = level
	}
	return lowest
}
