package policy

import (
	"fmt"
	"math"

	"plimsoll/planner"
	"plimsoll/profile"
)

// demand is a load: requests per second and what they are like.
type demand struct {
	rate    float64 // requests/s
	backlog float64 // requests/s more, to be rid of what waits within an interval
	isl     float64 // tokens, mean
	osl     float64
	hit     float64 // share of a prompt's tokens that a prefix cache holds, 0 to mostCacheHit
	spread2 float64 // squared coefficient of variation of ISL
	varies  bool    // spread2 was seen, rather than assumed
}

// all is what is to be served in requests/s.
func (d demand) all() float64 { return d.rate + d.backlog }

// prompt is the mean tokens that an engine has to compute of a prompt.
func (d demand) prompt() float64 { return d.isl * (1 - d.hit) }

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
	need := demand{rate: rate, isl: p.m.ISL, osl: p.m.OSL, hit: p.m.CacheHit, spread2: p.m.ISLSpread.Or(1), varies: p.m.ISLSpread.Known}
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

// quantiler is a forecaster that knows which way it errs, not only how much.
type quantiler interface {
	Quantile(steps int, prob float64) float64
}

// rateAhead is the rate expected some intervals ahead, and with its margin: the
// quantile of its errors that lies Margin standard deviations out where errors are
// normal. One jump of the load, up or down, makes a standard deviation that is
// large for as long as it is in the window; a quantile has forgotten it at the
// next interval.
func (p *Default) rateAhead(steps int) (mean, high float64) {
	mean, sd := p.o.Rate.Forecast(steps)
	if q, ok := p.o.Rate.(quantiler); ok && p.o.Margin > 0 {
		return mean, max(mean, q.Quantile(steps, (1+math.Erf(p.o.Margin/math.Sqrt2))/2))
	}
	return mean, mean + p.o.Margin*sd
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

// expect is the demand until the next decision's replicas serve.
func (p *Default) expect(s planner.Situation, seen demand, d *planner.Decision) demand {
	ahead := 1 + int(min(math.Ceil(p.o.Ahead.Seconds()/s.Length.Seconds()), mostAhead))
	mean, high := 0.0, 0.0
	for h := 1; h <= ahead; h++ {
		v, above := p.rateAhead(h)
		mean, high = max(mean, v), max(high, above)
	}
	need := seen
	need.rate = high
	if p.m.Idle >= p.o.IdleFor && mean*p.o.IdleFor.Seconds() < 1 {
		need.rate = 0 // the margin of errors long ago is no reason to stay
	}
	if usable(s.Waiting) {
		need.backlog = s.Waiting.Value / s.Length.Seconds()
	}
	if v, _ := p.o.ISLs.Forecast(1); v > 0 {
		need.isl = v
	}
	if v, _ := p.o.OSLs.Forecast(1); v > 0 {
		need.osl = v
	}
	d.Forecast = planner.Demand{Rate: planner.Known(mean), High: planner.Known(high), ISL: planner.Known(need.isl), OSL: planner.Known(need.osl)}
	d.Steps = append(d.Steps, planner.Step{Rule: "forecast", Why: fmt.Sprintf("%.4g requests/s within the next %d intervals, %.4g with the margin, ISL %.4g, OSL %.4g", mean, ahead, high, need.isl, need.osl)})
	return need
}
