// Package recommend picks, among measured operating points, the best
// throughput per GPU that meets an SLA, says why each other candidate lost,
// and gives the planner's thresholds that follow. It takes points and gives a
// Choice. It is pure; it refuses an empty set of points and never picks a
// point with failures as feasible.
package recommend

import (
	"cmp"
	"errors"
	"math"

	"plimsoll/engine"
	"plimsoll/profile"
)

// Rank is the rule by which feasible candidates are ordered.
type Rank string

// The ranks.
const (
	// BySustained counts the load that still meets the SLA as requests come on their
	// own, and wait for each other.
	BySustained Rank = "sustained"
	// BySingle is Dynamo's rule: tokens/s/GPU of one point as measured, of prompts that
	// never wait and of as many streams as never change.
	BySingle Rank = "single"
)

// ErrNoPoints says that there is nothing to choose from: no configuration gave
// a usable point. Choose returns it.
var ErrNoPoints = errors.New("no configuration gave a usable point")

// ErrUndecided says that the SLA's percentile rests on too few independent
// samples at every point. Choose returns it wrapped, together with ErrNoPoints.
var ErrUndecided = errors.New("undecided")

// Candidate is a point with what it can sustain.
type Candidate struct {
	Point       profile.Point
	Feasible    bool
	Utilization float64  // of the engine, at the sustainable rate; 1 for decode
	RPS         float64  // requests/s that one engine sustains within the SLA
	Together    float64  // decode: requests in flight that are expected at RPS
	Slack       float64  // decode: ITL alone over that of so many, by which a load is remembered
	Sustained   float64  // tokens/s/GPU at that rate
	Margin      float64  // (SLA − latency)/SLA; negative where it misses
	Bracket     *Bracket // where the rate of its configuration lies, by all loads together; nil = the load speaks for itself
	Ended       string   // what ended the search at this load, below the SLA; empty where the SLA did
}

// Label is the configuration's name.
func (c Candidate) Label() string { return c.Point.Config.Label() }

// Value is the figure that rank r compares, tokens/s/GPU.
func (c Candidate) Value(r Rank) float64 {
	if r == BySustained {
		return c.Sustained
	}
	return c.Point.ThroughputPerGPU
}

// better reports whether c is the better of two by rank; in-flight counts of a
// configuration that sustain the same, by what was measured at them.
func (c Candidate) better(o Candidate, rank Rank) bool {
	return cmp.Or(cmp.Compare(c.Value(rank), o.Value(rank)), cmp.Compare(c.Point.ThroughputPerGPU, o.Point.ThroughputPerGPU)) > 0
}

// interval is the 95 % interval of Value; a point where there is none.
func (c Candidate) interval(r Rank) profile.Interval {
	v, i := c.Value(r), c.Point.Throughput95
	if t := c.Point.ThroughputPerGPU; t > 0 && i.High > 0 {
		return profile.Interval{Low: v * i.Low / t, High: v * i.High / t}
	}
	return profile.Interval{Low: v, High: v}
}

// Rejected is a candidate that was not picked, and why.
type Rejected struct {
	Phase    profile.Phase
	Label    string
	InFlight float64
	Reason   string
	Metric   string  // ttft_ms, itl_ms, throughput_per_gpu, sustained_per_gpu, failures, invalid, undecided
	Value    float64 // of Metric
}

// Choice is the outcome of one phase.
type Choice struct {
	Phase    profile.Phase
	Rank     Rank
	Picked   Candidate
	Feasible bool              // false: nothing meets the SLA, and Picked is the nearest (least latency)
	Why      string            // why it was picked, one line
	Rejected []Rejected        // every other point, in the order given
	All      []Candidate       // every usable point, Picked included, in the order given
	Warnings []profile.Warning // of the choosing; points carry their own
}

// Choose picks among the points of one phase. OSL turns decode tokens into
// requests. Points without a latency (every request failed), invalid ones and
// those whose statistic is undecided are rejected with their reason; if none is
// left the error is ErrNoPoints, and ErrUndecided too where samples are all that
// is missing.
func Choose(phase profile.Phase, points []profile.Point, sla profile.SLA, rank Rank, osl int) (Choice, error) {
	ch := Choice{Phase: phase, Rank: rank}
	for _, p := range points {
		if p.Phase != phase {
			continue
		}
		if r, out := excluded(p, sla); out {
			ch.Rejected = append(ch.Rejected, r)
			continue
		}
		ch.All = append(ch.All, evaluate(p, sla))
	}
	if len(ch.All) == 0 {
		return ch, nothing(ch.Rejected, sla)
	}
	if phase == profile.Decode {
		sustain(ch.All, sla, osl)
		ch.endSearches(points, sla)
	}
	var best int
	open := ch.leftOpen(points, sla)
	if best, ch.Feasible = pick(ch.All, rank, sla); ch.Feasible {
		ch.Why = ch.All[best].WithEnd(whyPicked(ch.All, best, rank, labels(open, ch.All[best].Label())))
	} else {
		ch.Why = "nothing meets the SLA; this has the lowest " + metricName(phase)
	}
	ch.Picked = ch.All[best]
	if sf, short := ch.Shortfall(sla); short {
		ch.Why = sf.String()
	}
	for i, c := range ch.All {
		if i != best {
			ch.Rejected = append(ch.Rejected, ch.Lost(c, sla))
		}
	}
	ch.Warnings = append(ch.Warnings, ch.tied()...)
	ch.Warnings = append(ch.Warnings, ch.undecided(open, sla)...)
	ch.Warnings = append(ch.Warnings, ch.atCap()...)
	ch.Warnings = append(ch.Warnings, ch.doubts(sla)...)
	ch.Warnings = append(ch.Warnings, faster(ch.All, sla.Stat)...)
	return ch, nil
}

// batchOf is how many prompts of a point's length one step takes.
func batchOf(p profile.Point) float64 {
	if tokens := p.Config.Limits.MaxNumBatchedTokens; tokens > 0 {
		return float64(tokens) / float64(max(p.ISL, 1))
	}
	return math.Inf(1)
}

// sustain fills in what decode candidates sustain: of each at most what keeps its
// in-flight count, and no more than its configuration holds where nobody keeps it.
func sustain(all []Candidate, sla profile.SLA, osl int) {
	type capacity struct {
		tokens float64 // per second
		at     served
	}
	most := map[engine.Config]float64{}
	for _, c := range all {
		if p := c.Point; c.Feasible {
			most[p.Config] = max(most[p.Config], p.ThroughputPerGPU*float64(p.Config.GPUs()))
		}
	}
	known := map[engine.Config]capacity{}
	for i := range all {
		c := &all[i]
		if p := c.Point; c.Feasible {
			s, gpus := stationOf(all, p, sla, osl), float64(p.Config.GPUs())
			if _, ok := known[p.Config]; !ok {
				tokens, at := s.rate(most[p.Config], sla)
				known[p.Config] = capacity{tokens, at}
			}
			k := known[p.Config]
			c.Utilization, c.Sustained, c.Together = 1, k.tokens/gpus, k.at.inFlight
			if p.ThroughputPerGPU < c.Sustained {
				c.Sustained, c.Together = p.ThroughputPerGPU, p.InFlight
			}
			c.RPS, c.Slack = c.Sustained*gpus/float64(max(osl, 1)), s.slack(c.Together)
		}
	}
}

// MostRPS is the rate that one engine of the pick is expected to sustain within another
// SLA, at most its own RPS. It is 0 if the engine holds none, and for an aggregated engine,
// whose rates are measured.
func (ch Choice) MostRPS(sla profile.SLA, osl int) float64 {
	p := ch.Picked.Point
	switch ch.Phase {
	case profile.Prefill:
		return min(ch.Picked.RPS, evaluate(p, sla).RPS)
	case profile.Decode:
		tokens, _ := stationOf(ch.All, p, sla, osl).rate(ch.Picked.RPS*float64(max(osl, 1)), sla)
		return tokens / float64(max(osl, 1))
	case profile.Aggregated:
	}
	return 0
}

// evaluate turns a point into a candidate.
func evaluate(p profile.Point, sla profile.SLA) Candidate {
	limit, l := sla.ITL, p.Latency(sla)
	if p.Phase == profile.Prefill {
		limit = sla.TTFT
	}
	c := Candidate{Point: p, Feasible: p.Meets(sla), Margin: float64(limit-l) / float64(limit)}
	if p.FailsTooOften {
		return c // it sustains nothing within an SLA
	}
	gpus := float64(p.Config.GPUs())
	switch p.Phase {
	case profile.Prefill:
		c.Utilization = SustainableUtilization(Service{p.TTFT.Mean, p.TTFT.Std, l, batchOf(p)}, limit, sla.Stat)
		replicas := p.Config.Parallelism.Normal().DP // each has a queue of its own
		c.RPS = float64(replicas) * c.Utilization / p.TTFT.Mean.Seconds()
		c.Sustained = c.RPS * float64(p.ISL) / gpus
	case profile.Decode: // sustain's
	case profile.Aggregated: // ChooseAggregated's
	}
	return c
}

// pick is the index of the winner, and whether it is feasible. Among feasible
// candidates whose intervals overlap the best one's, fewer GPUs win, then the
// higher value, then the lower latency; so the order given decides nothing
// that a user would notice.
func pick(all []Candidate, rank Rank, sla profile.SLA) (int, bool) {
	top := -1
	for i, c := range all {
		if c.Feasible && (top < 0 || c.better(all[top], rank)) {
			top = i
		}
	}
	if top < 0 {
		return nearest(all, sla), false
	}
	best, bound := top, all[top].interval(rank)
	for i, c := range all {
		if !c.Feasible || c.interval(rank).High < bound.Low {
			continue
		}
		a, b := c.Point.Config.GPUs(), all[best].Point.Config.GPUs()
		switch {
		case a != b:
			if a < b {
				best = i
			}
		case c.better(all[best], rank):
			best = i
		}
	}
	return best, true
}

// nearest is the candidate of least latency, points without failures first.
func nearest(all []Candidate, sla profile.SLA) int {
	best := 0
	for i, c := range all {
		if nearer(c, all[best], sla) {
			best = i
		}
	}
	return best
}

func nearer(a, b Candidate, sla profile.SLA) bool {
	if fa, fb := a.Point.FailsTooOften, b.Point.FailsTooOften; fa != fb {
		return fb
	}
	if la, lb := a.Point.Latency(sla), b.Point.Latency(sla); la != lb {
		return la < lb
	}
	return a.Point.ThroughputPerGPU > b.Point.ThroughputPerGPU
}

func metricName(p profile.Phase) string {
	if p == profile.Prefill {
		return "TTFT"
	}
	return "ITL"
}
