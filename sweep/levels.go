package sweep

import (
	"slices"

	"plimsoll/engine"
	"plimsoll/profile"
)

// spaced is upstream's list of in-flight counts: granularity of them, evenly
// spaced from 1 to top; every count where top is smaller than granularity.
// (Upstream divided by granularity − 1 and so failed at 1, and stepped by 0 at
// small tops.)
func spaced(top, granularity int) []int {
	if top < 1 {
		return nil
	}
	if granularity <= 1 {
		return []int{top}
	}
	var ns []int
	for i := range min(granularity, top) {
		n := i + 1
		if top > granularity {
			n = 1 + int(float64(i)*float64(top-1)/float64(granularity-1))
		}
		ns = append(ns, n)
	}
	return ns
}

// rounds are the in-flight counts of an engine: a multiple of each, up to top·each.
// An engine has as many requests on each of its attention replicas (DP), because a
// step takes as long as that of the fullest one, and a request has to fit on one
// replica alone: what all of them have left over together holds none. Dynamo's
// profiler counts so, too (ai-dynamo/dynamo, decode sweep, 2026-08). A limit
// below one round leaves replicas idle, and counts by ones.
type rounds struct{ top, each int }

func (o Options) rounds(f profile.EngineFacts, c engine.Config, isl, osl int) rounds {
	dp := attentionReplicas(c)
	one := f.Replica(dp)
	if f.MaxNumSeqs > 0 {
		one.MaxNumSeqs = max(f.MaxNumSeqs/dp, 1)
	}
	r := rounds{top: one.MaxInFlight(isl, osl, 0), each: dp}
	if most := o.MaxInFlight; r.top > 0 && most > 0 && most < dp {
		return rounds{top: most, each: 1}
	} else if most > 0 {
		r.top = min(r.top, most/dp)
	}
	return r
}

// counts are the in-flight counts of some numbers of rounds.
func (r rounds) counts(numbers []int) []int {
	ns := make([]int, 0, len(numbers))
	for _, n := range numbers {
		ns = append(ns, n*r.each)
	}
	return ns
}

// probes bounds how many counts narrow may try. An ITL that is nearly a straight
// line in load takes one or two; every two halve the bracket at least, whatever
// its shape.
const probes = 16

// fineness is how far below the boundary the search may end, relative to it.
const fineness = 1. / 40

// firstStep is the second count that is tried where nothing is expected, and
// stride by how much at most a count is above the one before: a fill that turns
// out to be far beyond the boundary is what costs most.
const (
	firstStep = 8
	stride    = 4
)

// ascend finds the largest in-flight count up to top whose ITL meets the SLA, to
// within one request or fineness, and one count beyond it, assuming that ITL does
// not fall with load. It tries 1, then start (0: firstStep), and climbs to where
// the straight line through the last two crosses the SLA, until one misses it;
// then it narrows the bracket. A count whose measurement says nothing of the engine
// bounds the search as a miss does, but no line goes through it; where it had too few
// requests for a percentile, more in flight have more, and the search goes on above.
// In the end it adds the middle of what holds, for the curve's shape, where it has
// none there.
func ascend(top, start int, sla profile.SLA, at func(n int) (profile.Point, error)) error {
	lo, err := at(1)
	if err != nil || top == 1 || ends(lo, sla) {
		return err // more load only makes it worse
	}
	if start == 0 {
		start = firstStep
	}
	held := []int{1}
	a, next := 1, min(max(start, 2), top)
	for {
		p, err := at(next)
		if err != nil {
			return err
		}
		if ends(p, sla) {
			if a, err = narrow(a, next, lo, p, sla, at); err != nil {
				return err
			}
			break
		}
		before := a
		a, next = next, min(top, beyond(before, next, lo, p, sla))
		lo, held = p, append(held, a)
		if a == top {
			break
		}
	}
	middle := func(n int) bool { return 4*n >= a && 4*n <= 3*a }
	if a > 3 && !slices.ContainsFunc(held, middle) {
		_, err = at((a + 1) / 2)
	}
	return err
}

// ends reports whether a count bounds the search from above.
func ends(p profile.Point, sla profile.SLA) bool { return !p.Meets(sla) && !fewSteps(p, sla) }

// fewSteps reports whether a point is within the SLA, but has too few independent steps
// for the percentile of what requests got: another count may have more.
func fewSteps(p profile.Point, sla profile.SLA) bool {
	l := p.Latency(sla)
	return sla.Stat.Quantile() > 0 && !p.FailsTooOften && p.Invalid == "" && l > 0 && l <= sla.ITL && p.Undecided(sla)
}

// beyond is a little more than the count above b where the line through both
// points' latencies meets the SLA.
func beyond(a, b int, lo, hi profile.Point, sla profile.SLA) int {
	n := stride * b
	if l, h := lo.Latency(sla), hi.Latency(sla); h > l && told(lo, hi, sla) {
		at := float64(b) + float64(b-a)*float64(sla.ITL-h)/float64(h-l)
		n = int(min(float64(n), 1+(1+fineness/2)*at))
	}
	return max(n, b+1)
}

// narrow is the largest count found to hold between a, which does, and b, which
// does not: it tries where the straight line through both crosses the SLA.
func narrow(a, b int, lo, hi profile.Point, sla profile.SLA, at func(n int) (profile.Point, error)) (int, error) {
	slow := false
	for range probes {
		width := b - a
		if width <= max(1, int(fineness*float64(a))) {
			break
		}
		n := crossing(a, b, lo, hi, sla)
		if slow { // the line keeps falling short of a bent curve: halve
			n = (a + b) / 2
		}
		p, err := at(n)
		if err != nil {
			return a, err
		}
		if ends(p, sla) {
			b, hi = n, p
		} else {
			a, lo = n, p
		}
		slow = !slow && 2*(b-a) > width
	}
	return a, nil
}

// crossing is the count strictly between a and b where the line through both
// points' latencies meets the SLA; the middle where there is no such line.
func crossing(a, b int, lo, hi profile.Point, sla profile.SLA) int {
	l, h := lo.Latency(sla), hi.Latency(sla)
	n := (a + b) / 2
	if h > l && told(lo, hi, sla) {
		n = a + int(float64(b-a)*float64(sla.ITL-l)/float64(h-l))
	}
	return min(max(n, a+1), b-1)
}

// told reports whether both points say something of their engine.
func told(a, b profile.Point, sla profile.SLA) bool {
	return a.Untold(sla) == "" && b.Untold(sla) == ""
}

// distinct sorts and drops repeats.
func distinct(v []int) []int {
	slices.Sort(v)
	return slices.Compact(v)
}
