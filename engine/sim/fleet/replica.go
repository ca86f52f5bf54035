package fleet

import (
	"plimsoll/engine"
	"plimsoll/engine/sim"
)

// state is where a replica is in its life.
type state int8

const (
	starting state = iota
	ready
	draining // takes no new requests, and leaves after its last one
)

// replica is one engine of a pool. It is idle, or inside a step between Begin
// and End that ends at next, or inside a run that ends at next.
type replica struct {
	ordinal int32 // number, over all replicas of the fleet
	pool    *pool
	engine  *sim.Engine
	state   state

	slot int                // in the agenda; -1 = nothing is due
	next engine.Picoseconds // when something is due
	busy bool
	// stalled says that it has a request and cannot go on before KV that it
	// holds is read.
	stalled bool
	// begun says that a step has begun that ends at next.
	begun bool
	// run is what is left of a run. It starts at since, which may be in the
	// future: then the engine is ahead by the rest of the step in progress.
	run   sim.Run
	since engine.Picoseconds

	load      int                // requests that it holds
	prompts   int                // of them, those without a token
	turn      int                // number of its last request, counted over the pool
	place     int                // while ready: its index in pool.ready
	fresh     line               // of them, those that have not started yet, in order
	preempted int                // of them, those that wait to start again
	backlog   int                // prompt blocks that it has still to compute, by the KV-aware router's account
	used      int                // KV blocks in the step counted last
	link      engine.Picoseconds // when its link is free
}

// empty reports whether a replica may leave.
func (r *replica) empty() bool { return !r.busy && r.load == 0 && r.engine.Held() == 0 }

// carry gives the replica so many requests more, and so many more without a token.
func (r *replica) carry(n, prompts int) {
	r.load += n
	r.prompts += prompts
	if p := r.pool; p.loads != nil && r.state == ready {
		p.loads.set(r)
	}
}

// score is what LeastLoaded compares. If all requests counted alike, an engine whose
// decodes just ended would get several prompts in a row.
func (r *replica) score() int { return r.load + (promptWeight-1)*r.prompts }

// kvTwiceAfter is what of the step in progress is counted in pool.kvTwice, but
// comes after an instant.
func (r *replica) kvTwiceAfter(at engine.Picoseconds) wide {
	if !r.pool.delivers() {
		return wide{}
	}
	counted := r.since
	if r.begun {
		counted = r.next
	}
	return product(2*int64(r.used), max(int64(counted-at), 0))
}

// catchUp counts the steps of the replica's run that began before an instant:
// the last of them is the one in progress.
func (f *Fleet) catchUp(r *replica, at engine.Picoseconds) {
	if r.run.Steps > 0 && r.since < at {
		f.skip(r, r.run.Reach(at-r.since))
	}
	if r.run.Steps == 0 && r.run.Ends && r.since < at {
		f.beginLast(r)
	}
}

// skip takes n steps of the replica's run.
func (f *Fleet) skip(r *replica, n int64) {
	length := r.run.Length(n)
	r.engine.Skip(n)
	f.countKV(r, length, r.used)
	if r.pool.delivers() {
		f.itl.AddRun(int64(r.run.First), int64(r.run.Growth), n, int64(r.run.Seqs))
	}
	r.since = sim.Plus(r.since, length)
	r.run.First += r.run.Growth * engine.Picoseconds(n)
	r.run.Steps -= n
}

// beginLast begins the step in which the replica's run ends, all others being
// counted.
func (f *Fleet) beginLast(r *replica) {
	last := r.run
	r.run = sim.Run{}
	r.engine.BeginLast()
	r.begun = true
	used, _ := r.engine.KVBlocks()
	f.countKV(r, last.First, used)
	if r.pool.delivers() {
		f.itl.Add(int64(last.First), int64(last.Seqs))
	}
}

// countKV counts a span of KV use that began with some blocks and ends with
// those that the engine uses now; between them it is taken as a line.
func (f *Fleet) countKV(r *replica, span engine.Picoseconds, before int) {
	p := r.pool
	if !p.delivers() {
		f.useKV(r)
		return
	}
	r.used, _ = r.engine.KVBlocks()
	p.kvTwice = p.kvTwice.plus(product(int64(before+r.used), int64(span)))
	p.kvPeak = max(p.kvPeak, r.used)
}

// proceed begins what the replica does next: a run, a step, or nothing.
func (f *Fleet) proceed(r *replica) {
	if r.load == 0 {
		f.rest(r)
		return
	}
	if r.run = r.engine.Ahead(); r.run.Steps > 0 {
		r.since = f.now
		r.used, _ = r.engine.KVBlocks()
		f.agenda.set(r, sim.Plus(f.now, r.run.Whole()))
		return
	}
	running := r.engine.Running()
	step, ok := r.engine.Begin()
	if !ok {
		f.stall(r)
		return
	}
	started := f.starts(r, r.engine.Running()-running)
	r.begun = true
	used, _ := r.engine.KVBlocks()
	f.countKV(r, step.Duration, used)
	streams := step.Batch.DecodeSeqs
	if r.pool.role() == engine.RoleDecode {
		streams -= started // their first token is no gap
	}
	if r.pool.delivers() {
		f.itl.Add(int64(step.Duration), int64(streams))
	}
	f.agenda.set(r, sim.Plus(f.now, step.Duration))
}

// rest makes the replica idle, or lets it go where it drains and is empty.
func (f *Fleet) rest(r *replica) {
	r.busy = false
	f.agenda.drop(r)
	r.since = f.now
	if r.pool.delivers() {
		r.used = 0
	} else {
		f.useKV(r)
	}
	r.pool.busy.change(f.now, -1)
	if r.state == draining && r.empty() {
		f.leave(r)
	}
}

// starts keeps account of a step's beginning, by which the running requests
// grew by some. It returns how many started for the first time. The engine
// starts requests in order of arrival, preempted ones before all others, and
// none in a step that preempts: where they are fewer, so many were preempted.
func (f *Fleet) starts(r *replica, grown int) int {
	if grown == 0 {
		return 0
	}
	r.pool.running.change(f.now, grown)
	r.pool.waiting.change(f.now, -grown)
	if grown < 0 {
		r.preempted -= grown
		return 0
	}
	again := min(grown, r.preempted)
	r.preempted -= again
	for range grown - again {
		i := r.fresh.pop(&f.flights)
		f.letGo(i)
		f.start(r.pool, &f.flights.slots[i])
	}
	return grown - again
}

// start notes that a request's first step in a pool begins.
func (f *Fleet) start(p *pool, x *flight) {
	if p.role() == engine.RoleDecode {
		x.decodeStart = f.now
	} else {
		x.started = f.now
	}
	p.wait.Add(int64(f.now-x.entered), 1)
}

// end finishes what is due at the replica.
func (f *Fleet) end(r *replica) {
	if r.run.Steps > 0 {
		f.skip(r, r.run.Steps)
	}
	if r.run.Ends {
		f.beginLast(r)
	}
	if !r.begun {
		return
	}
	r.begun = false
	r.since = f.now
	for _, e := range r.engine.End() {
		f.token(r, e)
	}
}

// token is a request's first or last one at an engine.
func (f *Fleet) token(r *replica, e sim.Event) {
	i := int32(e.ID)
	x := &f.flights.slots[i]
	r.backlog -= x.need
	x.need = 0
	if r.pool == f.pools[0] {
		x.cached = e.CachedTokens
	}
	if r.pool.delivers() && x.First == 0 {
		x.First = f.now
		f.ttft.Add(int64(x.TTFT()), 1)
		f.series.slowest = max(f.series.slowest, x.TTFT())
	}
	if e.First {
		r.carry(0, -1)
	}
	if !e.Last {
		return
	}
	r.carry(-1, 0)
	r.pool.running.change(f.now, -1)
	x.replica = none
	if r.pool.delivers() {
		f.finish(i)
	} else {
		f.hold(r, i)
		f.move(r, i)
	}
}
