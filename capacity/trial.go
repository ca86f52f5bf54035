package capacity

import (
	"fmt"
	"math"

	"plimsoll/engine"
	"plimsoll/engine/sim/fleet"
)

// Trial is what a fleet of one size did with the traffic in simulation, after
// its first sixth, in which it filled.
type Trial struct {
	Replicas []int `json:"replicas"` // of each pool
	Requests int64 `json:"requests"` // that arrived

	TTFT Latency `json:"ttft"`
	ITL  Latency `json:"itl"` // of gaps between tokens
	E2E  Latency `json:"e2e"`

	Pools []Load `json:"pools"`
}

// Latency is how one latency kept its promise.
type Latency struct {
	P50 engine.Picoseconds `json:"p50_ps"`
	P99 engine.Picoseconds `json:"p99_ps"`
	// Missed is the share above the promise, with its lower and its upper 95 %
	// bound; 0 where nothing was promised.
	Missed        float64 `json:"missed"`
	MissedAtLeast float64 `json:"missed_at_least"`
	MissedAtMost  float64 `json:"missed_at_most"`
}

// Load is how busy a pool was.
type Load struct {
	Utilisation float64 `json:"utilisation"` // share of the time spent in steps
	KVUse       float64 `json:"kv_use"`      // mean share of the KV cache
	Running     float64 `json:"running"`     // requests in the pool's engines, mean
	Waiting     float64 `json:"waiting"`     // requests in its queues, mean
}

// allowed is the share of requests above a p99.
const allowed = 0.01

// Holds reports whether 99 % of the requests, and of the gaps between tokens,
// keep the promise on the upper 95 % bound.
func (t Trial) Holds() bool { return t.worst().MissedAtMost <= allowed }

// fails reports whether more than 1 % miss a promise on the lower bound. Where a
// trial neither holds nor fails, it was too short to tell.
func (t Trial) fails() bool {
	return max(t.TTFT.MissedAtLeast, t.ITL.MissedAtLeast, t.E2E.MissedAtLeast) > allowed
}

// worst is the latency that misses most.
func (t Trial) worst() Latency {
	worst := t.TTFT
	for _, l := range []Latency{t.ITL, t.E2E} {
		if l.MissedAtMost > worst.MissedAtMost {
			worst = l
		}
	}
	return worst
}

// binding is the name of the latency that misses its promise most.
func (t Trial) binding() string {
	switch t.worst() {
	case t.TTFT:
		return "TTFT"
	case t.ITL:
		return "ITL"
	default:
		return "end-to-end latency"
	}
}

// batches are how many parts a trial is cut into: their means are nearly
// independent, where single requests, which share steps and queues, are not
// (batch means: Law, Simulation Modeling and Analysis, 5th ed., 9.5.3).
const batches = 10

// studentT is Student's t for batches−1 degrees of freedom: 95 % of one side.
const studentT = 1.8331

// try simulates the layout at a size.
func (l Layout) try(replicas []int, t Traffic, slo SLO, requests int, seed uint64) (Trial, error) {
	if t.Requests > 0 {
		requests = t.Requests
	}
	source, err := t.requests(seed, requests)
	if err != nil {
		return Trial{}, err
	}
	f, err := fleet.New(l.fleet(replicas, seed))
	if err != nil {
		return Trial{}, fmt.Errorf("simulating %s: %w", l.Name(), err)
	}
	var parts []fleet.Interval
	part, n := max(1, requests/(batches+2)), 0
	for r := range source {
		if n++; n%part == 0 && n >= 2*part && len(parts) < batches {
			parts = append(parts, f.Interval()) // the first is the filling
		}
		if err := f.Offer(r); err != nil {
			return Trial{}, fmt.Errorf("simulating %s: %w", l.Name(), err)
		}
	}
	parts = append(parts, f.Interval())
	return trialOf(replicas, parts[1:], slo), nil
}

func trialOf(replicas []int, parts []fleet.Interval, slo SLO) Trial {
	t := Trial{Replicas: replicas, Pools: make([]Load, len(parts[0].Pools))}
	var ttft, itl, e2e latencies
	for _, p := range parts {
		t.Requests += p.Arrivals
		ttft.add(p.TTFT, engine.FromDuration(slo.TTFTP99), p.Rejected)
		itl.add(p.ITL, engine.FromDuration(slo.ITLP99), 0)
		e2e.add(p.E2E, engine.FromDuration(slo.E2EP99), 0)
		share := float64(p.To-p.From) / float64(parts[len(parts)-1].To-parts[0].From)
		for i, pool := range p.Pools {
			l := &t.Pools[i]
			l.Utilisation += share * pool.Utilisation
			l.KVUse += share * pool.KVUse
			l.Running += share * pool.RunningMean
			l.Waiting += share * pool.WaitingMean
		}
	}
	t.TTFT, t.ITL, t.E2E = ttft.sum(), itl.sum(), e2e.sum()
	return t
}

// latencies are one latency's parts.
type latencies struct {
	all    fleet.Sketch
	misses []float64 // share of each part
	events int64
}

// add adds a part; refused requests have no latency and missed every promise.
func (l *latencies) add(s fleet.Sketch, promise engine.Picoseconds, refused int64) {
	l.all.Merge(s)
	n := s.Count() + refused
	if promise == 0 || n == 0 {
		return
	}
	l.events += n
	l.misses = append(l.misses, (s.Above(int64(promise))+float64(refused))/float64(n))
}

func (l *latencies) sum() Latency {
	out := Latency{P50: engine.Picoseconds(l.all.Quantile(0.5)), P99: engine.Picoseconds(l.all.Quantile(0.99))}
	if len(l.misses) == 0 {
		return out
	}
	mean, squares := 0.0, 0.0
	for _, x := range l.misses {
		mean += x / float64(len(l.misses))
	}
	for _, x := range l.misses {
		squares += (x - mean) * (x - mean)
	}
	out.Missed = mean
	if len(l.misses) > 1 {
		half := studentT * math.Sqrt(squares/float64(len(l.misses)*(len(l.misses)-1)))
		out.MissedAtLeast, out.MissedAtMost = max(0, mean-half), mean+half
	}
	// No miss among n: at most 3/n, with 95 % (the rule of three).
	out.MissedAtMost = min(1, max(out.MissedAtMost, 3/float64(l.events)))
	return out
}
