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
	one := f
	one.KVTokens /= dp
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

// probes bounds how many counts boundary may try between the two ends. An ITL
// that is nearly a straight line in load takes two or three; every two halve the
// bracket at least, whatever its shape.
const probes = 16

// boundary finds the largest in-flight count whose ITL meets the SLA, to within
// one request below 20 and 5 % above, and one count beyond it, assuming that
// ITL does not fall with load. It tries 1 and top first; then, between the best
// count that holds and the least that does not, where the straight line through
// both crosses the SLA. In the end it adds the middle of what holds, for the
// curve's shape.
func boundary(top int, sla profile.SLA, at func(n int) (profile.Point, error)) (err error) {
	lo, err := at(1)
	if err != nil || top == 1 {
		return err
	}
	if !lo.Meets(sla) {
		return nil // more load only makes it worse
	}
	hi, err := at(top)
	if err != nil {
		return err
	}
	a, b := 1, top
	if hi.Meets(sla) {
		a = top
	}
	defer func() {
		if err == nil && a > 3 {
			_, err = at((a + 1) / 2)
		}
	}()
	slow := false
	for range probes {
		width := b - a
		if width <= max(1, a/20) {
			return nil
		}
		n := crossing(a, b, lo, hi, sla)
		if slow { // the line keeps falling short of a bent curve: halve
			n = (a + b) / 2
		}
		p, err := at(n)
		if err != nil {
			return err
		}
		if p.Meets(sla) {
			a, lo = n, p
		} else {
			b, hi = n, p
		}
		slow = !slow && 2*(b-a) > width
	}
	return nil
}

// crossing is the count strictly between a and b where the line through both
// points' latencies meets the SLA; the middle where there is no such line.
func crossing(a, b int, lo, hi profile.Point, sla profile.SLA) int {
	l, h := lo.Latency(sla.Stat), hi.Latency(sla.Stat)
	n := (a + b) / 2
	if h > l {
		n = a + int(float64(b-a)*float64(sla.ITL-l)/float64(h-l))
	}
	return min(max(n, a+1), b-1)
}

// distinct sorts and drops repeats.
func distinct(v []int) []int {
	slices.Sort(v)
	return slices.Compact(v)
}
