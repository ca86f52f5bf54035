package capacity

import (
	"math"

	"plimsoll/engine"
	"plimsoll/engine/sim/fleet"
	"plimsoll/profile"
)

// Trial is what a fleet of one size did with the traffic in simulation. Of
// generated traffic the requests count that came after the fleet had filled, with
// all that became of them later; of a trace all do.
type Trial struct {
	Replicas []int // of each pool
	Requests int64 // that count
	Rejected int64 // of them, too long for an engine

	TTFT Latency
	E2E  Latency
	// ITL is of each request's mean over its output tokens, against the promise for ITL;
	// Gaps is of single gaps between tokens, against the promise for stalls. ITL has the
	// stalls of preempted requests, which Gaps has not.
	ITL  Latency
	Gaps Latency
	// Growing says that the time to the first token rose all through the trial, by
	// a tenth of its promise at least: the fleet does not keep up.
	Growing bool
	// Stopped says that the trial ended before its last request, when it was certain
	// that it misses the SLO. Its figures are of what it saw.
	Stopped bool
	// Independent is how many requests would tell as much about the mean TTFT if
	// those after each other did not wait in the same queue. Next to saturation it
	// is a thousandth of Requests, and the bounds are too narrow.
	Independent float64

	Pools []Load
}

// Latency is how one latency kept its promise.
type Latency struct {
	P50 engine.Picoseconds
	P99 engine.Picoseconds
	// At is by the statistic that is promised: of TTFT and ITL the SLO's, of others p99.
	At engine.Picoseconds
	// Missed is the share above the promise, 0 where nothing was promised.
	Missed float64
	// Used is how much of what the promise allows is used; the promise holds up to 1. For a
	// percentile it is the share of requests above the promise over the share that may be
	// above it, for a mean the mean over the promise. UsedAtLeast and UsedAtMost are its 95 %
	// bounds.
	Used, UsedAtLeast, UsedAtMost float64
}

// Load is how busy a pool was.
type Load struct {
	Utilisation float64 `json:"utilisation"` // share of the time spent in steps
	KVUse       float64 `json:"kv_use"`      // mean share of the KV cache
	Running     float64 `json:"running"`     // requests in the pool's engines, mean
	Waiting     float64 `json:"waiting"`     // requests in its queues, mean
}

// mayMiss is the share of requests that may be above a statistic of them.
func mayMiss(s profile.Statistic) float64 {
	if s == profile.P99 {
		return 0.01 // to the last digit
	}
	return 1 - s.Quantile()
}

// Holds reports whether the fleet keeps each promise on its upper 95 % bound, and would go
// on to.
func (t Trial) Holds() bool { return t.worst().UsedAtMost <= 1 && !t.Growing }

// held is Holds without the bound, which for few requests says more about their number than
// about the fleet.
func (t Trial) held() bool {
	return max(t.TTFT.Used, t.ITL.Used, t.Gaps.Used, t.E2E.Used) <= 1 && !t.Growing
}

// missed is the largest share that misses a promise.
func (t Trial) missed() float64 {
	return max(t.TTFT.Missed, t.ITL.Missed, t.Gaps.Missed, t.E2E.Missed)
}

// worst is the latency that uses most of what it may: by its upper bound, or, of a trial
// that stopped and has seen little, by what it saw.
func (t Trial) worst() Latency {
	misses := func(l Latency) float64 {
		if t.Stopped {
			return l.Used
		}
		return l.UsedAtMost
	}
	worst := t.TTFT
	for _, l := range []Latency{t.ITL, t.Gaps, t.E2E} {
		if misses(l) > misses(worst) {
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
	case t.Gaps:
		return "gap between tokens"
	default:
		return "end-to-end latency"
	}
}

// batches are how many parts a trial is cut into: their means are nearly
// independent, where single requests, which share steps and queues, are not
// (batch means: Law, Simulation Modeling and Analysis, 5th ed., 9.5.3).
const batches = 10

// studentT is Student's t, 95 % of one side, by degrees of freedom from 1: a mean
// of n batches has n − 1, a line through them n − 2.
var studentT = [batches]float64{0, 6.3138, 2.9200, 2.3534, 2.1318, 2.0150, 1.9432, 1.8946, 1.8595, 1.8331}

// latencies are one latency's parts.
type latencies struct {
	promise engine.Picoseconds // 0 = none
	stat    profile.Statistic  // that is promised
	all     fleet.Sketch
	late    float64 // requests above the promise
	events  [batches]float64
	used    [batches]float64 // by each part's events, of their sum: see Latency.Used
	share   float64          // Σ of what the parts have used already, however the rest goes
}

// use adds n events to a part that will have so many (of): how many of them are late, and
// how much of what is allowed they use together.
func (l *latencies) use(part int, of, n, late, used float64) {
	l.events[part] += n
	l.late += late
	l.used[part] += used
	l.share += used / max(1, of)
}

// add adds one request's to a part of so many.
func (l *latencies) add(part int, of float64, p engine.Picoseconds) {
	l.all.Add(int64(p), 1)
	late := 0.0
	if p > l.promise {
		late = 1
	}
	used := late / mayMiss(l.stat)
	if l.stat == profile.Mean {
		used = float64(p) / float64(max(1, l.promise))
	}
	l.use(part, of, 1, late, used)
}

// refusedUses is how much of a promised mean a refused request uses: the mean breaks if 1 %
// of the requests are refused, as a p99 does.
const refusedUses = 100

// refuse adds a request that has no latency, and missed every promise.
func (l *latencies) refuse(part int, of float64) {
	used := 1 / mayMiss(l.stat)
	if l.stat == profile.Mean {
		used = refusedUses
	}
	l.use(part, of, 1, 1, used)
}

// merge adds all that a part has, of a percentile.
func (l *latencies) merge(part int, s fleet.Sketch) {
	l.all.Merge(s)
	n, late := float64(s.Count()), s.Above(int64(l.promise))
	l.use(part, n, n, late, late/mayMiss(l.stat))
}

// missed reports whether the trial is certain to end with so many times as much used as is
// allowed. It forgives a rounding error.
func (l *latencies) missed(times float64) bool {
	return l.promise > 0 && l.share > batches*times*(1+1e-9)
}

func (l *latencies) sum() Latency {
	at := func(q float64) engine.Picoseconds { return engine.Picoseconds(l.all.Quantile(q)) }
	out := Latency{P50: at(0.5), P99: at(0.99)}
	if q := l.stat.Quantile(); q > 0 {
		out.At = at(q)
	} else {
		out.At = engine.Picoseconds(l.all.Mean())
	}
	if l.promise == 0 {
		return out
	}
	var parts []float64
	events := 0.0
	for i, n := range l.events {
		events += n
		if n > 0 {
			parts = append(parts, l.used[i]/n)
		}
	}
	if events == 0 {
		return out
	}
	mean, squares := 0.0, 0.0
	for _, x := range parts {
		mean += x
	}
	mean /= float64(len(parts))
	for _, x := range parts {
		squares += (x - mean) * (x - mean)
	}
	out.Missed, out.Used, out.UsedAtMost = l.late/events, mean, math.Inf(1) // one part says nothing about others
	if len(parts) > 1 {
		half := studentT[len(parts)-1] * math.Sqrt(squares/float64(len(parts)*(len(parts)-1)))
		out.UsedAtLeast, out.UsedAtMost = max(0, mean-half), mean+half
	}
	if l.stat != profile.Mean {
		// No miss among n: at most 3/n, with 95 % (the rule of three).
		out.UsedAtMost = min(1/mayMiss(l.stat), max(out.UsedAtMost, 3/events/mayMiss(l.stat)))
	}
	return out
}

// independent is n over the variance of a part's mean times its requests, in
// units of the variance of one (the integrated autocorrelation time: Law, 4.4).
func independent(n, sum, squares float64, means [batches]float64) float64 {
	mean, spread := sum/n, 0.0
	for _, x := range means {
		spread += (x - mean) * (x - mean) / (batches - 1)
	}
	one := squares/n - mean*mean
	if spread <= 0 || one <= 0 {
		return n
	}
	return min(n, batches*one/spread)
}

// rises reports whether a line through values that follow each other rises, on
// its lower 95 % bound, by more than so much from the first to the last.
func rises(ys [batches]float64, by float64) bool {
	const middle, spread = (batches - 1) / 2.0, (batches*batches*batches - batches) / 12.0
	mean, slope := 0.0, 0.0
	for i, y := range ys {
		mean += y / batches
		slope += (float64(i) - middle) * y / spread
	}
	squares := 0.0
	for i, y := range ys {
		off := y - mean - slope*(float64(i)-middle)
		squares += off * off
	}
	least := slope - studentT[batches-2]*math.Sqrt(squares/(batches-2)/spread)
	return least*(batches-1) > by
}
