package policy

import (
	"math"
	"time"

	"plimsoll/engine"
	"plimsoll/planner"
)

// correction is how much slower the fleet is than its profile, as a factor on
// the profile's latencies, smoothed over intervals; Tail is what the SLA's
// statistic of ITL is of its mean, 1 or more; Extra is what TTFT has beyond
// prompt and queue, whatever the load: transfers, and the step that a request
// waits for. It leaves less of the promise, and takes no engine's time: as a
// factor it would ask for the more engines the emptier they are. Full is Prefill of
// engines that always had prompts, by what came out of them: prompts that come together
// share steps and look slow, though engines do as many of them as ever.
type correction struct {
	Prefill float64       `json:"prefill"`
	Full    float64       `json:"full"`
	Decode  float64       `json:"decode"`
	Tail    float64       `json:"tail"`
	Extra   time.Duration `json:"extra_ns"`
}

// asProfiled corrects nothing.
func asProfiled() correction { return correction{Prefill: 1, Full: 1, Decode: 1, Tail: 1} }

// part is c with a part, 0 to 1, of what only looks slow, which is a reserve. What only
// looks fast carries no more.
func (c correction) part(reserve float64) correction {
	c.Prefill = c.Full * math.Pow(max(1, c.Prefill/c.Full), reserve)
	return c
}

const (
	leastCorrection = 0.25
	mostCorrection  = 4.0
	learn           = 0.3 // weight of the newest interval, on the log scale
	mostLesson      = 2.0 // of one interval, either way: an outlier moves a correction by 23 % at most
	enoughRequests  = 20  // below, a mean of latencies says little
	enoughSamples   = 100 // busy engines sampled, of which the mean is within a tenth
	calmWait        = 1.0 // mean waiting over a prompt's own time above which TTFT says more of the queue than of the engine
)

// learnService takes a ratio of prompts' time in engines that was seen by so many
// samples: of few it says little.
func learnService(c *float64, ratio, seen float64) {
	*c = within(*c*math.Pow(lesson(ratio), learn*seen/(seen+enoughSamples)), leastCorrection, mostCorrection)
}

// learnExtra takes a TTFT that is off by so many seconds.
func (c *correction) learnExtra(off float64, most time.Duration) {
	c.Extra = min(max(0, c.Extra+duration(learn*math.Abs(off))*time.Duration(sign(off))), most)
}

func sign(v float64) int {
	if v < 0 {
		return -1
	}
	return 1
}

func within(v, low, high float64) float64 { return math.Min(math.Max(v, low), high) }

func (c *correction) learnPrefill(ratio float64) {
	c.Prefill = smooth(c.Prefill, c.Prefill*lesson(ratio))
}

func (c *correction) learnDecode(ratio float64) { c.Decode = smooth(c.Decode, c.Decode*lesson(ratio)) }

// lesson is a ratio of observed to predicted as far as one interval is believed.
func lesson(ratio float64) float64 { return within(ratio, 1/mostLesson, mostLesson) }

func smooth(old, now float64) float64 {
	if !(now > 0) || math.IsInf(now, 0) {
		return old
	}
	return within(old*math.Pow(now/old, learn), leastCorrection, mostCorrection)
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
	if s.TTFT.Mean.Known && s.TTFT.Count >= enoughRequests {
		p.correctTTFT(e, s, need)
	}
	if s.ITL.Mean.Known && s.ITL.Count >= enoughRequests {
		want, ok := e.itlSeen(s, need)
		if ratio := s.ITL.Mean.Value.Seconds() / want; ok || ratio < 1 {
			p.m.Slower.learnDecode(ratio)
		}
		if seen := tail(s, p.m.Slower.Tail); seen > 0 && s.Promised(s.Deployment.SLA).Count >= enoughRequests {
			p.m.Slower.Tail = math.Max(1, smooth(p.m.Slower.Tail, seen))
		}
	}
}

// correctTTFT learns from TTFT what it can. Where a pool says how many prompts its
// engines serve, their time is known by Little's law, and the rest of TTFT is no
// engine's; an aggregated engine's prompts are as slow as its steps. Else TTFT alone
// has to do: all of it is taken for slowness.
func (p *Default) correctTTFT(e engines, s planner.Situation, need demand) {
	want, calm := e.ttftSeen(s, need)
	seen := s.TTFT.Mean.Value.Seconds()
	pool, split := s.Pool(engine.RolePrefill)
	switch {
	case !split:
		p.m.Slower.Prefill = p.m.Slower.Decode
	case usable(pool.Running) && pool.Ready > 0:
		p.learnPrompts(e, s, need, pool)
	default:
		if ratio := seen / want; calm || ratio < 1 {
			p.m.Slower.learnPrefill(ratio)
		}
		return
	}
	if off := seen - want - p.m.Slower.Extra.Seconds(); calm || off < 0 {
		p.m.Slower.learnExtra(off, s.Deployment.SLA.TTFT)
	}
}

// learnPrompts learns how slow the engines of a prefill pool are from how many prompts
// they serve, or where all that came out had waited from how many came out. Where decode
// has a queue what came out says nothing of them.
func (p *Default) learnPrompts(e engines, s planner.Situation, need demand, pool planner.PoolObservation) {
	n, by, full := float64(pool.Ready), &p.m.Slower, e
	full.slower.Prefill = by.Full
	prompts, step := full.fullStep(need)
	waited := usable(pool.QueueOpen) && pool.QueueOpen.Value*n >= s.TTFT.Count
	if !waited || pool.Running.Value < prompts*n {
		learnService(&by.Prefill, pool.Running.Value/(need.rate*e.residence(need, pool.Ready)), pool.Running.Value*s.Length.Seconds())
		return
	}
	next, _ := s.Pool(engine.RoleDecode)
	if usable(next.QueueOpen) && usable(next.QueueEnd) && next.QueueOpen.Value+next.QueueEnd.Value == 0 {
		slow := by.Full * n * prompts / step * s.Length.Seconds() / s.TTFT.Count
		learnService(&by.Full, slow/by.Full, s.TTFT.Count)
		learnService(&by.Prefill, slow/by.Prefill, s.TTFT.Count)
	}
}

// fullStep is how many prompts an engine serves at once that always has some, and the
// seconds that they take.
func (e engines) fullStep(need demand) (prompts, seconds float64) {
	if b, ok := e.batching(need); ok {
		return b.most, b.takes(b.most)
	}
	service, _ := e.prompt(need)
	return 1, service
}

// residence is the mean time of a prompt in n engines once it is served, in seconds:
// a step that prompts share lasts longer.
func (e engines) residence(need demand, n int) float64 {
	service, _ := e.prompt(need)
	if b, ok := e.batching(need); ok {
		if each := b.shared(need.rate / float64(n)); each > 1 {
			return b.takes(math.Min(each, b.most))
		}
	}
	return service
}

// tail is the SLA's statistic of ITL over its mean, as it was seen: of a bucket what is
// nearest to what is thought of it, since nothing in between is known. 0 where it was not
// seen.
func tail(s planner.Situation, thought float64) float64 {
	sla := s.Deployment.SLA
	at, mean := s.Promised(sla).At(sla.Stat), float64(s.ITL.Mean.Value)
	if !at.Known || mean <= 0 {
		return 0
	}
	most := float64(at.High) / mean
	if at.Open {
		most = math.Inf(1)
	}
	return within(thought, float64(at.Low)/mean, most)
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
// in seconds. It is not calm where much of it is waiting, by the profile or by what
// was seen; then it is the prompt alone, which no TTFT is below: a correction that
// is too large is found out at any load, or it would make itself true.
func (e engines) ttftSeen(s planner.Situation, need demand) (seconds float64, calm bool) {
	service, _ := e.prompt(need)
	pool, ok := s.Pool(engine.RolePrefill)
	if !ok {
		pool, _ = s.Pool(engine.RoleAggregated)
		if pool.Ready == 0 {
			return service, false
		}
		_, prompt, keeps := e.shared(need, need.rate/float64(pool.Ready))
		if !keeps {
			return service, false
		}
		service = prompt
	}
	wait := queue{rate: need.rate, mean: service, cv2: need.spread2}.wait(pool.Ready, 0)
	if b, known := e.batching(need); ok && known && pool.Ready > 0 {
		if t := b.ttft(need.rate/float64(pool.Ready), false); t < service+wait {
			wait = t - service
		}
	}
	if queued := pool.Queue.Known && pool.Queue.Value > 1 || usable(s.Waiting) && s.Waiting.Value > float64(pool.Ready); queued || !(wait <= calmWait*service) {
		return service, false
	}
	return service + wait, true
}

// itlSeen is the mean ITL that the profile gives for what was in flight. Where
// that is more than was ever measured it is not ok, and the ITL of one request
// alone, which none is below.
func (e engines) itlSeen(s planner.Situation, need demand) (seconds float64, ok bool) {
	least := e.decode.ITLAt(1, need.context()).Value.Seconds() * e.slower.Decode
	if pool, split := s.Pool(engine.RoleDecode); split {
		if pool.Ready == 0 {
			return least, false
		}
		if pool.Running.Known {
			each := math.Max(1, pool.Running.Value/float64(pool.Ready))
			return e.decode.ITLAt(each, need.context()).Value.Seconds() * e.slower.Decode, true
		}
		if itl, keeps := e.decodeITL(need, pool.Ready); keeps {
			return itl, true
		}
		return least, false
	}
	pool, _ := s.Pool(engine.RoleAggregated)
	if pool.Ready == 0 {
		return least, false
	}
	if itl, _, keeps := e.shared(need, need.rate/float64(pool.Ready)); keeps {
		return itl, true
	}
	return least, false
}
