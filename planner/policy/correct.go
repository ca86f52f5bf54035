package policy

import (
	"math"

	"plimsoll/engine"
	"plimsoll/planner"
)

// correction is how much slower the fleet is than its profile, as a factor on
// the profile's latencies, smoothed over intervals; Tail is what the SLA's
// statistic of ITL is of its mean, 1 or more.
type correction struct {
	Prefill float64 `json:"prefill"`
	Decode  float64 `json:"decode"`
	Tail    float64 `json:"tail"`
}

const (
	leastCorrection = 0.25
	mostCorrection  = 4.0
	learn           = 0.3 // weight of the newest interval, on the log scale
	enoughRequests  = 20  // below, a mean of latencies says little
	calmLoad        = 0.7 // above, waiting makes most of TTFT and a correction would learn that
)

func (c *correction) learnPrefill(ratio float64) { c.Prefill = smooth(c.Prefill, c.Prefill*ratio) }
func (c *correction) learnDecode(ratio float64)  { c.Decode = smooth(c.Decode, c.Decode*ratio) }

func smooth(old, now float64) float64 {
	if !(now > 0) || math.IsInf(now, 0) {
		return old
	}
	return math.Min(math.Max(old*math.Pow(now/old, learn), leastCorrection), mostCorrection)
}

// correct compares what was observed with what the profile says of the same
// load. Intervals in which replicas came or went are left out: their figures are
// of engines that were cold (dynamo#12430).
func (p *Default) correct(s planner.Situation) {
	came := s.Arrivals
	if !came.Known {
		came = s.Finished
	}
	rate := came.Value / s.Length.Seconds()
	if p.o.NoCorrection || !usable(came) || rate == 0 || anyChanged(s) {
		return
	}
	e, need := p.engines(s.Deployment.SLA), p.demand(rate)
	if s.CacheHit.Known {
		need.isl *= 1 - min(s.CacheHit.Value, mostCacheHit)
	}
	if s.TTFT.Mean.Known && s.TTFT.Count >= enoughRequests {
		if want, ok := e.ttftSeen(s, need); ok {
			p.m.Slower.learnPrefill(s.TTFT.Mean.Value.Seconds() / want)
		}
	}
	if s.ITL.Mean.Known && s.ITL.Count >= enoughRequests {
		if want, ok := e.itlSeen(s, need); ok {
			p.m.Slower.learnDecode(s.ITL.Mean.Value.Seconds() / want)
		}
		if at := s.ITL.At(s.Deployment.SLA.Stat); at.Known && s.ITL.Mean.Value > 0 {
			p.m.Slower.Tail = math.Max(1, smooth(p.m.Slower.Tail, float64(at.Value)/float64(s.ITL.Mean.Value)))
		}
	}
}

// mostCacheHit bounds the share of a prompt that a prefix cache may save: its
// last block is computed always.
const mostCacheHit = 0.95

func anyChanged(s planner.Situation) bool {
	for _, pool := range s.Pools {
		if pool.Changed {
			return true
		}
	}
	return false
}

// ttftSeen is the mean TTFT that the profile gives for the load of the interval,
// in seconds; not ok near saturation.
func (e engines) ttftSeen(s planner.Situation, need demand) (float64, bool) {
	service, _ := e.prompt(need.isl)
	pool, ok := s.Pool(engine.RolePrefill)
	if !ok {
		if pool, ok = s.Pool(engine.RoleAggregated); !ok || pool.Ready == 0 {
			return 0, false
		}
		if _, service, ok = e.shared(need, need.rate/float64(pool.Ready)); !ok {
			return 0, false
		}
	}
	q := queue{rate: need.rate, mean: service, cv2: need.spread2}
	if pool.Ready == 0 || q.load() > calmLoad*float64(pool.Ready) {
		return 0, false
	}
	return service + q.wait(pool.Ready, 0), true
}

// itlSeen is the mean ITL that the profile gives for what was in flight.
func (e engines) itlSeen(s planner.Situation, need demand) (float64, bool) {
	if pool, ok := s.Pool(engine.RoleDecode); ok {
		if pool.Ready == 0 {
			return 0, false
		}
		if pool.Running.Known {
			each := math.Max(1, pool.Running.Value/float64(pool.Ready))
			return e.decode.ITLAt(each, need.context()).Value.Seconds() * e.slower.Decode, true
		}
		return e.decodeITL(need, pool.Ready)
	}
	pool, _ := s.Pool(engine.RoleAggregated)
	if pool.Ready == 0 {
		return 0, false
	}
	itl, _, ok := e.shared(need, need.rate/float64(pool.Ready))
	return itl, ok
}
