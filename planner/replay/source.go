package replay

import (
	"fmt"
	"math"
	"time"

	"plimsoll/engine"
	"plimsoll/engine/sim/fleet"
	"plimsoll/planner"
)

// source sees a fleet as serve sees one through a Prometheus server.
type source struct {
	delay   engine.Picoseconds
	maxAge  time.Duration
	fleet   *fleet.Fleet
	pending []look // younger than the delay, oldest first
	spare   []look // whose memory is free

	seen    sums // since the last decision, as old as the delay
	ready   []mean
	refused int64 // of those that came, up to the last look
}

// look is the fleet at an instant, and what it did since the last look; the latter
// only where there is a delay.
type look struct {
	at       engine.Picoseconds
	replicas []fleet.Replica
	interval fleet.Interval
	refused  int64
}

// mean is of what was added.
type mean struct{ sum, n float64 }

func (m *mean) add(v float64) { m.sum, m.n = m.sum+v, m.n+1 }

// value is NaN where nothing was added.
func (m mean) value() float64 { return m.sum / m.n }

func newSource(s Scenario) *source {
	x := &source{delay: engine.FromDuration(s.Delay), maxAge: s.MaxAge, ready: make([]mean, len(s.Fleet.Pools))}
	x.seen.bounds = s.Bounds
	for _, p := range s.Fleet.Pools {
		x.seen.pools = append(x.seen.pools, poolSums{role: p.Engine.Role, each: map[int]replicaSums{}})
	}
	return x
}

// look takes a look; what is as old as the delay by now can be seen from now on.
func (x *source) look(f *fleet.Fleet, all []fleet.Replica, refused int64) {
	x.fleet = f
	var l look
	if n := len(x.spare); n > 0 {
		l, x.spare = x.spare[n-1], x.spare[:n-1]
	}
	l.at, l.replicas = f.Now(), append(l.replicas[:0], all...)
	l.refused, x.refused = refused-x.refused, refused
	if x.delay > 0 {
		l.interval = f.Interval()
	}
	x.pending = append(x.pending, l)
	old := 0
	for ; old < len(x.pending) && x.pending[old].at+x.delay <= f.Now(); old++ {
		l := x.pending[old]
		x.seen.add(l)
		l.interval = fleet.Interval{}
		x.spare = append(x.spare, l)
	}
	x.pending = append(x.pending[:0], x.pending[old:]...)
}

// note takes in the replicas that the target has.
func (x *source) note(s planner.State) {
	for i, p := range s.Pools {
		x.ready[i].add(float64(p.Ready))
	}
}

// observe is what can be seen since the last time.
func (x *source) observe() planner.Observation {
	if x.delay == 0 {
		x.seen.count(x.fleet.Interval())
	}
	o := x.seen.observation(x.ready, x.fleet.Now())
	age := (x.fleet.Now() - x.seen.last).Duration()
	x.seen.clear()
	clear(x.ready)
	return fresh(o, age, x.maxAge)
}

// fresh is an observation whose newest sample has an age: all of it is missing where
// that is too old, as in planner/observe.
func fresh(o planner.Observation, age, most time.Duration) planner.Observation {
	if len(o.Problems) > 0 || most == 0 || age <= most {
		return o
	}
	old := planner.Observation{Problems: []string{fmt.Sprintf("the newest sample is %v old, more than %v", age.Round(time.Millisecond), most)}}
	for _, p := range o.Pools {
		old.Pools = append(old.Pools, planner.PoolObservation{PoolState: p.PoolState})
	}
	return old
}

// sums are what was seen.
type sums struct {
	looks                          int
	last                           engine.Picoseconds
	arrivals, finished             float64
	lookups, hits                  float64 // tokens in the prefix caches of engines that read prompts
	ttft, itl, tpot, e2e, isl, osl fleet.Sketch
	pools                          []poolSums
	bounds                         planner.Bounds
	running, waiting, serving      int // at the last look, over all pools
}

// poolSums are those of a pool's engines that serve.
type poolSums struct {
	role          planner.Role
	serving       int // at the last look
	running, kv   mean
	waiting       mean
	first, latest int // waiting at the first and the last look
	each          map[int]replicaSums
	there         []int // that serve at the last look
}

// replicaSums are of one replica.
type replicaSums struct {
	kv              mean
	mostKV, waiting float64 // the highest
}

func (x *sums) clear() {
	for i := range x.pools {
		p := &x.pools[i]
		clear(p.each)
		*p = poolSums{role: p.role, each: p.each, there: p.there[:0]}
	}
	*x = sums{pools: x.pools, bounds: x.bounds, last: x.last}
}

// count adds what the fleet did.
func (x *sums) count(v fleet.Interval) {
	x.arrivals, x.finished = x.arrivals+float64(v.Arrivals), x.finished+float64(v.Finished+v.Rejected+v.Lost)
	x.ttft.Merge(v.TTFT)
	x.itl.Merge(v.ITL)
	x.tpot.Merge(v.TPOT)
	x.e2e.Merge(v.E2E)
	x.isl.Merge(v.ISL)
	x.osl.Merge(v.OSL)
	for _, p := range v.Pools {
		if p.Role != engine.RoleDecode { // whose prompts were read elsewhere
			x.lookups, x.hits = x.lookups+float64(p.Lookups), x.hits+float64(p.Hits)
		}
	}
}

// add takes a look in.
func (x *sums) add(l look) {
	x.count(l.interval)
	x.arrivals += float64(l.refused) // a frontend counts them, and as ended at once
	x.finished += float64(l.refused)
	x.running, x.waiting, x.serving = 0, 0, 0
	for i := range x.pools {
		p := &x.pools[i]
		p.add(l.replicas, x.looks == 0)
		x.waiting, x.serving = x.waiting+p.latest, x.serving+p.serving
	}
	for _, r := range l.replicas {
		x.running += r.Running
	}
	x.looks, x.last = x.looks+1, l.at
}

func (p *poolSums) add(all []fleet.Replica, first bool) {
	running := 0
	p.serving, p.latest, p.there = 0, 0, p.there[:0]
	for _, r := range all {
		if r.Role != p.role || r.State == fleet.Starting {
			continue
		}
		p.serving++
		running, p.latest = running+r.Running, p.latest+r.Waiting
		p.kv.add(r.KVUse)
		own := p.each[r.Number]
		own.kv.add(r.KVUse)
		own.mostKV, own.waiting = max(own.mostKV, r.KVUse), max(own.waiting, float64(r.Waiting))
		p.each[r.Number], p.there = own, append(p.there, r.Number)
	}
	if first {
		p.first = p.latest
	}
	p.running.add(float64(running))
	p.waiting.add(float64(p.latest))
}

// observation is the sums as figures. What no look showed is missing.
func (x *sums) observation(ready []mean, now engine.Picoseconds) planner.Observation {
	var o planner.Observation
	age := (now - x.last).Duration()
	known := func(v float64) planner.Figure[float64] {
		return planner.Figure[float64]{Value: v, Known: true, Age: age}
	}
	for i, p := range x.pools {
		seen := planner.PoolObservation{PoolState: planner.PoolState{Role: p.role}}
		if p.serving > 0 {
			seen.Running, seen.KVUsage, seen.KVMost = known(p.running.value()), known(p.kv.value()), known(p.kvMost())
			seen.Queue = each(known(p.waiting.value()), ready[i])
			seen.Replicas = p.replicas()
			seen.QueueOpen, seen.QueueEnd = each(known(float64(p.first)), ready[i]), each(known(float64(p.latest)), ready[i])
		}
		o.Pools = append(o.Pools, seen)
	}
	if x.looks == 0 {
		o.Problems = []string{unseen}
		return o
	}
	o.Arrivals, o.Finished = known(x.arrivals), known(x.finished)
	if x.serving > 0 {
		o.Running, o.Waiting = known(float64(x.running)), known(float64(x.waiting))
	}
	o.TTFT, o.ITL = Latencies(x.ttft, x.bounds.TTFT, age), Latencies(x.itl, x.bounds.ITL, age)
	o.TPOT, o.Duration = Latencies(x.tpot, x.bounds.TPOT, age), Latencies(x.e2e, x.bounds.E2E, age)
	o.ISL, o.OSL = Tokens(x.isl, x.bounds.ISL, age), Tokens(x.osl, x.bounds.OSL, age)
	if x.lookups > 0 {
		o.CacheHit = known(x.hits / x.lookups)
	}
	return o
}

// unseen is why figures are missing at the start, where metrics come late.
const unseen = "no sample is old enough to be seen"

// kvMost is the mean of the replica whose mean is highest.
func (p *poolSums) kvMost() float64 {
	most := 0.0
	for _, r := range p.each {
		most = max(most, r.kv.value())
	}
	return most
}

// replicas are those that serve at the last look.
func (p *poolSums) replicas() []planner.ReplicaObservation {
	out := make([]planner.ReplicaObservation, 0, len(p.there))
	for _, n := range p.there {
		r := p.each[n]
		out = append(out, planner.ReplicaObservation{Number: n, KVUsage: r.mostKV, Waiting: r.waiting})
	}
	return out
}

// each is a queue by replica that was ready. Without any, nothing waits at one.
func each(f planner.Figure[float64], ready mean) planner.Figure[float64] {
	n := ready.value()
	switch {
	case f.Value == 0:
		return f
	case math.IsNaN(n) || n == 0:
		return planner.Figure[float64]{}
	}
	f.Value /= n
	return f
}

// Latencies are a sketch's figures as a histogram with these bounds tells them; all
// missing where it is empty.
func Latencies(s fleet.Sketch, bounds []float64, age time.Duration) planner.Spread[time.Duration] {
	const second = engine.Second
	return spread(s, bounds, float64(second), func(v float64) time.Duration { return engine.Picoseconds(math.Round(v * float64(second))).Duration() }, age)
}

// Tokens are a sketch's figures likewise.
func Tokens(s fleet.Sketch, bounds []float64, age time.Duration) planner.Spread[float64] {
	return spread(s, bounds, 1, planner.Tokens, age)
}

// spread is of values that are counted in so many ones.
func spread[T float64 | time.Duration](s fleet.Sketch, bounds []float64, one float64, unit func(float64) T, age time.Duration) planner.Spread[T] {
	if s.Count() == 0 {
		return planner.Spread[T]{}
	}
	if len(bounds) > 0 {
		counts := map[float64]float64{math.Inf(1): float64(s.Count())}
		for _, b := range bounds {
			counts[b] = float64(s.Count()) - s.Above(int64(math.Round(b*one)))
		}
		h, _ := planner.NewHistogram(counts, s.Mean()*float64(s.Count())/one)
		return planner.SpreadOf(h, unit, age)
	}
	known := func(v float64) planner.Figure[T] {
		return planner.Figure[T]{Value: unit(v / one), Known: true, Age: age}
	}
	at := func(q float64) planner.Percentile[T] {
		v := known(float64(s.Quantile(q)))
		return planner.Percentile[T]{Figure: v, Low: v.Value, High: v.Value}
	}
	return planner.Spread[T]{Count: float64(s.Count()), Mean: known(s.Mean()), P50: at(0.50), P90: at(0.90), P95: at(0.95), P99: at(0.99)}
}
