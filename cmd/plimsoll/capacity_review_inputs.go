package main

import (
	"fmt"

	"plimsoll/capacity"
	"plimsoll/capacity/prices"
	"plimsoll/engine"
	"plimsoll/engine/sim/build"
	"plimsoll/engine/sim/fleet"
	"plimsoll/profile"
)

// check says what capacity plan never writes.
func (p *planCaches) check() error {
	if p == nil || !p.Reuse {
		return nil
	}
	if _, err := fleet.ParseRouter(string(p.Router)); err != nil {
		return fmt.Errorf("inputs.caches: %w", err)
	}
	if p.DRAMBytes < 0 || p.DRAMBytes > 1e9*(1<<30) || p.DRAMBytes > 0 && !(p.DRAMPerSecond > 0 && p.DRAMPerSecond <= 1e15) {
		return fmt.Errorf("inputs.caches: %v bytes of DRAM at %v bytes/s: want 0 or more, at a speed above 0", p.DRAMBytes, p.DRAMPerSecond)
	}
	return nil
}

// remade are the plan's engines, for requests as long as those that came; for
// the plan's own where its GPUs have no room for longer ones.
func (r *review) remade(o capacityOptions) ([]candidate, error) {
	planned := 0
	for _, pool := range r.plan.Pools {
		planned = max(planned, pool.MaxModelLen)
	}
	cs, _, err := o.candidates()
	if err != nil && planned > 0 {
		o.fleet.Limits.MaxModelLen = planned
		cs, _, err = o.candidates()
	}
	if err != nil {
		return nil, fmt.Errorf("%s: making its engines again: %w", r.file, err)
	}
	if n := cs[0].layout.Pools[0].Engine.Limits.MaxModelLen; r.seen == nil && planned > 0 && n > planned {
		r.warn("longer_requests", "requests of up to %d tokens came, the plan's engines hold %d: sized with --max-model-len %d", n, planned, n)
	}
	return cs, nil
}

// options are those of the plan, its layout alone, for what came.
func (r *review) options() capacityOptions {
	in := r.plans.Inputs
	o := capacityOptions{
		demand: r.demand, money: money{said: prices.Fixed(float64(r.plan.HourlyUSD) / float64(max(r.plan.BilledGPUs, r.plan.TotalGPUsFinal)))},
		fleet:    build.Options{Profile: in.Profile, Model: in.Model, Catalog: in.Catalog, Fit: in.Fit, Weights: in.Weights, Limits: engine.Limits{MaxNumSeqs: in.MaxNumSeqs, MaxNumBatchedTokens: in.MaxNumBatchedTokens}},
		strategy: r.plan.Strategy, seed: in.Seed, caches: r.caches(),
	}
	if r.plan.Chunk != nil {
		o.fleet.Limits.MaxNumBatchedTokens = r.plan.Chunk.Tokens
	}
	for _, pool := range r.plan.Pools {
		layout, err := engine.ParseParallelism(pool.Engine)
		if err != nil {
			layout = engine.TP(gpusPerEngine(pool))
		}
		o.gpus, o.asked = append(o.gpus, pool.GPU), append(o.asked, layout)
		o.maxEngine = max(o.maxEngine, layout.GPUs())
	}
	o.gpus, o.asked = distinct(o.gpus), distinct(o.asked)
	return o
}

// pricedAsPlanned gives a candidate the prices and instances of the plan, where it
// says them.
func (r *review) pricedAsPlanned(c *candidate) {
	c.prices = r.plan.Prices
	for i, p := range r.plan.Pools {
		if p.USDPerGPUHour == 0 && r.plan.HourlyUSD > 0 {
			if r.plan.BilledGPUs > r.plan.TotalGPUsFinal {
				r.warn("instances_unknown", "%s does not say in what instances its GPUs are rented, an earlier version wrote it: money is for single GPUs", r.file)
			}
			return
		}
		c.layout.Pools[i].USDPerGPUHour, c.layout.Pools[i].InstanceGPUs = p.USDPerGPUHour, p.InstanceGPUs
	}
}

// caches are those that the plan was sized with. Of a plan that does not say it,
// the way that requests take does: none is routed by caches that are not there.
func (r *review) caches() caches {
	p := r.plans.Inputs.Caches
	switch {
	case p == nil && r.plan.Pools[0].Router != fleet.KVAware:
		return caches{}
	case p == nil:
		r.warn("caches_unknown", "%s does not say what its engines keep of prompts, an earlier version wrote it: taken to be what fits beside the weights, without --kv-dram", r.file)
		p = &planCaches{Reuse: true, Router: fleet.KVAware}
	case !p.Reuse:
		return caches{}
	}
	r.sayWhatIsShared()
	return caches{reuse: true, router: p.Router, dram: build.KVTier{Bytes: p.DRAMBytes, BytesPerSecond: p.DRAMPerSecond}}
}

// sayWhatIsShared tells where the traffic's sharing is not known: the plan counts
// on it.
func (r *review) sayWhatIsShared() {
	shared := r.plans.Workload.Prefixes
	switch {
	case r.seen == nil && r.stats.Blocks.Blocks == 0:
		r.warn("prefixes_unknown", "the trace does not say which prompts begin alike, and the plan reuses what they share: without that it takes more GPUs")
	case r.seen != nil && r.workload.Prefixes.Groups > 0:
		r.warn("prefixes_as_planned", "which prompts begin alike is not known: taken as planned, %.0f %% of them, in %d groups, by %d tokens", 100*shared.Share, shared.Groups, r.workload.Prefixes.Tokens)
	case r.seen != nil:
		r.warn("prefixes_unknown", "which prompts begin alike is not known, and the plan reuses what those of its trace share: without that it takes more GPUs; --trace says it")
	}
}

// sharedAsPlanned are the prompts that begin alike in the plan, by no more than the
// mean prompt that came has.
func sharedAsPlanned(planned, came capacity.Workload) capacity.Workload {
	came.Prefixes = planned.Prefixes
	if came.Prefixes.Groups > 0 {
		came.Prefixes.Tokens = min(came.Prefixes.Tokens, max(1, int(came.AvgISL)))
	}
	return came
}

func (r *review) warn(code, format string, args ...any) {
	r.warnings = append(r.warnings, profile.Warnf(code, format, args...))
}
