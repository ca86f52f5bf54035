package policy

import (
	"fmt"
	"math"
	"slices"

	"plimsoll/engine"
	"plimsoll/planner"
	"plimsoll/profile"
)

// demand is a load: requests per second and what they are like.
type demand struct {
	rate    float64 // requests/s
	backlog float64 // requests/s more, to be rid of what waits
	queued  queued  // the backlog of each pool, of which sizing takes its own
	prompts float64 // requests/s to size for where prompts are computed, surprises included
	answers float64 // and where answers are
	isl     float64 // tokens, mean
	osl     float64
	hit     float64 // share of a prompt's tokens that a prefix cache holds, 0 to mostCacheHit
	spread2 float64 // squared coefficient of variation of ISL
	varies  bool    // spread2 was seen, rather than assumed
}

// all is what is to be served in requests/s.
func (d demand) all() float64 { return d.rate + d.backlog }

// none reports that nothing is to be served.
func (d demand) none() bool { return d.rate == 0 && d.queued == queued{} }

// queued is the backlog by pool, in requests/s.
type queued struct{ prefill, decode, aggregated float64 }

func (q queued) of(role planner.Role) float64 {
	switch role {
	case engine.RolePrefill:
		return q.prefill
	case engine.RoleDecode:
		return q.decode
	default:
		return q.aggregated
	}
}

// prompt is the mean tokens that an engine has to compute of a prompt.
func (d demand) prompt() float64 { return d.isl * (1 - d.hit) }

// sigma is the standard deviation of the logarithm of prompts' lengths.
func (d demand) sigma() float64 { return math.Sqrt(math.Log1p(d.spread2)) }

// context is the mean tokens in KV of a running sequence.
func (d demand) context() float64 { return d.isl + d.osl/2 }

// observe takes the interval in. It is not ok, and Missing is set, where the
// demand cannot be known.
func (p *Default) observe(s planner.Situation, d *planner.Decision) (demand, bool) {
	arrivals, how := p.arrivals(s.Observation)
	p.m.InSystem = inSystem(s.Observation)
	if how == "" || s.Length <= 0 {
		d.Missing = append(d.Missing, "arrivals (or finished, running and waiting requests)")
		p.o.Rate.Observe(math.NaN())
		p.o.ISLs.Observe(math.NaN())
		p.o.OSLs.Observe(math.NaN())
		return demand{}, false
	}
	rate := arrivals / s.Length.Seconds()
	p.o.Rate.Observe(rate)
	p.lengths(s)
	p.m.Prompts.see(rate*p.demand(rate).isl, s.Length)
	p.m.Answers.see(rate*p.demand(rate).osl, s.Length)
	if arrivals > 0 || p.m.InSystem.Or(0) > 0 {
		p.m.Idle = 0
	} else {
		p.m.Idle += s.Length
	}
	p.correct(s)
	d.Correction = planner.Correction{Prefill: planner.Known(p.m.Slower.Prefill), Decode: planner.Known(p.m.Slower.Decode)}
	if stat := s.Deployment.SLA.Stat; quantile(stat) > 0 && s.TTFT.Mean.Known && !s.TTFT.At(stat).Known {
		d.Warnings = append(d.Warnings, profile.Warnf("statistic_unseen", "the SLA is by %s, and the source gives means only: the fleet grows by the profile and never shrinks while it is busy; another source, or --sla-stat mean, mends that", stat))
	}
	d.Steps = append(d.Steps, planner.Step{Rule: "observed", Why: fmt.Sprintf("%.4g requests/s (%s)", rate, how)})
	return p.demand(rate), true
}

// demand is a rate with the lengths last seen, or those of the profile.
func (p *Default) demand(rate float64) demand {
	need := demand{rate: rate, prompts: rate, answers: rate, isl: p.m.ISL, osl: p.m.OSL, hit: p.m.CacheHit, spread2: p.m.ISLSpread.Or(1), varies: p.m.ISLSpread.Known}
	if need.isl == 0 {
		need.isl = p.o.ISL
	}
	if need.osl == 0 {
		need.osl = p.o.OSL
	}
	return need
}

// arrivals counts the requests that came. An engine that counts completions
// only shows no demand above what it can serve: what piled up meanwhile is added
// (dynamo#8861). how is empty where nothing is known.
func (p *Default) arrivals(o planner.Observation) (n float64, how string) {
	if usable(o.Arrivals) {
		return o.Arrivals.Value, "counted as they came"
	}
	now := inSystem(o)
	if !usable(o.Finished) || !now.Known || !p.m.InSystem.Known {
		return 0, ""
	}
	return max(0, o.Finished.Value+now.Value-p.m.InSystem.Value), "finished, and what running and waiting grew by"
}

// usable reports whether a figure is a number that requests or tokens can have.
func usable(f planner.Figure[float64]) bool {
	return f.Known && f.Value >= 0 && f.Value < mostOfAnything
}

// mostAhead bounds how many intervals ahead is looked.
const mostAhead = 1000

// mostOfAnything bounds counts of requests and tokens; more is a division by 0.
const mostOfAnything = 1e15

func inSystem(o planner.Observation) planner.Figure[float64] {
	if !usable(o.Running) || !usable(o.Waiting) {
		return planner.Figure[float64]{}
	}
	return planner.Known(o.Running.Value + o.Waiting.Value)
}

// lengths takes in ISL and OSL; an interval without requests has none.
func (p *Default) lengths(s planner.Situation) {
	take := func(f planner.Figure[float64], into *float64, to planner.Forecaster) {
		if !usable(f) || f.Value == 0 {
			to.Observe(math.NaN())
			return
		}
		*into = f.Value
		to.Observe(f.Value)
	}
	take(s.ISL.Mean, &p.m.ISL, p.o.ISLs)
	take(s.OSL.Mean, &p.m.OSL, p.o.OSLs)
	if s.ISL.Count >= enoughRequests && usable(s.ISL.Mean) && usable(s.ISL.P99) && s.ISL.P99.Value >= s.ISL.Mean.Value && s.ISL.Mean.Value > 0 {
		p.m.ISLSpread = planner.Known(spread2(s.ISL.Mean.Value, s.ISL.P99.Value))
	}
	if usable(s.CacheHit) {
		p.m.CacheHit = min(s.CacheHit.Value, mostCacheHit)
	}
}

// backlog is what waits for each pool, to be served until the next decision's replicas
// serve. What waits while a pool's replicas start, unless they are late, is what those
// were asked for. Where pools do not say what waits for them it is all there is, unless
// some pool starts.
func (p *Default) backlog(s planner.Situation) queued {
	within := (s.Length + p.o.Ahead).Seconds()
	some := slices.ContainsFunc(s.Pools, func(pool planner.PoolObservation) bool { return p.coming(s, pool) })
	each := func(role planner.Role) float64 {
		pool, ok := s.Pool(role)
		switch {
		case !ok || p.coming(s, pool):
			return 0
		case usable(pool.QueueEnd):
			return pool.QueueEnd.Value * float64(pool.Ready) / within
		case usable(s.Waiting) && !some:
			return s.Waiting.Value / within
		}
		return 0
	}
	return queued{each(engine.RolePrefill), each(engine.RoleDecode), each(engine.RoleAggregated)}
}

// surprised adds to a demand what it may be more than forecast until the next
// decision's replicas serve.
func (p *Default) surprised(need *demand, ahead int) {
	prompts, answers := need.rate*need.isl, need.rate*need.osl
	need.prompts = need.rate + p.m.Prompts.above(prompts, p.o.Margin)/need.isl
	need.answers = need.rate + p.m.Answers.above(answers, p.o.Margin)/need.osl
	if p.m.Watched++; p.m.Watched > 1 { // the first interval may have begun before the load
		p.m.Prompts.expect(prompts, ahead)
		p.m.Answers.expect(answers, ahead)
	}
}

// expect is the demand until the next decision's replicas serve.
func (p *Default) expect(s planner.Situation, seen demand, d *planner.Decision) demand {
	ahead := 1 + int(min(math.Ceil(p.o.Ahead.Seconds()/s.Length.Seconds()), mostAhead))
	mean := 0.0
	for h := 1; h <= ahead; h++ {
		v, _ := p.o.Rate.Forecast(h)
		mean = max(mean, v)
	}
	need := seen
	need.rate = mean
	if v, _ := p.o.ISLs.Forecast(1); v > 0 {
		need.isl = v
	}
	if v, _ := p.o.OSLs.Forecast(1); v > 0 {
		need.osl = v
	}
	p.surprised(&need, ahead)
	// A jump is no forecast's: what was just seen is the least that comes.
	need.prompts = max(need.prompts, seen.rate*seen.isl/need.isl)
	need.answers = max(need.answers, seen.rate*seen.osl/need.osl)
	if p.m.Idle >= p.o.IdleFor && mean*p.o.IdleFor.Seconds() < 1 {
		need.rate, need.prompts, need.answers = 0, 0, 0 // the margin of errors long ago is no reason to stay
	}
	need.queued = p.backlog(s)
	high := max(need.prompts, need.answers)
	d.Forecast = planner.Demand{Rate: planner.Known(mean), High: planner.Known(high), ISL: planner.Known(need.isl), OSL: planner.Known(need.osl)}
	d.Steps = append(d.Steps, planner.Step{Rule: "forecast", Why: fmt.Sprintf("%.4g requests/s within the next %d intervals, %.4g with the margin, ISL %.4g, OSL %.4g", mean, ahead, high, need.isl, need.osl)})
	return need
}
