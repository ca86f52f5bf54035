package main

import (
	"fmt"
	"time"

	"plimsoll/capacity"
	"plimsoll/capacity/prices"
	"plimsoll/engine"
	"plimsoll/engine/field"
	"plimsoll/engine/sim/build"
	"plimsoll/profile"
	"plimsoll/profile/trace"
)

// chooseEngines gives engines that nobody named the layout of capacity plan's first row
// for the load, and its mode where nobody named that.
func (o *replayOptions) chooseEngines(f loadFacts, say func(string)) ([]profile.Warning, error) {
	plan, err := o.planFor(f)
	if err != nil {
		return nil, err
	}
	plan.progress = say
	z, err := plan.chosen()
	if err != nil {
		hint := "--tp says which"
		if o.deployment().Budget.Max >= 0 {
			hint = "a larger --max-gpu-budget, or --tp, which says which"
		}
		return nil, field.WithHint(fmt.Errorf("choosing engines for the load: %w", err), "%s", hint)
	}
	best := z.plans[0]
	is := fmt.Sprintf("the first row of capacity plan for %s; %s%s", z.traffic.Words, engine.Count(best.TotalGPUsFinal, "GPU"), hourly(best.HourlyUSD))
	var warnings []profile.Warning
	if why := best.Infeasible; why != nil {
		is = "nearest to the SLA; no layout holds it"
		warnings = append(warnings, profile.Warnf("sla_not_held", "no layout holds the SLA for 99 %% of these requests, with any number of engines. %s comes nearest: %s", best.Layout, why.Why))
	}
	if o.planned, err = z.surfaces(); err != nil {
		return nil, err
	}
	o.engines = &best.candidate.engines
	if o.fleet.Limits.MaxModelLen == 0 {
		is += fmt.Sprintf("; --max-model-len %d", plan.fleet.Limits.MaxModelLen)
	}
	o.chosen = fmt.Sprintf("%s (%s): %s", best.Layout, best.Strategy, is)
	if o.anyMode() {
		if err := o.context.Set("mode", string(best.Strategy)); err != nil {
			return nil, err
		}
	}
	return warnings, o.resettle()
}

// anyMode reports whether the engines to choose may be of either mode: no flag says which,
// or names the pools.
func (o replayOptions) anyMode() bool {
	return o.choose && !o.context.IsSet("mode") && !o.context.IsSet("start-replicas")
}

// planFor asks what capacity plan is asked for the load: of a trace its own requests,
// else Poisson arrivals at the rate of the busiest minute.
func (o replayOptions) planFor(f loadFacts) (capacityOptions, error) {
	d := o.deployment()
	c := capacityOptions{
		demand: demand{workload: f.peak(), slo: capacity.SLO{TTFT: d.SLA.TTFT, ITL: d.SLA.ITL}, stats: f.stats},
		fleet:  o.fleet, strategy: capacity.Disaggregated, maxEngine: mostEngineGPUs, seed: o.seed,
	}
	model, _, err := build.FindModel(o.fleet)
	if err != nil {
		return c, err
	}
	c.gpus = []string{model.GPU.Name}
	if c.money.table, err = prices.Default(); err != nil {
		return c, err
	}
	c.money.kind = prices.OnDemand
	switch {
	case o.anyMode():
		c.strategy = capacity.Auto
	case d.Aggregated():
		c.strategy = capacity.Aggregated
	}
	if d.Budget.Max >= 0 {
		c.maxEngine = min(c.maxEngine, max(1, d.Budget.Max/len(d.Pools)))
	}
	if o.load.arrivals.file != "" && f.stats.Requests <= mostPlanned {
		if c.arrivals, err = o.load.collected(); err != nil {
			return c, err
		}
		if _, err := capacity.RecordedTraffic(c.arrivals, c.stats); err != nil { // too few to tell 99 %
			c.arrivals = nil
		}
	}
	c.workload.Prefixes = o.load.arrivals.spec.Prefixes
	if o.fleet.Caching {
		c.caches = c.shared()
		c.caches.router, c.caches.dram = o.fleet.Router, o.fleet.DRAM
	}
	if c.fleet.Limits.MaxModelLen == 0 {
		longest, err := o.longestRequest(o.load.span(f))
		if err != nil {
			return c, err
		}
		c.fleet.Limits.MaxModelLen = min(model.Model.MaxContext, build.RoundContext(longest))
	}
	return c, nil
}

// mostPlanned bounds the requests of a trace by which engines are chosen, which then takes
// half a minute. For a longer trace its busiest minute is used.
const mostPlanned = 200_000

// longestRequest is the most tokens of a request, prompt and output together, under
// any seed.
func (o replayOptions) longestRequest(span time.Duration) (n int, err error) {
	for i := range o.seeds {
		for q := range o.load.requests(o.seed+uint64(i), span, &err) { //nolint:gosec // a seed's number is not negative
			n = max(n, q.ISL+q.OSL)
		}
	}
	return n, err
}

// collected are the load's requests with its own seed.
func (l replayLoad) collected() ([]trace.Arrival, error) {
	open, err := l.arrivals.open(l.blockSize)
	if err != nil {
		return nil, err
	}
	defer open.close()
	out, err := collected(open.trace)
	if err != nil {
		return nil, field.Errorf("%s", ofTrace(err))
	}
	return out, nil
}

// peak is the load's busiest minute as a workload, with log-normal lengths.
func (f loadFacts) peak() capacity.Workload {
	s := f.stats
	high := func(l trace.LengthStats) float64 { return min(max(l.P99, l.Mean), mostSpread*l.Mean) }
	return capacity.Workload{
		Rate: max(float64(s.Peaks[0].Requests)/s.Peaks[0].Window.Seconds(), s.Rate), PeakWindow: time.Minute, PeakToAverage: 1, Pattern: trace.Flat,
		ISL: s.ISL.Mean, ISLP99: high(s.ISL), OSL: s.OSL.Mean, OSLP99: high(s.OSL),
	}
}

// mostSpread is how many times the mean the 99th percentile of log-normal lengths can be:
// e^(z²/2) with z = 2.326, a little less.
const mostSpread = 14
