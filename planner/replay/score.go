package replay

import (
	"time"

	"plimsoll/engine"
	"plimsoll/engine/sim/fleet"
	"plimsoll/planner"
	"plimsoll/profile"
)

// score keeps account of what becomes of requests, and of who is there.
type score struct {
	s         Scenario
	ttft, itl engine.Picoseconds // promised
	out       Result
	met       [3]int64 // TTFT, ITL, both
	tokens    int64    // of requests that met both
	windows   []window
	width     engine.Picoseconds // of points
	points    []Point
	closed    int       // points whose replicas are known
	gpus      []float64 // GPU-seconds up to the last one's end
}

// window counts requests by the minute of their arrival.
type window struct{ arrivals, met int64 }

func newScore(s Scenario) *score {
	x := &score{
		s: s, ttft: engine.FromDuration(s.Deployment.SLA.TTFT), itl: engine.FromDuration(s.Deployment.SLA.ITL),
		gpus: make([]float64, len(s.Fleet.Pools)), windows: make([]window, above(s.Length, time.Minute)),
	}
	step := s.point()
	x.width = engine.FromDuration(step)
	x.points = make([]Point, above(s.Length, step))
	for i := range x.points {
		from := time.Duration(i) * step
		x.points[i] = Point{From: from, To: min(from+step, s.Length), Pools: make([]PoolPoint, len(s.Fleet.Pools))}
	}
	for _, p := range s.Fleet.Pools {
		n := s.Start.Of(p.Engine.Role)
		x.out.Pools = append(x.out.Pools, PoolResult{Role: p.Engine.Role, Most: n, Least: n})
	}
	return x
}

// point is how long a point of the timeline is: as many looks as make few enough
// points, that each have some requests. Decisions may come less often than that:
// replicas start and drain between them.
func (s Scenario) point() time.Duration {
	looks := max(
		(above(s.Length, s.Scrape)+mostPoints-1)/mostPoints,
		above(min(leastPoint, s.Pace.Every), s.Scrape),
	)
	return s.Scrape * time.Duration(looks)
}

const (
	leastPoint = 5 * time.Second // the shortest point of a timeline
	mostPoints = 2880            // of a timeline: a day in steps of 30 s
)

// above is a/b rounded up.
func above(a, b time.Duration) int { return int((a + b - 1) / b) }

// done takes a request that left the fleet.
func (x *score) done(o fleet.Outcome) {
	switch o.Status {
	case fleet.Rejected:
		x.out.Rejected++
	case fleet.Unfinished:
		x.out.Unfinished++
	case fleet.Lost: // no replica fails
	case fleet.Finished:
		x.out.Finished++
		ttft, itl := o.TTFT() <= x.ttft, o.TPOT() <= x.itl
		if ttft && itl {
			x.tokens += int64(o.OSL)
		}
		x.arrived(o.At, ttft, itl)
		return
	}
	x.arrived(o.At, false, false)
}

// refuse counts a request that the fleet did not take.
func (x *score) refuse(at engine.Picoseconds) {
	x.out.Refused++
	x.arrived(at, false, false)
}

// arrived counts a request where it arrived.
func (x *score) arrived(at engine.Picoseconds, ttft, itl bool) {
	w, p := &x.windows[at/(60*engine.Second)], &x.points[at/x.width]
	x.out.Requests++
	w.arrivals++
	p.Arrivals++
	if ttft {
		x.met[0]++
		p.MetTTFT++
	}
	if itl {
		x.met[1]++
		p.MetITL++
	}
	if ttft && itl {
		x.met[2]++
		p.MetBoth++
		w.met++
	}
}

// edge is where the next point ends, before the end; never.
func (x *score) edge() engine.Picoseconds {
	if x.closed >= len(x.points)-1 {
		return never
	}
	return x.width * engine.Picoseconds(x.closed+1)
}

// close ends a point: who is there, and the GPU time up to now.
func (x *score) close(state planner.State, gpus []float64) {
	p := &x.points[x.closed]
	for i, seen := range state.Pools {
		p.Pools[i] = PoolPoint{
			Wanted: seen.Want, Ready: seen.Ready, Starting: seen.Starting, Draining: seen.Draining,
			GPUs: (gpus[i] - x.gpus[i]) / (p.To - p.From).Seconds(),
		}
	}
	x.gpus = gpus
	x.closed++
}

// scaled notes what was asked of a pool.
func (x *score) scaled(pool, from, to int) {
	p := &x.out.Pools[pool]
	p.Most, p.Least = max(p.Most, to), min(p.Least, to)
	switch {
	case to > from:
		p.Ups++
	case to < from:
		p.Downs++
	}
}

// result sums up, with the GPU-seconds of each pool and the fleet's report at its
// end.
func (x *score) result(gpus []float64, f fleet.Report) Result {
	out := x.out
	out.take(f)
	out.Length, out.Timeline = x.s.Length, x.points
	out.Attainment = shares(out.Requests, x.met[0], x.met[1], x.met[2])
	out.UnderSLO = 1
	under := 0
	for _, w := range x.windows {
		if w.arrivals == 0 {
			continue
		}
		out.Windows++
		if float64(w.met) >= DefaultTarget*float64(w.arrivals) {
			under++
		}
	}
	if out.Windows > 0 {
		out.UnderSLO = float64(under) / float64(out.Windows)
	}
	seconds := x.s.Length.Seconds()
	out.GoodRequests, out.GoodTokens = float64(x.met[2])/seconds, float64(x.tokens)/seconds
	for i := range out.Pools {
		p := &out.Pools[i]
		p.GPUHours = gpus[i] / 3600
		out.GPUHours += p.GPUHours
	}
	if out.Refused > 0 {
		out.Warnings = append(out.Warnings, profile.Warnf("refused", "%d of %d requests were refused because %d were already in flight; they count as misses", out.Refused, out.Requests, x.s.Fleet.MaxInFlight))
	}
	return out
}
