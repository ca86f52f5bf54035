package main

import (
	"fmt"
	"slices"
	"strings"

	"plimsoll/capacity"
	"plimsoll/capacity/prices"
	"plimsoll/engine"
	"plimsoll/engine/latency"
	"plimsoll/engine/sim/fleet"
	"plimsoll/profile"
)

// candidate is a layout that a plan may have, and what its step times are worth.
type candidate struct {
	layout     capacity.Layout
	factor     float64 // in nine of ten comparisons steps are within it; 0 = not known
	provenance profile.Provenance
	source     string   // of the step times
	prices     []string // where they are from
	warnings   []profile.Warning

	// build makes the layout otherwise: every step so many times as long, where
	// there is a factor, and with other caches.
	build func(by float64, c caches) (capacity.Layout, error)
}

// caches are what engines keep of prompts, and how requests find it.
type caches struct {
	reuse  bool // of prompts that begin alike
	router fleet.Router
	dram   storage // below the GPU's; zero = none
}

// candidates are the layouts of a plan, and why others are none.
func (o capacityOptions) candidates() ([]candidate, []profile.Skip, error) {
	cs, skips, err := o.layouts()
	for i := range cs {
		cs[i].warnings = slices.Concat(cs[i].warnings, o.spotWarnings())
	}
	return cs, skips, err
}

// spotWarnings say what a price at spot is for.
func (o capacityOptions) spotWarnings() []profile.Warning {
	switch {
	case o.spotDecode:
		return []profile.Warning{profile.Warnf("spot", "decode GPUs are priced at spot: such GPUs are taken back at any time; what interruptions do stands beside the plan")}
	case o.money.fixed == 0 && o.money.kind == prices.Spot:
		return []profile.Warning{profile.Warnf("spot", "GPUs are priced at spot: such GPUs are taken back at any time, and no interruption is in this plan")}
	}
	return nil
}

func (o capacityOptions) layouts() ([]candidate, []profile.Skip, error) {
	if o.fleet.profile != "" {
		return o.profiled()
	}
	var out []candidate
	var skips []profile.Skip
	for _, gpu := range o.gpus {
		for _, tp := range o.tps {
			f := o.fleet
			f.gpu, f.parallelism = gpu, engine.TP(tp)
			s, err := newModelSource(f)
			if err != nil {
				if len(o.gpus)*len(o.tps) == 1 {
					return nil, nil, err
				}
				skips = append(skips, profile.Skip{Label: fmt.Sprintf("%s on %s", f.parallelism.Label(), gpu), Reason: err.Error()})
				continue
			}
			cs, err := o.modelled(s)
			if err != nil {
				return nil, nil, err
			}
			out = append(out, cs...)
		}
	}
	if len(out) == 0 {
		return nil, skips, usagef("no GPU asked for holds %s: %s", o.fleet.model, skips[0].Reason).hint("%s", o.whatHolds())
	}
	return out, skips, nil
}

// whatHolds names GPUs of the catalog that hold the model and a request.
func (o capacityOptions) whatHolds() string {
	cat, err := loadCatalog(o.fleet.catalog)
	if err != nil {
		return err.Error()
	}
	m, err := findModel(cat, o.fleet.model)
	if err != nil {
		return err.Error()
	}
	limits := o.fleet.limits
	limits.MaxModelLen = max(limits.MaxModelLen, int(o.longest()))
	var names []string
	for _, g := range cat.GPUs() {
		for _, tp := range []int{1, 2, 4, 8} {
			if latency.Check(m, g, engine.Config{Parallelism: engine.TP(tp), Weights: storageOf(o.fleet.weights, m).weights, Limits: limits}) == nil {
				names = append(names, fmt.Sprintf("%d × %s", tp, g.Name))
				break
			}
		}
	}
	if len(names) == 0 {
		return "no GPU of the catalog holds it at TP 8 in " + string(storageOf(o.fleet.weights, m).weights) + ": --weights fp8 or fp4 takes less"
	}
	return "these hold it: " + strings.Join(names, ", ")
}

// modelled are the layouts of one engine by the latency model.
func (o capacityOptions) modelled(s modelSource) ([]candidate, error) {
	first, err := o.money.of(s.gpu.Name, s.config.GPUs())
	if err != nil {
		return nil, err
	}
	decode, spot, err := o.decodePrice(s.gpu.Name, s.config.GPUs(), first)
	if err != nil {
		return nil, err
	}
	build := func(strategy capacity.Strategy, by float64, c caches) (capacity.Layout, error) {
		s := s
		if by != 1 {
			s.latency = s.latency.Slower(by)
		}
		return o.layout(s, strategy, s.gpu.Name, [...]offer{first, decode}, c)
	}
	var out []candidate
	for _, strategy := range o.strategies() {
		l, err := build(strategy, 1, o.caches)
		if err != nil {
			return nil, err
		}
		out = append(out, candidate{
			layout: l, build: func(by float64, c caches) (capacity.Layout, error) { return build(strategy, by, c) },
			factor: max(s.latency.TTFTError().Factor90, s.latency.ITLError().Factor90), provenance: profile.Estimated,
			source: "latency model, fit " + s.latency.Fit().Name + s.storage.phrase(), prices: append([]string{s.gpu.Name + ": " + first.words()}, spot...),
			warnings: append(s.storage.warnings, fitWarnings(s.latency.Fit(), s.gpu.Name, int(o.workload.P99ISL), int(o.workload.P99OSL))...),
		})
	}
	return out, nil
}

// profiled are the layouts of a profile's picks.
func (o capacityOptions) profiled() ([]candidate, []profile.Skip, error) {
	var out []candidate
	var skips []profile.Skip
	var refused error // of the first strategy that was left out
	for _, strategy := range o.strategies() {
		f := o.fleet
		if strategy == capacity.Aggregated {
			f.replicas = 1
		}
		s, err := readProfileSource(f)
		if err != nil {
			if refused == nil {
				refused = err
			}
			skips = append(skips, profile.Skip{Label: string(strategy), Reason: err.Error()})
			continue
		}
		_, prefill := s.pick(engine.RolePrefill)
		_, decode := s.pick(engine.RoleDecode)
		first, err := o.money.of(s.rec.GPU, max(prefill.GPUs, decode.GPUs))
		if err != nil {
			return nil, nil, err
		}
		second, spot, err := o.decodePrice(s.rec.GPU, decode.GPUs, first)
		if err != nil {
			return nil, nil, err
		}
		build := func(by float64, c caches) (capacity.Layout, error) {
			s := s
			if by != 1 {
				f := f
				f.slower = by
				if s, err = readProfileSource(f); err != nil {
					return capacity.Layout{}, err
				}
			}
			return o.layout(s, strategy, s.rec.GPU, [...]offer{first, second}, c)
		}
		l, err := build(1, o.caches)
		if err != nil {
			return nil, nil, err
		}
		c := candidate{layout: l, build: build, factor: max(prefill.ModelError.Factor90, decode.ModelError.Factor90), provenance: s.steps.Provenance(), source: fmt.Sprintf("profile %s (%s)", s.dir, s.rec.Provenance), prices: append([]string{s.rec.GPU + ": " + first.words()}, spot...), warnings: slices.Concat(s.caveats(), s.fitWarnings(o.workload))}
		out = append(out, c)
	}
	if len(out) == 0 {
		return nil, nil, refused
	}
	return out, skips, nil
}

// decodePrice is that of the decode pool's GPUs, spot's where it is asked for, and
// where that is from.
func (o capacityOptions) decodePrice(gpu string, gpus int, other offer) (offer, []string, error) {
	if !o.spotDecode {
		return other, nil, nil
	}
	m := o.money
	m.kind = prices.Spot
	spot, err := m.of(gpu, gpus)
	return spot, []string{"decode on " + gpu + ": " + spot.words()}, err
}

// layout is a source's engines in pools.
func (o capacityOptions) layout(s source, strategy capacity.Strategy, gpu string, offers [2]offer, c caches) (capacity.Layout, error) {
	l := capacity.Layout{Strategy: strategy}
	roles := []engine.Role{engine.RoleAggregated}
	if strategy == capacity.Disaggregated {
		roles = []engine.Role{engine.RolePrefill, engine.RoleDecode}
	}
	for i, role := range roles {
		p, err := s.pool(role)
		if err != nil {
			return l, err
		}
		p.Router = fleet.LeastLoaded
		if i == 0 && c.reuse {
			p.Engine.PrefixCaching, p.Router = true, c.router
			p.Engine.DRAM = c.dram.tier(s.kvBytes() * float64(max(1, p.Engine.Limits.BlockSize)))
		}
		l.Pools = append(l.Pools, capacity.EnginePool{Pool: p, Label: s.label(role), GPU: gpu, USDPerGPUHour: offers[i].usd, InstanceGPUs: offers[i].instance})
	}
	if strategy == capacity.Disaggregated {
		l.Transfer = fleet.Transfer{BytesPerToken: s.kvBytes(), BytesPerSecond: linkGBs * 1e9 * float64(l.Pools[0].GPUs), Serial: true}
	}
	return l, nil
}

func (o capacityOptions) strategies() []capacity.Strategy {
	if o.strategy == capacity.Auto {
		return []capacity.Strategy{capacity.Disaggregated, capacity.Aggregated}
	}
	return []capacity.Strategy{o.strategy}
}

// byFloor puts the candidates with the least conceivable cost first, so that
// dearer ones need not be simulated.
func byFloor(cs []candidate, t capacity.Traffic, slo capacity.SLO) {
	slices.SortStableFunc(cs, func(a, b candidate) int {
		x, y := a.layout.FloorUSD(t, slo), b.layout.FloorUSD(t, slo)
		switch {
		case x < y:
			return -1
		case x > y:
			return 1
		}
		return 0
	})
}
