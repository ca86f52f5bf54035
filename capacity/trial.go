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
	// Missed is the share above the promise, with its lower and its upper 95 %
	// bound; 0 where nothing was promised.
	Missed        float64
	MissedAtLeast float64
	MissedAtMost  float64

	mean, p90, p95 engine.Picoseconds
}

// distribution is what an SLA's statistic is taken of.
func (l Latency) distribution() profile.Distribution {
	return profile.Distribution{Mean: l.mean.Duration(), P50: l.P50.Duration(), P90: l.p90.Duration(), P95: l.p95.Duration(), P99: l.P99.Duration()}
}

// meets reports whether the trial as it was keeps an SLA, by its statistic.
func (t Trial) meets(sla profile.SLA) bool {
	return !t.Growing && t.Rejected == 0 && t.TTFT.distribution().At(sla.Stat) <= sla.TTFT && t.ITL.distribution().At(sla.Stat) <= sla.ITL &&
		(sla.Stall == 0 || t.Gaps.P99.Duration() <= sla.Stall)
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

// Holds reports whether 99 % of the requests, and of the gaps if stalls are promised, keep
// each promise on the upper 95 % bound, and would go on to.
func (t Trial) Holds() bool { return t.worst().MissedAtMost <= allowed && !t.Growing }

// missed is the largest share that misses a promise.
func (t Trial) missed() float64 {
	return max(t.TTFT.Missed, t.ITL.Missed, t.Gaps.Missed, t.E2E.Missed)
}

// worst is the latency that misses most: by its upper bound, or, of a trial that
// stopped and has seen little, by its share.
func (t Trial) worst() Latency {
	misses := func(l Latency) float64 {
		if t.Stopped {
			return l.Missed
		}
		return l.MissedAtMost
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
	all     fleet.Sketch
	events  [batches]float64
	late    [batches]float64
	share   float64 // Σ of the parts' shares that are late already, however the rest goes
}

// add adds one request's to a part of so many.
func (l *latencies) add(part int, of float64, p engine.Picoseconds) {
	l.all.Add(int64(p), 1)
	l.events[part]++
	if p > l.promise {
		l.late[part]++
		l.share += 1 / of
	}
}

// refuse adds a request that has no latency, and missed every promise.
func (l *latencies) refuse(part int, of float64) {
	l.events[part]++
	l.late[part]++
	l.share += 1 / of
}

// merge adds all that a part has.
func (l *latencies) merge(part int, s fleet.Sketch) {
	l.all.Merge(s)
	n, late := float64(s.Count()), s.Above(int64(l.promise))
	l.events[part], l.late[part] = n, late
	l.share += late / max(1, n)
}

// missed reports whether a larger share than this misses the promise, whatever
// comes. A rounding error forgiven.
func (l *latencies) missed(share float64) bool {
	return l.promise > 0 && l.share > batches*share*(1+1e-9)
}

func (l *latencies) sum() Latency {
	at := func(q float64) engine.Picoseconds { return engine.Picoseconds(l.all.Quantile(q)) }
	out := Latency{P50: at(0.5), P99: at(0.99), mean: engine.Picoseconds(l.all.Mean()), p90: at(0.9), p95: at(0.95)}
	if l.promise == 0 {
		return out
	}
	var misses []float64
	events := 0.0
	for i, n := range l.events {
		events += n
		if n > 0 {
			misses = append(misses, l.late[i]/n)
		}
	}
	if events == 0 {
		return out
	}
	mean, squares := 0.0, 0.0
	for _, x := range misses {
		mean += x
	}
	mean /= float64(len(misses))
	for _, x := range misses {
		squares += (x - mean) * (x - mean)
	}
	out.Missed, out.MissedAtMost = mean, 1 // one part says nothing about others
	if len(misses) > 1 {
		half := studentT[len(misses)-1] * math.Sqrt(squares/float64(len(misses)*(len(misses)-1)))
		out.MissedAtLeast, out.MissedAtMost = max(0, mean-half), mean+half
	}
	// No miss among n: at most 3/n, with 95 % (the rule of three).
	out.MissedAtMost = min(1, max(out.MissedAtMost, 3/events))
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
