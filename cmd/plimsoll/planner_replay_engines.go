package main

import (
	"fmt"
	"strings"
	"time"

	"plimsoll/capacity"
	"plimsoll/engine"
	"plimsoll/engine/field"
	"plimsoll/engine/sim/build"
	"plimsoll/engine/sim/fleet"
	"plimsoll/profile"
	"plimsoll/profile/trace"
)

// tensorSizes are those that capacity plan compares where nobody names one.
func tensorSizes() []int { return []int{1, 2, 4, 8} }

// smallest is the source of the least size that fits. It stands in until the load is
// known, which the choice depends on.
func (o *replayOptions) smallest() (s build.Model, err error) {
	if len(o.sizes) == 0 {
		return build.NewModel(o.fleet)
	}
	for _, n := range o.sizes {
		f := o.fleet.Sized(n, build.ContextStep)
		if s, err = build.NewModel(f); err == nil {
			o.fleet = f
			return s, nil
		}
	}
	return s, err
}

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

// chooseEngines gives engines that nobody named the tensor-parallel size of the cheapest
// fleet that holds the SLA at the load's peak, as capacity plan does.
func (o *replayOptions) chooseEngines(f loadFacts) ([]profile.Warning, error) {
	if !o.context.IsSet("max-model-len") {
		o.fleet.Limits.MaxModelLen = 0 // smallest's
	}
	longest, err := o.longestRequest(o.load.span(f))
	if err != nil {
		return nil, err
	}
	layouts, left, err := o.layouts(longest)
	if err != nil {
		return nil, err
	}
	traffic, err := f.peak().PeakTraffic()
	if err != nil {
		return nil, fmt.Errorf("choosing --tp for the load: %w", err)
	}
	sla := o.deployment().SLA
	best, sized, err := capacity.Cheapest(layouts, traffic, capacity.SLO{TTFTP99: sla.TTFT, ITLP99: sla.ITL}, capacity.SizeOptions{Seed: o.seed, Rough: true, AtOnce: atOnce})
	if err != nil {
		return nil, field.WithHint(fmt.Errorf("choosing --tp for the load: %w", err), "--tp says it")
	}
	for i, s := range sized {
		if i != best {
			left.add(instead(s), s.Layout.Pools[0].Label)
		}
	}
	chosen := layouts[best][0].Pools[0]
	does := fmt.Sprintf("holds the SLA for 99 %% of requests with the fewest GPUs, %d,", sized[best].GPUs)
	var warnings []profile.Warning
	if why := sized[best].Infeasible; why != nil {
		does = "comes nearest to the SLA, which no size holds,"
		warnings = append(warnings, profile.Warnf("sla_not_held", "no number of engines of any size holds the SLA for 99 %% of requests like these; %s comes nearest: %s", chosen.Label, why.Why))
	}
	said := o.fleet.Limits.MaxModelLen
	o.fleet = o.fleet.Sized(chosen.GPUs, longest)
	if n := o.fleet.Limits.MaxModelLen; n != said {
		does = fmt.Sprintf("with --max-model-len %d %s", n, does)
	}
	o.chosen = fmt.Sprintf("%s %s at the load's peak of %.4g requests/s%s", chosen.Label, does, traffic.Rate, left)
	return warnings, o.resettle()
}

// instead is what a layout does that was not chosen.
func instead(s capacity.Sized) string {
	switch {
	case s.Infeasible != nil:
		return "SLA not held"
	case s.Replicas == nil:
		return "no fewer GPUs"
	}
	return engine.Count(s.GPUs, "GPU")
}

// reasons are why sizes were not chosen, and which ones.
type reasons []reason

type reason struct {
	why    string
	labels []string
}

func (r *reasons) add(why, label string) {
	for i := range *r {
		if x := &(*r)[i]; x.why == why {
			x.labels = append(x.labels, label)
			return
		}
	}
	*r = append(*r, reason{why, []string{label}})
}

func (r reasons) String() string {
	text := ""
	for _, x := range r {
		text += "; " + strings.Join(x.labels, ", ") + ": " + x.why
	}
	return text
}

// layouts are fleets of each size that fits, and why others are none.
func (o replayOptions) layouts(longest int) (out []capacity.Variants, left reasons, err error) {
	d := o.deployment()
	strategy := capacity.Disaggregated
	if d.Aggregated() {
		strategy = capacity.Aggregated
	}
	for _, n := range o.sizes {
		f := o.fleet.Sized(n, longest)
		if f.Caching { // the peak's prompts share nothing
			f.Caching, f.Router, f.DRAM, f.NVMe = false, fleet.LeastLoaded, build.KVTier{}, build.KVTier{}
		}
		all, err := f.Build()
		if err != nil {
			left.add("no room for the model", f.Parallelism.Label())
			continue
		}
		if pair := n * len(d.Pools); d.Budget.Max >= 0 && pair > d.Budget.Max {
			left.add("beyond the budget", f.Parallelism.Label())
			continue
		}
		l := capacity.Layout{Strategy: strategy, Transfer: all.Transfer}
		for i, p := range all.Pools {
			l.Pools = append(l.Pools, capacity.EnginePool{Pool: p, Label: all.Labels[i], GPU: all.GPU, USDPerGPUHour: 1})
		}
		out = append(out, capacity.Variants{l})
	}
	if len(out) == 0 {
		return nil, left, field.Errorf("no tensor-parallel size serves%s", left).Hint("a larger --max-gpu-budget")
	}
	return out, left, nil
}

// peak is the load's busiest minute as a workload, with log-normal lengths.
func (f loadFacts) peak() capacity.Workload {
	s := f.stats
	high := func(l trace.LengthStats) float64 { return min(max(l.P99, l.Mean), mostSpread*l.Mean) }
	return capacity.Workload{
		PeakQPS: max(float64(s.Peaks[0].Requests)/s.Peaks[0].Window.Seconds(), s.Rate), PeakWindow: time.Minute, PeakToAverage: 1, Pattern: trace.Flat,
		AvgISL: s.ISL.Mean, P99ISL: high(s.ISL), AvgOSL: s.OSL.Mean, P99OSL: high(s.OSL),
	}
}

// mostSpread is how many times the mean the 99th percentile of log-normal lengths can be:
// e^(z²/2) with z = 2.326, a little less.
const mostSpread = 14
