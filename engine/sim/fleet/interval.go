package fleet

import "plimsoll/engine"

// Interval is what a fleet did since the Interval before, or since its start:
// what an autoscaler observes. It is a value that the fleet no longer changes.
type Interval struct {
	From, To engine.Picoseconds
	// Requests in the interval.
	Arrivals, Finished, Rejected, Lost int64
	MetTTFT, MetITL, MetBoth           int64 // of the finished ones
	// TTFT of first tokens in it (picoseconds), ITL of steps that began in it, TPOT,
	// E2E and OSL of requests that finished in it, ISL of those that arrived.
	// Their minima and maxima are within SketchError.
	TTFT, ITL, TPOT, E2E, ISL, OSL Sketch
	Pools                          []PoolInterval
}

// PoolInterval is a pool in an interval.
type PoolInterval struct {
	Role                      engine.Role
	Ready, Starting, Draining int // replicas at its end
	Waiting, Running          int // requests at its end
	WaitingMean, RunningMean  float64
	KVUse                     float64 // share of the KV blocks of replicas in service in use, from 0 to 1, on average
	Utilisation               float64 // share of the time of replicas in service that was spent in steps
	Lookups, Hits             int64   // prompt tokens looked up in the prefix caches, and those found there
}

// snapshot is what an Interval counts from.
type snapshot struct {
	at                             engine.Picoseconds
	tally                          tally
	ttft, itl, tpot, e2e, isl, osl Sketch
	pools                          []poolSnapshot
}

type poolSnapshot struct {
	waiting, running, kvTwice, capacity, busy, serving wide
	lookups, hits                                      int64
}

// snapshot is the fleet now, its replicas caught up.
func (f *Fleet) snapshot() snapshot {
	s := snapshot{
		at: f.now, tally: f.tally,
		ttft: f.ttft.Clone(), itl: f.itl.Clone(), tpot: f.tpot.Clone(), e2e: f.e2e.Clone(), isl: f.isl.Clone(), osl: f.osl.Clone(),
	}
	for _, p := range f.pools {
		stats := p.stats()
		s.pools = append(s.pools, poolSnapshot{
			lookups: stats.PrefixQueries, hits: stats.PrefixHits,
			waiting: p.waiting.area(f.now), running: p.running.area(f.now),
			kvTwice: p.kvTwiceAt(f.now), capacity: p.capacity(f.now),
			busy: p.busy.area(f.now), serving: p.serving.area(f.now),
		})
	}
	return s
}

// Interval is what the fleet did since the last call.
func (f *Fleet) Interval() Interval {
	f.catchUpAll(f.now)
	from, to := f.seen, f.snapshot()
	f.seen = to
	v := Interval{
		From: from.at, To: to.at,
		Arrivals: to.tally.offered - from.tally.offered, Finished: to.tally.finished - from.tally.finished,
		Rejected: to.tally.rejected - from.tally.rejected, Lost: to.tally.lost - from.tally.lost,
		MetTTFT: to.tally.metTTFT - from.tally.metTTFT, MetITL: to.tally.metITL - from.tally.metITL, MetBoth: to.tally.metBoth - from.tally.metBoth,
		TTFT: to.ttft.Since(from.ttft), ITL: to.itl.Since(from.itl), TPOT: to.tpot.Since(from.tpot), E2E: to.e2e.Since(from.e2e),
		ISL: to.isl.Since(from.isl), OSL: to.osl.Since(from.osl),
	}
	for i, p := range f.pools {
		a, b, span := from.pools[i], to.pools[i], to.at-from.at
		v.Pools = append(v.Pools, PoolInterval{
			Role: p.role(), Ready: len(p.ready), Starting: int(p.starting.value), Draining: p.draining(),
			Waiting: int(p.waiting.value), Running: int(p.running.value),
			WaitingMean: per(b.waiting.minus(a.waiting), span), RunningMean: per(b.running.minus(a.running), span),
			KVUse:   share(b.kvTwice.minus(a.kvTwice), b.capacity.minus(a.capacity)) / 2,
			Lookups: b.lookups - a.lookups, Hits: b.hits - a.hits,
			Utilisation: share(b.busy.minus(a.busy), b.serving.minus(a.serving)),
		})
	}
	return v
}

// GPUSeconds is the time of all GPUs of each pool up to now, from the decision to
// start each replica until it was gone.
func (f *Fleet) GPUSeconds() []float64 {
	all := make([]float64, len(f.pools))
	for i, p := range f.pools {
		all[i] = p.gpuSeconds(f.now)
	}
	return all
}

// Replica is one replica now.
type Replica struct {
	Number           int // over all pools, in order of their start, from 0
	Role             engine.Role
	State            ReplicaState
	Requests         int     // that it holds
	Running, Waiting int     // of them, those that its engine runs, and those in its queue
	KVUse            float64 // share of its KV blocks in use, from 0 to 1
}

// ReplicaState is where a replica is in its life.
type ReplicaState string

// The states.
const (
	Starting ReplicaState = "starting"
	Ready    ReplicaState = "ready"
	Draining ReplicaState = "draining" // takes no new requests, and leaves after its last one
)

// AppendReplicas adds to a slice all replicas that are not gone, by pool and number.
func (f *Fleet) AppendReplicas(to []Replica) []Replica {
	f.catchUpAll(f.now)
	names := [...]ReplicaState{starting: Starting, ready: Ready, draining: Draining}
	for _, p := range f.pools {
		for _, r := range p.live {
			used, _ := r.engine.KVBlocks()
			to = append(to, Replica{
				Number: int(r.ordinal), Role: p.role(), State: names[r.state], Requests: r.load,
				Running: r.engine.Running(), Waiting: r.engine.Waiting(), KVUse: float64(used) / float64(p.Engine.KVBlocks),
			})
		}
	}
	return to
}
