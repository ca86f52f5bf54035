package main

import (
	"fmt"
	"slices"
	"strings"

	"plimsoll/capacity"
	"plimsoll/capacity/prices"
	"plimsoll/engine"
	"plimsoll/engine/catalog"
	dep "plimsoll/engine/deployment"
	"plimsoll/engine/field"
	"plimsoll/engine/sim/build"
	"plimsoll/engine/sim/fleet"
	"plimsoll/profile"
)

// candidate is a layout that a plan may have, and what its step times are worth.
type candidate struct {
	layout     capacity.Layout
	engines    build.Pair     // of its pools; zero = a profile's
	off        engine.Factors // in nine of ten comparisons steps are within them; zero = not known
	provenance profile.Provenance
	source     string   // of the step times
	defaults   string   // of the engine, as they count; empty = a profile's
	prices     []string // where they are from
	tokens     int      // of one step, as the engine is told; 0 = not known

	parallelism engine.Parallelism // of an aggregated one
	kv          engine.DType       // storage of the KV cache; "" = BF16
	warnings    []profile.Warning

	// chunked are the same with other tokens in a step, among them this one, the first:
	// its engine's own. nil = that is not searched.
	chunked []candidate
	kept    *planChunk // of a profile; nil = another source, or prefill and decode apart

	// build makes the layout otherwise: steps so many times as long, and with other caches.
	build func(by engine.Factors, c caches) (capacity.Layout, error)
}

// caches are what engines keep of prompts, and how requests find it.
type caches struct {
	reuse  bool // of prompts that begin alike
	router fleet.Router
	dram   build.KVTier // below the GPU's; zero = none
}

// candidates are the layouts of a plan, in the order of capacity.Preferred, and why others
// are none.
func (o capacityOptions) candidates() ([]candidate, []profile.Skip, error) {
	cs, skips, err := o.layouts()
	for i := range cs {
		cs[i].warnings = slices.Concat(cs[i].warnings, spotWarnings(o.spotDecode, o.money.kind), o.money.onePrice(o.gpus))
	}
	slices.SortStableFunc(cs, func(a, b candidate) int { return capacity.Preferred(a.layout, b.layout) })
	return cs, skips, err
}

// spotWarnings say what a price at spot is for.
func spotWarnings(decode bool, kind prices.Kind) []profile.Warning {
	switch {
	case decode:
		return []profile.Warning{profile.Warnf("spot", "decode GPUs have spot prices and can be taken back at any time. The plan shows the effect of interruptions")}
	case kind == prices.Spot:
		return []profile.Warning{profile.Warnf("spot", "GPUs have spot prices and can be taken back at any time. This plan includes no interruptions")}
	}
	return nil
}

func (o capacityOptions) layouts() ([]candidate, []profile.Skip, error) {
	if o.fleet.Profile != "" {
		return o.profiled()
	}
	cat, m, err := catalogModel(o.fleet)
	if err != nil {
		return nil, nil, err
	}
	if o.fleet.Limits.MaxModelLen, err = o.modelLen(m); err != nil {
		return nil, nil, err
	}
	var out []candidate
	var skips []profile.Skip
	for _, gpu := range o.gpus {
		sources, refused := o.engines(m, gpu)
		if len(o.gpus)*len(o.asked) == 1 && len(refused) == 1 {
			return nil, nil, refused[0].Err
		}
		for _, r := range refused {
			label := r.Parallelism.Label()
			said := strings.NewReplacer(fmt.Sprintf("%s on %d × %s: ", m.Name, r.Parallelism.GPUs(), gpu), "", m.Name+" at "+label+": ", "") // which is said anyway
			skips = append(skips, profile.Skip{Label: label + " on " + gpu, Reason: said.Replace(r.Err.Error())})
		}
		for _, s := range sources {
			cs, err := o.modelled(s)
			if err != nil {
				return nil, nil, err
			}
			f := o.fleet
			f.GPU, f.Parallelism = gpu, s.Config.Parallelism
			if err := o.addChunks(cs, f); err != nil {
				return nil, nil, err
			}
			out = append(out, cs...)
		}
	}
	if len(out) == 0 {
		return nil, skips, field.Errorf("no GPU asked for holds %s: %s", o.fleet.Model, skips[0].Reason).Hint("%s", o.whatHolds(o.fleet, cat, m))
	}
	return out, skips, nil
}

// engines are those of a model on one GPU that have room for its requests, and why
// other layouts have none: profile-sla's candidates. A latency model that does not
// tell experts that are spread over the ranks of TP from those cut by it makes the
// same plan of both, so that one is left out.
func (o capacityOptions) engines(m catalog.Model, gpu string) ([]build.Model, []dep.Refusal) {
	layouts, refused := o.asked, []dep.Refusal(nil)
	if layouts == nil {
		layouts, refused = dep.Layouts(&m, true, o.maxEngine, dep.StorageOf(o.fleet.Weights, "", m).Weights)
	}
	sources, most := map[engine.Parallelism]build.Model{}, o.maxEngine
	for _, p := range o.asked {
		most = max(most, p.GPUs())
	}
	cs, unfit := dep.Candidates(engine.Config{}, most, layouts, func(c engine.Config) error {
		p := c.Parallelism
		if cut := engine.TP(p.TP); o.asked == nil && p.EP > 1 && p.DP == 1 && slices.Contains(layouts, cut) {
			return fmt.Errorf("the latency model cannot distinguish it from %s", cut.Label())
		}
		f := o.fleet
		f.GPU, f.Parallelism = gpu, p
		s, err := build.NewModel(f)
		sources[p] = s
		return err
	})
	refused = append(refused, unfit...)
	dep.ByGPUs(refused)
	out := make([]build.Model, 0, len(cs))
	for _, c := range cs {
		out = append(out, sources[c.Parallelism])
	}
	return out, refused
}

// modelLen is the prompt and output together that engines have to hold: what was
// asked for, or the longest request that comes, as far as the model takes it.
func (o capacityOptions) modelLen(m catalog.Model) (int, error) {
	if n := o.fleet.Limits.MaxModelLen; n > m.MaxContext {
		return 0, field.Errorf("--max-model-len %d: %s takes %d at most", n, m.Name, m.MaxContext)
	} else if n > 0 {
		return n, nil
	}
	t, err := o.traffic()
	if err != nil {
		return 0, err
	}
	longest, err := t.Longest(o.seed)
	return min(m.MaxContext, build.RoundContext(longest)), err
}

// whatHolds names GPUs of the catalog that hold the model and a request.
func (d demand) whatHolds(f build.Options, cat catalog.Catalog, m catalog.Model) string {
	limits, stored := f.Limits, dep.StorageOf(f.Weights, f.KV, m)
	limits.MaxModelLen = max(limits.MaxModelLen, int(d.longest()))
	fit, _ := build.LoadFit(field.Fit, f.Fit) // it was loaded before
	layouts, _ := dep.Layouts(&m, true, 2*catalog.UsualPerNode, stored.Weights)
	var names []string
	for _, g := range cat.GPUs() {
		for _, p := range layouts {
			c := engine.Config{Parallelism: p, Nodes: g.Nodes(p), Weights: stored.Weights, KV: stored.KV, Limits: limits, MemoryFraction: f.MemoryFraction, Release: fit.Release()}
			if dep.Room(m, &g, c) == nil {
				names = append(names, fmt.Sprintf("%d × %s (%s)", p.GPUs(), g.Name, c.Label()))
				break
			}
		}
	}
	if len(names) == 0 {
		return fmt.Sprintf("no GPU of the catalog holds it on up to %d GPUs in %s: --weights fp8 or fp4 takes less", 2*catalog.UsualPerNode, stored.Weights)
	}
	return "these hold it: " + strings.Join(names, ", ")
}

// modelled are the layouts of one engine by the latency model.
func (o capacityOptions) modelled(s build.Model) ([]candidate, error) {
	both := build.Pair{Prefill: s, Decode: s}
	each := s.Config.Nodes.Of(s.Config.GPUs())
	first := o.money.of(s.GPU.Name, each)
	decode, spot := o.decodePrice(s.GPU.Name, each, first)
	build := func(strategy capacity.Strategy, by engine.Factors, c caches) (capacity.Layout, error) {
		s := s
		if by != (engine.Factors{}) {
			s.Latency = s.Latency.Slower(by)
		}
		return layoutOf(s, strategy, s.GPU.Name, [...]offer{first, decode}, c)
	}
	var out []candidate
	for _, strategy := range strategiesOf(o.strategy) {
		l, err := build(strategy, engine.Factors{}, o.caches)
		if err != nil {
			return nil, err
		}
		out = append(out, candidate{
			layout: l, engines: both, build: func(by engine.Factors, c caches) (capacity.Layout, error) { return build(strategy, by, c) },
			tokens: s.Config.Limits.MaxNumBatchedTokens, parallelism: s.Config.Parallelism, kv: s.Config.KV, off: engine.FactorsOf(s.Latency.TTFTError().Factor90, s.Latency.ITLError().Factor90), provenance: profile.Estimated,
			source: "latency model, fit " + s.Latency.Fit().Name + s.Storage.Phrase(), prices: append([]string{s.GPU.Name + ": " + first.words()}, spot...),
			defaults: s.Defaults,
			warnings: slices.Concat(s.Storage.Warnings, dep.ModelWarnings(s.Latency, s.Config), dep.FitWarnings(s.Latency.Fit(), s.GPU.Name, int(o.workload.ISLP99), int(o.workload.OSLP99)), dep.EngineWarnings(s.Latency, o.caches.reuse)),
		})
	}
	return out, nil
}

// profiled are the layouts of a profile's picks.
func (o capacityOptions) profiled() ([]candidate, []profile.Skip, error) {
	var out []candidate
	var skips []profile.Skip
	var refused error // of the first strategy that was left out
	for _, strategy := range strategiesOf(o.strategy) {
		f := o.fleet
		if strategy == capacity.Aggregated {
			f.Replicas = 1
		}
		s, err := build.ReadProfile(f)
		if err != nil {
			if refused == nil {
				refused = err
			}
			skips = append(skips, profile.Skip{Label: string(strategy), Reason: err.Error()})
			continue
		}
		_, prefill := s.Pick(engine.RolePrefill)
		_, decode := s.Pick(engine.RoleDecode)
		first := o.money.of(s.Recommendation.GPU, max(prefill.Nodes.Of(prefill.GPUs), decode.Nodes.Of(decode.GPUs)))
		second, spot := o.decodePrice(s.Recommendation.GPU, decode.Nodes.Of(decode.GPUs), first)
		ttft, itl := s.ModelErrors()
		build := func(by engine.Factors, c caches) (capacity.Layout, error) {
			s := s
			if by != (engine.Factors{}) {
				f := f
				f.Slower = by
				if s, err = build.ReadProfile(f); err != nil {
					return capacity.Layout{}, err
				}
			}
			return layoutOf(s, strategy, s.Recommendation.GPU, [...]offer{first, second}, c)
		}
		l, err := build(engine.Factors{}, o.caches)
		if err != nil {
			return nil, nil, err
		}
		c := candidate{layout: l, build: build, kv: s.KV(), off: engine.FactorsOf(ttft.Factor90, itl.Factor90), provenance: s.Steps.Provenance(), source: fmt.Sprintf("profile %s (%s)", s.Dir, s.Recommendation.Provenance), prices: append([]string{s.Recommendation.GPU + ": " + first.words()}, spot...), warnings: profile.ImplausibleFirst(slices.Concat(s.Assumed(), s.Caveats(o.slo.SLA().Stat), s.FitWarnings(int(o.workload.ISLP99), int(o.workload.OSLP99))))}
		if strategy == capacity.Aggregated {
			c.kept = keptChunk(s, l)
		}
		out = append(out, c)
	}
	if len(out) == 0 {
		return nil, nil, refused
	}
	return out, skips, nil
}

// decodePrice is that of the decode pool's GPUs, spot's where it is asked for, and
// where that is from.
func (o capacityOptions) decodePrice(gpu string, gpus int, other offer) (offer, []string) {
	if !o.spotDecode {
		return other, nil
	}
	m := o.money
	m.kind = prices.Spot
	spot := m.of(gpu, gpus)
	return spot, []string{"decode on " + gpu + ": " + spot.words()}
}

// layoutOf is a source's engines in pools.
func layoutOf(s build.Source, strategy capacity.Strategy, gpu string, offers [2]offer, c caches) (capacity.Layout, error) {
	l := capacity.Layout{Strategy: strategy}
	roles := []engine.Role{engine.RoleAggregated}
	if strategy == capacity.Disaggregated {
		roles = []engine.Role{engine.RolePrefill, engine.RoleDecode}
	}
	for i, role := range roles {
		p, err := s.Pool(role)
		if err != nil {
			return l, err
		}
		p.Router = fleet.LeastLoaded
		if i == 0 && c.reuse {
			p.Engine.PrefixCaching, p.Router = true, c.router
			p.Engine.DRAM = c.dram.Tier(s.KVBytes(), max(1, p.Engine.Limits.BlockSize))
		}
		l.Pools = append(l.Pools, capacity.EnginePool{Pool: p, Label: s.Label(role), GPU: gpu, FromDataSheet: s.FromDataSheet(), USDPerGPUHour: offers[i].usd, InstanceGPUs: offers[i].instance})
	}
	if strategy == capacity.Disaggregated {
		l.Transfer = fleet.Transfer{KV: s.KVBytes(), BytesPerSecond: linkGBs * 1e9 * float64(l.Pools[0].GPUs), Serial: true}
	}
	return l, nil
}

func strategiesOf(asked capacity.Strategy) []capacity.Strategy {
	if asked == capacity.Auto {
		return []capacity.Strategy{capacity.Disaggregated, capacity.Aggregated}
	}
	return []capacity.Strategy{asked}
}

// addChunks gives the aggregated ones of candidates the tokens of a step that are
// tried, unless they are asked for.
func (o capacityOptions) addChunks(cs []candidate, f build.Options) error {
	i := slices.IndexFunc(cs, func(c candidate) bool { return c.layout.Strategy == capacity.Aggregated })
	if i < 0 || f.Limits.MaxNumBatchedTokens > 0 {
		return nil
	}
	own := cs[i]
	o.strategy, cs[i].chunked = capacity.Aggregated, []candidate{own}
	for _, f.Limits.MaxNumBatchedTokens = range capacity.Chunks() {
		s, err := build.NewModel(f)
		if err != nil || f.Limits.MaxNumBatchedTokens < f.Limits.MaxNumSeqs || s.Config.Limits.MaxNumBatchedTokens == own.tokens {
			continue // its activations have no room, or it is no other one
		}
		other, err := o.modelled(s)
		if err != nil {
			return err
		}
		other[0].layout.Chunk = other[0].tokens
		cs[i].chunked = append(cs[i].chunked, other[0])
	}
	return nil
}

func (c candidate) variants() capacity.Variants {
	if c.chunked == nil {
		return capacity.Variants{c.layout}
	}
	var out capacity.Variants
	for _, v := range c.chunked {
		out = append(out, v.layout)
	}
	return out
}

// chosen is the candidate as it was sized.
func (c candidate) chosen(s capacity.Sized) candidate {
	if s.Variation == nil {
		return c
	}
	v := c.chunked[s.Variation.At]
	v.chunked, v.warnings, v.defaults = c.chunked, c.warnings, c.defaults
	return v
}

// slower is the candidate with steps so many times as long.
func (c candidate) slower(by engine.Factors, keep caches) (candidate, error) {
	all := slices.Clone(c.chunked)
	for i := range all {
		v, err := candidate{layout: all[i].layout, build: all[i].build}.slower(by, keep)
		if err != nil {
			return c, err
		}
		all[i].layout = v.layout
	}
	l, err := c.build(by, keep)
	l.Chunk = c.layout.Chunk
	c.layout, c.chunked = l, all
	return c, err
}
