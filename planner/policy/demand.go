package policy

import (
	"fmt"
	"math"

	"plimsoll/planner"
)

// demand is a load: requests per second and what they are like.
type demand struct {
	rate    float64 // requests/s
	backlog float64 // requests/s more, to be rid of what waits within an interval
	isl     float64 // tokens, mean
	osl     float64
	spread2 float64 // squared coefficient of variation of ISL
}

// context is the mean tokens in KV of a running sequence.
func (d demand) context() float64 { return d.isl + d.osl/2 }

// observe takes the interval in. It is not ok, and Missing is set, where the
// demand cannot be known.
func (p *Default) observe(s planner.Situation, d *planner.Decision) (demand, bool) {
	arrivals, how := p.arrivals(s.Observation)
	p.m.InSystem = inSystem(s.Observation)
	if how == "" {
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
	d.Steps = append(d.Steps, planner.Step{Rule: "observed", Why: fmt.Sprintf("%.4g requests/s (%s)", rate, how)})
	return p.demand(rate), true
}

// demand is a rate with the lengths last seen, or those of the profile.
func (p *Default) demand(rate float64) demand {
	need := demand{rate: rate, isl: p.m.ISL, osl: p.m.OSL, spread2: p.m.ISLSpread}
	if need.isl == 0 {
		need.isl = p.o.ISL
	}
	if need.osl == 0 {
		need.osl = p.o.OSL
	}
	if need.spread2 == 0 {
		need.spread2 = 1
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
	if s.ISL.Mean.Known && s.ISL.P99.Known {
		p.m.ISLSpread = spread2(s.ISL.Mean.Value, s.ISL.P99.Value)
	}
}

// expect is the demand until the next decision's replicas serve.
func (p *Default) expect(s planner.Situation, seen demand, d *planner.Decision) demand {
	ahead := 1 + int(math.Ceil(p.o.Ahead.Seconds()/s.Length.Seconds()))
	mean, high := 0.0, 0.0
	for h := 1; h <= ahead; h++ {
		v, sd := p.o.Rate.Forecast(h)
		mean, high = max(mean, v), max(high, v+p.o.Margin*sd)
	}
	need := seen
	need.rate = high
	if usable(s.Waiting) {
		need.backlog = s.Waiting.Value / s.Length.Seconds()
	}
	if v, _ := p.o.ISLs.Forecast(1); v > 0 {
		need.isl = v
	}
	if v, _ := p.o.OSLs.Forecast(1); v > 0 {
		need.osl = v
	}
	if need.rate == 0 && need.backlog > 0 {
		need.rate = need.backlog
	}
	d.Forecast = planner.Demand{Rate: planner.Known(mean), High: planner.Known(high), ISL: planner.Known(need.isl), OSL: planner.Known(need.osl)}
	d.Steps = append(d.Steps, planner.Step{Rule: "forecast", Why: fmt.Sprintf("%.4g requests/s within the next %d intervals, %.4g with the margin, ISL %.4g, OSL %.4g", mean, ahead, high, need.isl, need.osl)})
	return need
}
