package sweep

import (
	"fmt"
	"math"
	"sort"

	"plimsoll/profile"
)

// gain is how many times faster than few, which it widens, s is at most at some in
// flight: as often as it has the GPUs, or where few was measured to be less than that
// faster than a size of several GPUs that few widens, no more than so, for each time
// the GPUs are multiplied. What GPUs exchange does not get less with more of them, and
// the rest of a step does (Amdahl); one GPU exchanges nothing, and says nothing of
// this. Share is this in words; perfect is as often as it has the GPUs.
func (r *runner) gain(few []profile.Point, s *trial, sets [][]profile.Point) (times func(n float64) float64, share string, perfect bool) {
	evenly, _ := widened(few[0].Config, s.cfg)
	label := few[0].Config.Label()
	times, share, perfect = func(float64) float64 { return evenly }, "perfectly from "+label, true
	for _, fewer := range sets {
		t, ok := widened(fewer[0].Config, few[0].Config)
		if !ok || fewer[0].Config.Parallelism.Normal().TP == 1 {
			continue
		}
		if faster, ok := speedup(s.phase, fewer, few); ok {
			before, power := times, math.Log(evenly)/math.Log(t)
			times = func(n float64) float64 { return min(before(n), math.Pow(max(1, faster(n)), power)) }
			share, perfect = fmt.Sprintf("from %s as %[1]s did from %s", label, fewer[0].Config.Label()), false
		}
	}
	return times, share, perfect
}

// farthest is up to how many times the load that a size was measured at it is
// compared with others. Twice the GPUs twice have at most four times the requests in
// flight within the SLA.
const farthest = 4

// speedup is how many times faster b was measured to be than a, at some in flight:
// beyond what a was measured at, its ITL rises by as many times what that of b rises by
// as it did before. False where that is not known.
func speedup(phase profile.Phase, a, b []profile.Point) (times func(n float64) float64, ok bool) {
	if phase == profile.Prefill {
		i, ok := spread(a[0], profile.SLA{Stat: profile.Mean})
		j, known := spread(b[0], profile.SLA{Stat: profile.Mean})
		return func(float64) float64 { return i.High / j.Low }, ok && known
	}
	if len(a) < 2 || len(b) < 2 {
		return nil, false
	}
	a, b = sortedByLoad(a), sortedByLoad(b)
	top := a[len(a)-1].InFlight
	rise := (meanITL(a, top) - meanITL(a, top/2)) / (meanITL(b, top) - meanITL(b, top/2))
	return func(n float64) float64 {
		switch at := meanITL(b, n); {
		case n > farthest*top:
			return math.Inf(1)
		case n > top:
			return (meanITL(a, top) + rise*(at-meanITL(b, top))) / at
		default:
			return meanITL(a, n) / at
		}
	}, rise > 0 && !math.IsInf(rise, 1)
}

// meanITL is the mean ITL in nanoseconds at n in flight, of points by load: on the
// straight line between two; beyond the last on the one through it and the nearest at
// or below half of it.
func meanITL(ps []profile.Point, n float64) float64 {
	last := len(ps) - 1
	b := sort.Search(last, func(i int) bool { return ps[i].InFlight >= n })
	a := max(b-1, 0)
	if n > ps[last].InFlight {
		for a > 0 && ps[a].InFlight > ps[last].InFlight/2 {
			a--
		}
	}
	mean := func(i int) float64 { return float64(ps[i].Latency(profile.SLA{Stat: profile.Mean})) }
	if ps[a].InFlight == ps[b].InFlight {
		return mean(b)
	}
	return mean(a) + (mean(b)-mean(a))*(n-ps[a].InFlight)/(ps[b].InFlight-ps[a].InFlight)
}
