package replay

import (
	"math"
	"time"

	"plimsoll/engine"
	"plimsoll/planner"
)

// flow sees what a fluid fleet did, as source sees a simulated one.
type flow struct {
	s        Scenario
	dt       engine.Picoseconds
	delay    engine.Picoseconds
	now      engine.Picoseconds
	pending  []spell // younger than the delay, oldest first
	seen     flowSums
	ready    []mean
	last     spell          // with a cell; zero: there was none
	late     map[int64]late // who gets the first token in a step to come
	isl, osl float64        // of what came last; 0: nothing did
	tails    tails
}

// late are requests that waited for so many seconds in all.
type late struct{ requests, waited float64 }

// spell is what a fluid fleet did in a step.
type spell struct {
	at           engine.Picoseconds
	came, served float64 // requests
	load         RateBin
	cell         *cell   // nil where nothing was served
	wait         float64 // seconds, of those who came, behind others
	ready        replicas
	pools        [2]backlog
	firsts       late // who got their first token in it
}

// backlog is what a pool has not served at the end of a step.
type backlog struct {
	waits float64 // requests
	share float64 // of its replicas, that have some of it
	full  *full   // how these serve; nil where nothing has come yet
}

// longer is by how much longer, in seconds, a request takes where some of the engines
// that decode have a backlog and are full.
func (p spell) longer(decode backlog) float64 {
	if decode.share == 0 {
		return 0
	}
	return decode.share * p.load.OSL * (decode.full.itl.Mean.Value - p.cell.itl.Mean.Value)
}

// holds is what each replica of a pool holds, but for the backlog.
func (p spell) holds(pool int) (each cellPool) {
	if p.cell != nil {
		each = p.cell.pools[pool]
	}
	b := p.pools[pool]
	if b.share == 0 {
		return each
	}
	of := func(a, full float64) float64 { return a + b.share*(full-a) }
	return cellPool{of(each.running, b.full.holds.running), of(each.waiting, 0), of(each.kv, b.full.holds.kv)}
}

func newFlow(s Scenario) *flow {
	x := &flow{s: s, dt: engine.FromDuration(s.Scrape), delay: engine.FromDuration(s.Delay), late: map[int64]late{}, tails: newTails(), ready: make([]mean, len(s.Fleet.Pools))}
	x.seen.pools = make([]flowPool, len(s.Fleet.Pools))
	return x
}

// look is at an instant: what is as old as the delay by now can be seen from now on.
func (x *flow) look(now engine.Picoseconds) {
	x.now = now
	old := 0
	for ; old < len(x.pending) && x.pending[old].at+x.dt+x.delay <= now; old++ {
		x.seen.add(x.pending[old])
	}
	x.pending = append(x.pending[:0], x.pending[old:]...)
}

// add takes in a step.
func (x *flow) add(p spell) {
	if p.load.Rate > 0 {
		x.isl, x.osl = p.load.ISL, p.load.OSL
	}
	if p.cell != nil {
		x.last = p
	}
	if !math.IsInf(p.wait, 1) {
		due := int64((p.at + engine.FromSeconds(p.wait)) / x.dt)
		l := x.late[due]
		x.late[due] = late{l.requests + p.came, l.waited + p.came*p.wait}
	}
	step := int64(p.at / x.dt)
	p.firsts = x.late[step]
	delete(x.late, step)
	if n := p.firsts.requests; p.cell != nil && n > 0 {
		decode := p.pools[len(x.s.Fleet.Pools)-1]
		x.tails.add(p.cell, n, engine.FromSeconds(p.firsts.waited/n), engine.FromSeconds(p.longer(decode)), decode)
	}
	x.pending = append(x.pending, p)
}

// idle takes in a step of a fleet to which no request has come yet.
func (x *flow) idle(now engine.Picoseconds, ready replicas) { x.add(spell{at: now, ready: ready}) }

// stays is how long a replica of a role that drains has requests to end.
func (x *flow) stays(role planner.Role) engine.Picoseconds {
	if x.last.cell == nil {
		return 0
	}
	if role == engine.RolePrefill {
		return engine.FromSeconds(x.last.cell.ttft.P90.Value)
	}
	return engine.FromSeconds(x.last.cell.e2e.P90.Value)
}

// holds is the requests that a replica of a pool has.
func (x *flow) holds(pool int) float64 {
	if x.last.cell == nil {
		return 0
	}
	p := x.last.holds(pool)
	return p.running + p.waiting
}

// rate is what was served last, in requests/s.
func (x *flow) rate() float64 { return x.last.served / x.dt.Seconds() }

func (x *flow) note(s planner.State) {
	for i, p := range s.Pools {
		x.ready[i].add(float64(p.Ready))
	}
}

func (x *flow) observe() planner.Observation {
	age := (x.now - x.seen.last - x.dt).Duration()
	o := x.seen.observation(x.s, x.ready, age)
	x.seen = flowSums{pools: make([]flowPool, len(x.s.Fleet.Pools)), last: x.seen.last}
	clear(x.ready)
	return fresh(o, age, x.s.MaxAge)
}

// flowSums are what was seen since the last decision.
type flowSums struct {
	spells           int
	last             engine.Picoseconds
	came, served     float64
	isl, osl         float64 // tokens of all that came
	ttft, itl, e2e   weighted
	pools            []flowPool
	running, waiting float64 // at the end
	serving          bool    // at the end, some replica
}

// flowPool is what one pool held.
type flowPool struct {
	running, waiting, kv mean
	first, latest        float64
	serving              bool
}

// weighted is a mean of figures.
type weighted struct{ sum, weight [5]float64 }

func (w *weighted) add(s planner.Spread[float64], more, weight float64) {
	for i, f := range []planner.Figure[float64]{s.Mean, s.P50, s.P90, s.P95, s.P99} {
		if f.Known && weight > 0 {
			w.sum[i] += weight * (f.Value + more)
			w.weight[i] += weight
		}
	}
}

func (w weighted) spread(count float64, age time.Duration) planner.Spread[time.Duration] {
	out := planner.Spread[time.Duration]{}
	for i, f := range []*planner.Figure[time.Duration]{&out.Mean, &out.P50, &out.P90, &out.P95, &out.P99} {
		if w.weight[i] > 0 {
			*f = planner.Figure[time.Duration]{Value: engine.FromSeconds(w.sum[i] / w.weight[i]).Duration(), Known: true, Age: age}
			out.Count = count
		}
	}
	return out
}

func (x *flowSums) add(p spell) {
	x.spells, x.last = x.spells+1, p.at
	x.came, x.served = x.came+p.came, x.served+p.served
	x.isl, x.osl = x.isl+p.came*p.load.ISL, x.osl+p.came*p.load.OSL
	if c, n := p.cell, p.firsts.requests; c != nil && n > 0 {
		waited, b := p.firsts.waited/n, p.pools[len(x.pools)-1]
		x.ttft.add(c.ttft, waited, n)
		x.itl.add(c.itl, 0, (1-b.share)*n)
		if b.share > 0 {
			x.itl.add(b.full.itl, 0, b.share*n)
		}
		x.e2e.add(c.e2e, waited+p.longer(b), n)
	}
	x.running, x.waiting, x.serving = 0, 0, false
	for i := range x.pools {
		x.pools[i].add(p, i, x.spells == 1)
		x.waiting += x.pools[i].latest
		x.serving = x.serving || p.ready[i] > 0
		x.running += p.holds(i).running * float64(p.ready[i])
	}
}

func (q *flowPool) add(p spell, pool int, first bool) {
	n, each := float64(p.ready[pool]), p.holds(pool)
	q.serving = n > 0
	q.running.add(each.running * n)
	q.kv.add(each.kv)
	q.latest = each.waiting * n
	if n > 0 {
		q.latest += p.pools[pool].waits
	}
	if first {
		q.first = q.latest
	}
	q.waiting.add(q.latest)
}

// observation is the sums as figures.
func (x *flowSums) observation(s Scenario, ready []mean, age time.Duration) planner.Observation {
	var o planner.Observation
	known := func(v float64) planner.Figure[float64] {
		return planner.Figure[float64]{Value: v, Known: true, Age: age}
	}
	for i, p := range x.pools {
		seen := planner.PoolObservation{PoolState: planner.PoolState{Role: s.Fleet.Pools[i].Engine.Role}}
		if p.serving {
			seen.Running, seen.KVUsage, seen.KVMost = known(p.running.value()), known(p.kv.value()), known(p.kv.value())
			seen.Queue = each(known(p.waiting.value()), ready[i])
			seen.QueueOpen, seen.QueueEnd = each(known(p.first), ready[i]), each(known(p.latest), ready[i])
		}
		o.Pools = append(o.Pools, seen)
	}
	if x.spells == 0 {
		o.Problems = []string{unseen}
		return o
	}
	o.Arrivals, o.Finished = known(x.came), known(x.served)
	if x.serving {
		o.Running, o.Waiting = known(x.running), known(x.waiting)
	}
	o.TTFT, o.ITL, o.Duration = x.ttft.spread(x.served, age), x.itl.spread(x.served, age), x.e2e.spread(x.served, age)
	if x.came > 0 {
		o.ISL = planner.Spread[float64]{Count: x.came, Mean: known(x.isl / x.came)}
		o.OSL = planner.Spread[float64]{Count: x.came, Mean: known(x.osl / x.came)}
	}
	return o
}
