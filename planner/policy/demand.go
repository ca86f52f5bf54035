package policy

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"plimsoll/engine"
	"plimsoll/engine/field"
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
	answer2 float64 // squared coefficient of variation of OSL, 0 where it was not seen
	even    float64 // share of how far the crowd goes above its mean that is not sized for
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

// part is so many times a demand as forecast, and a part of what it is sized to beyond
// that: the reserve, what waits, and the fullest moment.
func (d demand) part(sized demand, load, reserve float64) demand {
	forecast := min(d.rate, sized.rate)
	d.rate = load*forecast + reserve*(sized.rate-forecast)
	d.backlog = reserve * sized.backlog
	d.even = 1 - reserve
	return d
}

// prompt is the mean tokens that an engine has to compute of a prompt.
func (d demand) prompt() float64 { return d.isl * (1 - d.hit) }

// sigma is the standard deviation of the logarithm of prompts' lengths.
func (d demand) sigma() float64 { return math.Sqrt(math.Log1p(d.spread2)) }

// context is the mean tokens in KV of a running sequence.
func (d demand) context() float64 { return profile.Context(d.isl, d.osl, d.answer2) }

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
	if arrivals > 0 || p.m.InSystem.Or(1) > 0 { // what is not known may be busy
		p.m.Idle = 0
	} else {
		p.m.Idle += s.Length
	}
	p.correct(s)
	d.Correction = planner.Correction{Prefill: planner.Known(p.m.Slower.Prefill), Decode: planner.Known(p.m.Slower.Decode)}
	if stat := s.Deployment.SLA.Stat; stat.Quantile() > 0 && s.TTFT.Mean.Known && !s.TTFT.At(stat).Known {
		d.Warnings = append(d.Warnings, profile.Warnf("statistic_unseen", "the SLA is by %s, but the source gives only means. The fleet grows by the profile and never shrinks while busy; use another source, or "+field.SLAStat+" mean", stat))
	}
	if w := unclear(s); len(w) > 0 && !slices.Equal(w, p.unclear) {
		d.Warnings, p.unclear = append(d.Warnings, w...), w
	}
	d.Steps = append(d.Steps, planner.Step{Rule: "observed", Why: fmt.Sprintf("%.4g requests/s (%s)", rate, how)})
	return p.demand(rate), true
}

// unclear says which promises a histogram does not tell to be kept or broken.
func unclear(s planner.Situation) (out []profile.Warning) {
	sla := s.Deployment.SLA
	for _, x := range []struct {
		what, sglang string
		at           planner.Percentile[time.Duration]
		limit        time.Duration
	}{{"TTFT", "time-to-first-token", s.TTFT.At(sla.Stat), sla.TTFT}, {"ITL", "inter-token-latency", s.Promised(sla).At(sla.Stat), sla.ITL}} {
		if x.at.Straddles(x.limit) {
			out = append(out, profile.Warnf("wide_bucket", "%s of %s is %v, a bucket of the engines' histogram, so whether %v is kept is not known. The profile decides. Finer buckets tell: vLLM from 0.32 takes --custom-histogram-buckets, SGLang --bucket-%s", stat(sla.Stat), x.what, x.at, x.limit, x.sglang))
		}
	}
	return out
}

// demand is a rate with the lengths last seen, or those of the profile.
func (p *Default) demand(rate float64) demand {
	need := demand{rate: rate, prompts: rate, answers: rate, isl: p.m.ISL, osl: p.m.OSL, hit: p.m.CacheHit, spread2: p.m.ISLSpread.Or(1), varies: p.m.ISLSpread.Known, answer2: p.m.OSLSpread.Or(0)}
	need.isl = cmp.Or(need.isl, p.o.ISL)
	need.osl = cmp.Or(need.osl, p.o.OSL)
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
	varies := func(f planner.Spread[float64], into *planner.Figure[float64]) {
		v, told := f.Variation()
		switch {
		case f.Count < enoughRequests || !usable(f.Mean) || f.Mean.Value == 0:
		case told:
			*into = planner.Known(v)
		case f.P99.Known && f.P99.Value >= f.Mean.Value:
			*into = planner.Known(profile.Spread2(f.Mean.Value, f.P99.Value))
		}
	}
	varies(s.ISL, &p.m.ISLSpread)
	varies(s.OSL, &p.m.OSLSpread)
	if usable(s.CacheHit) {
		p.m.CacheHit = min(s.CacheHit.Value, mostCacheHit)
	}
}

// backlog is what waits for each pool, to be served until the next decision's replicas
// serve. What waits while a pool's replicas start, unless they are late, is what those
// were asked for. Where pools do not say what waits for them it is all there is, unless
// some pool starts.
func (p *Default) backlog(s planner.Situation) queued {
	within := (s.Length + p.ahead(s)).Seconds()
	each := func(role planner.Role) float64 { return p.waits(s, role).Or(0) / within }
	return queued{each(engine.RolePrefill), each(engine.RoleDecode), each(engine.RoleAggregated)}
}

// waits is the requests that wait for a pool.
func (p *Default) waits(s planner.Situation, role planner.Role) planner.Figure[float64] {
	pool, ok := s.Pool(role)
	some := slices.ContainsFunc(s.Pools, func(pool planner.PoolObservation) bool { return p.coming(s, pool) })
	switch {
	case !ok || p.coming(s, pool):
		return planner.Known(0.0)
	case usable(pool.QueueEnd):
		return planner.Known(pool.QueueEnd.Value * float64(pool.Ready))
	case usable(s.Waiting) && (!some || s.Waiting.Value == 0):
		return planner.Known(s.Waiting.Value)
	}
	return planner.Figure[float64]{}
}

// surprised adds to a demand what it may be more than forecast until the next
// decision's replicas serve, or what was just seen: a jump is no forecast's. What
// Poisson arrivals do anyway is in neither.
func (p *Default) surprised(need *demand, seen demand, ahead int, length time.Duration) {
	size := func(x *surprise, tokens, spread2, just float64) float64 {
		load := need.rate * tokens
		n := noise{math.Sqrt(need.rate*(1+spread2)/length.Seconds()) * tokens, ahead}
		most := load + x.above(load, p.o.Margin, n)
		if just > load+byChance*n.each {
			most = max(most, just)
		}
		if p.m.Watched > 1 { // the first interval may have begun before the load
			x.expect(load, ahead)
		}
		return most / tokens
	}
	p.m.Watched++
	need.prompts = size(&p.m.Prompts, need.isl, need.spread2, seen.rate*seen.isl)
	need.answers = size(&p.m.Answers, need.osl, need.answer2, seen.rate*seen.osl)
}

// expect is the demand until the next decision's replicas serve.
func (p *Default) expect(s planner.Situation, seen demand, d *planner.Decision) demand {
	ahead := 1 + int(min(math.Ceil(p.ahead(s).Seconds()/s.Length.Seconds()), mostAhead))
	mean := 0.0
	for h := 1; h <= ahead; h++ {
		mean = max(mean, p.o.Rate.Forecast(h))
	}
	need := seen
	need.rate = mean
	if v := p.o.ISLs.Forecast(1); v > 0 {
		need.isl = v
	}
	if v := p.o.OSLs.Forecast(1); v > 0 {
		need.osl = v
	}
	p.surprised(&need, seen, ahead, s.Length)
	if p.m.Idle >= p.o.IdleFor && mean*p.o.IdleFor.Seconds() < 1 {
		need.rate, need.prompts, need.answers = 0, 0, 0 // the margin of errors long ago is no reason to stay
	}
	need.queued = p.backlog(s)
	high := max(need.prompts, need.answers)
	d.Forecast = planner.Demand{Rate: planner.Known(mean), High: planner.Known(high), ISL: planner.Known(need.isl), OSL: planner.Known(need.osl)}
	d.Steps = append(d.Steps, planner.Step{Rule: "forecast", Why: fmt.Sprintf("%.4g requests/s within the next %s, %.4g with the margin, ISL %.4g, OSL %.4g", mean, engine.Count(ahead, "interval"), high, need.isl, need.osl)})
	return need
}
