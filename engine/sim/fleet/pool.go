package fleet

import (
	"slices"

	"plimsoll/engine"
	"plimsoll/engine/sim"
)

// pool is a Pool at work.
type pool struct {
	Pool
	live   []*replica // all, by ordinal
	ready  []*replica // of them, those that take requests
	loads  loads      // of ready, where LeastLoaded wants to know; nil: ready has changed
	turn   int32      // where RoundRobin looks on
	routed int        // requests given to replicas
	held   line       // requests at the router while nobody takes them

	waiting, running        gauge // requests
	starting, serving, busy gauge // replicas; serving = ready or draining
	holding                 gauge // computed prompts whose KV prefill engines keep
	stalled                 gauge // replicas that wait for room because of them
	kv                      gauge // of a prefill pool: blocks in use
	kvTwice                 wide  // of others: twice the integral of KV blocks in use, over steps counted
	kvPeak                  int   // blocks in use at one replica
	wait                    Sketch
	gone                    sim.Stats // of replicas that left
	failed                  int
}

func (p *pool) role() engine.Role { return p.Engine.Role }

// delivers reports whether tokens of the pool's engines go to the client.
func (p *pool) delivers() bool { return p.role() != engine.RolePrefill }

// blocks is how many KV blocks n tokens fill or begin.
func (p *pool) blocks(n int) int {
	size := p.Engine.Limits.BlockSize
	return (n + size - 1) / size
}

// request is one for the pool's engines.
func (p *pool) request(id uint64, isl, osl int, prefix []uint64) sim.Request {
	if !p.Engine.PrefixCaching {
		prefix = nil
	}
	return sim.Request{ID: id, PromptTokens: isl, OutputTokens: osl, Prefix: prefix}
}

// draining is how many replicas take no more requests.
func (p *pool) draining() int { return len(p.live) - len(p.ready) - int(p.starting.value) }

// spawn adds a replica to the pool; it starts.
func (f *Fleet) spawn(p *pool) *replica {
	c := p.Engine
	c.Seed = sim.Mix(c.Seed, uint64(f.ordinals)*0x9e3779b97f4a7c15) // the numbers of SplitMix64
	e, err := sim.New(c, p.Timer)
	if err != nil {
		panic("fleet: an engine refuses what New has checked: " + err.Error())
	}
	r := &replica{ordinal: f.ordinals, pool: p, engine: e, slot: -1, fresh: emptyLine(), since: f.now}
	f.ordinals++
	p.live = append(p.live, r)
	p.starting.change(f.now, 1)
	return r
}

// open makes a starting replica take requests.
func (f *Fleet) open(r *replica) {
	p := r.pool
	r.state = ready
	p.starting.change(f.now, -1)
	p.serving.change(f.now, 1)
	i, _ := slices.BinarySearchFunc(p.ready, r.ordinal, func(q *replica, o int32) int { return int(q.ordinal - o) })
	p.ready = slices.Insert(p.ready, i, r)
	p.loads = nil
}

// least is the ready replica that LeastLoaded picks. The tournament is held anew
// only where replicas came or went, so that many that come at once cost one.
func (p *pool) least() *replica {
	if p.loads == nil {
		for i, r := range p.ready {
			r.place = i
		}
		p.loads = newLoads(p.ready)
	}
	return p.ready[p.loads.least()]
}

// drain takes a replica out of service.
func (f *Fleet) drain(r *replica) {
	if r.state == starting {
		f.leave(r)
		return
	}
	r.pool.close(r)
	r.state = draining
	if r.empty() {
		f.leave(r)
	}
}

// close makes a replica take no more requests.
func (p *pool) close(r *replica) {
	p.ready = slices.DeleteFunc(p.ready, func(q *replica) bool { return q == r })
	p.loads = nil
}

// leave removes a replica that holds no request.
func (f *Fleet) leave(r *replica) {
	p := r.pool
	if r.state == starting {
		p.starting.change(f.now, -1)
	} else {
		p.serving.change(f.now, -1)
	}
	f.agenda.drop(r)
	p.gone = sum(p.gone, r.engine.Stats())
	p.live = slices.DeleteFunc(p.live, func(q *replica) bool { return q == r })
}

// sum adds up what engines did; what they are doing is left out.
func sum(a, b sim.Stats) sim.Stats {
	return sim.Stats{
		Steps:          a.Steps + b.Steps,
		PromptTokens:   a.PromptTokens + b.PromptTokens,
		OutputTokens:   a.OutputTokens + b.OutputTokens,
		PrefixQueries:  a.PrefixQueries + b.PrefixQueries,
		PrefixHits:     a.PrefixHits + b.PrefixHits,
		PrefixHitsDRAM: a.PrefixHitsDRAM + b.PrefixHitsDRAM,
		PrefixHitsNVMe: a.PrefixHitsNVMe + b.PrefixHitsNVMe,
		Preemptions:    a.Preemptions + b.Preemptions,
		Recomputed:     a.Recomputed + b.Recomputed,
	}
}
