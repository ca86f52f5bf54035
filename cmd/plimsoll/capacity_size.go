package main

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"sync"

	"plimsoll/capacity"
	"plimsoll/engine"
	"plimsoll/engine/sim"
	"plimsoll/profile"
)

// sizing is all candidates of a plan being sized.
type sizing struct {
	capacityOptions
	traffic capacity.Traffic
	plans   []sizedPlan // the cheapest first
	leftOut []profile.Skip

	tooLarge error // of a candidate that was left out; nil = none was
}

// chosen sizes all candidates: the cheapest exactly.
func (o capacityOptions) chosen() (*sizing, error) {
	cs, skips, err := o.candidates()
	if err != nil {
		return nil, err
	}
	traffic, err := o.traffic()
	if err != nil {
		return nil, err
	}
	z := &sizing{capacityOptions: o, traffic: traffic, leftOut: skips}
	if err := z.each(cs, z.cheaper, (*sizing).rough); err != nil {
		return nil, err
	}
	if len(z.plans) == 0 {
		return nil, z.tooLarge
	}
	if z.mixedGPUs {
		if err := z.addMixed(cs); err != nil {
			return nil, err
		}
	}
	return z, z.exact()
}

// each adds what rough finds of each kind of GPU by itself, so that no other one changes it.
func (z *sizing) each(cs []candidate, order func(a, b sizedPlan) int, rough func(*sizing, []candidate) error) error {
	for _, some := range byKind(cs) {
		kind := &sizing{capacityOptions: z.capacityOptions, traffic: z.traffic}
		if err := rough(kind, some); err != nil && !errors.Is(err, capacity.ErrTooLarge) {
			return err
		}
		z.plans, z.leftOut, z.tooLarge = append(z.plans, kind.plans...), append(z.leftOut, kind.leftOut...), cmp.Or(z.tooLarge, kind.tooLarge)
	}
	slices.SortStableFunc(z.plans, order)
	return nil
}

// byKind groups candidates, in the order of capacity.Preferred, by their kind of GPU and by
// whether their costs compare: a known price with an unknown one does not, nor a data sheet
// with measured kernels.
func byKind(cs []candidate) (parts [][]candidate) {
	for _, c := range cs {
		same := func(part []candidate) bool {
			l := part[0].layout
			return capacity.Preferred(l, c.layout) == 0 && l.Pools[0].GPU == c.layout.Pools[0].GPU
		}
		if i := slices.IndexFunc(parts, same); i >= 0 {
			parts[i] = append(parts[i], c)
		} else {
			parts = append(parts, []candidate{c})
		}
	}
	return parts
}

// has reports whether a pool has that kind of GPU.
func (c candidate) has(gpu string) bool {
	return slices.ContainsFunc(c.layout.Pools, func(p capacity.EnginePool) bool { return p.GPU == gpu })
}

// rough sizes every candidate by short trials, side by side, and then the pools
// of different candidates that are the cheapest, together.
func (z *sizing) rough(cs []candidate) error {
	if err := z.addCheap(cs); err != nil {
		return err
	}
	if mixed, ok := z.mixed(); ok {
		if err := z.add(z.unseen([]candidate{mixed}), 0); err != nil {
			return err
		}
	}
	if len(z.plans) == 0 { // else there is one within the limit
		return z.tooLarge
	}
	return nil
}

// add sizes candidates by short trials and leaves those out that cost more than
// the limit, or are too large to simulate.
func (z *sizing) add(cs []candidate, limit capacity.USD) error {
	plans, errs := make([]sizedPlan, len(cs)), make([]error, len(cs))
	if math.IsInf(float64(limit), 1) {
		limit = 0
	}
	_ = atOnce(len(cs), func(i int) error { // the errors are looked at in their order
		plans[i], errs[i] = z.sizeAs(cs[i], z.traffic, capacity.SizeOptions{Rough: true, LimitUSD: limit, AtOnce: atOnce})
		return nil
	})
	for i, err := range errs {
		switch {
		case errors.Is(err, capacity.ErrDearer):
			z.leaveOut(cs[i], "no fleet of it for up to %s holds the SLO", cs[i].words(limit))
		case errors.Is(err, capacity.ErrTooLarge):
			z.tooLarge = err
			z.leaveOut(cs[i], "more than %d engines in a pool: %v", maxReplicas, capacity.ErrTooLarge)
		case err != nil:
			return err
		default:
			z.plans = append(z.plans, plans[i])
		}
	}
	slices.SortStableFunc(z.plans, z.cheaper)
	return nil
}

// atOnce does n things, as many at a time as there are processors.
func atOnce(n int, do func(i int) error) error {
	errs := make([]error, n)
	places := make(chan struct{}, runtime.GOMAXPROCS(0))
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			places <- struct{}{}
			errs[i] = do(i)
			<-places
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// cheaper orders plans. Feasible ones come first: by capacity.Preferred, then by cost and
// then by GPUs. Infeasible ones follow, the nearest to the SLO first.
func (d demand) cheaper(a, b sizedPlan) int {
	switch {
	case a.Infeasible != nil && b.Infeasible != nil:
		return cmp.Compare(a.Infeasible.Beyond(d.slo), b.Infeasible.Beyond(d.slo))
	case a.Infeasible != nil:
		return 1
	case b.Infeasible != nil:
		return -1
	}
	return cmp.Or(capacity.Preferred(a.candidate.layout, b.candidate.layout), cmp.Compare(a.ranked(), b.ranked()), cmp.Compare(a.TotalGPUsFinal, b.TotalGPUsFinal))
}

// mixed is the cheapest prefill pool with the cheapest decode pool, where they
// are of different candidates: of one GPU, unless --mixed-gpus allows two.
func (z *sizing) mixed() (candidate, bool) {
	var best [2]*sizedPlan
	usd := func(p *sizedPlan, pool int) capacity.USD {
		l := p.candidate.layout.Ranked().Pools[pool]
		return capacity.USD(p.Pools[pool].Engines*l.GPUs) * l.USDPerGPUHour
	}
	for i := range z.plans {
		p := &z.plans[i]
		if p.Infeasible != nil || p.Strategy != capacity.Disaggregated || z.fleet.Profile != "" {
			continue
		}
		for pool := range best {
			if best[pool] == nil || usd(p, pool) < usd(best[pool], pool) {
				if best[0] != nil && !z.mixedGPUs && p.candidate.layout.Pools[0].GPU != best[0].candidate.layout.Pools[0].GPU {
					continue
				}
				best[pool] = p
			}
		}
	}
	if best[0] == nil || best[1] == nil || best[0].candidate.name() == best[1].candidate.name() {
		return candidate{}, false
	}
	return pair(best[0].candidate, best[1].candidate), true
}

// find is the candidate that a plan was made from.
func find(cs []candidate, p capacity.Plan) (candidate, bool) {
	parts := make([]int, len(p.Pools))
	for pool := range p.Pools {
		parts[pool] = slices.IndexFunc(cs, func(c candidate) bool {
			return c.layout.Strategy == p.Strategy && c.layout.Pools[pool].Label == p.Pools[pool].Engine && c.layout.Pools[pool].GPU == p.Pools[pool].GPU
		})
	}
	switch {
	case len(parts) == 0 || slices.Min(parts) < 0:
		return candidate{}, false
	case slices.Min(parts) == slices.Max(parts):
		return cs[parts[0]], true
	}
	return pair(cs[parts[0]], cs[parts[1]]), true
}

// pair is a prefill pool of one candidate and a decode pool of another.
func pair(prefill, decode candidate) candidate {
	join := func(p, d capacity.Layout) capacity.Layout {
		return capacity.Layout{Strategy: capacity.Disaggregated, Pools: []capacity.EnginePool{p.Pools[0], d.Pools[1]}, Transfer: p.Transfer}
	}
	out := prefill
	out.layout = join(prefill.layout, decode.layout)
	out.engines.Decode = decode.engines.Decode
	out.off = engine.Factors{TTFT: prefill.off.TTFT, ITL: decode.off.ITL}
	out.build = func(by engine.Factors, c caches) (capacity.Layout, error) {
		p, err := prefill.build(by, c)
		if err != nil {
			return p, err
		}
		d, err := decode.build(by, c)
		return join(p, d), err
	}
	out.prices = distinct(slices.Concat(prefill.prices, decode.prices))
	return out
}

// nearly is up to how many times the cheapest cost a plan by short trials is looked
// at again: mostly these err to the safe side, the more the nearer one prompt alone
// is to the SLO.
const nearly = 1.3

// exact sizes by long trials what may be the cheapest plan. Once there is one so
// sized, another has to show only whether it could be as cheap.
func (z *sizing) exact() error {
	for {
		i := slices.IndexFunc(z.plans, func(p sizedPlan) bool {
			return p.Rough && !p.dearer && p.Infeasible == nil && capacity.Preferred(p.candidate.layout, z.plans[0].candidate.layout) == 0 && p.ranked() <= nearly*z.plans[0].ranked()
		})
		if i < 0 {
			return nil
		}
		options := capacity.SizeOptions{After: &z.plans[i].sized, AtOnce: atOnce}
		if j := slices.IndexFunc(z.plans, func(p sizedPlan) bool { return !p.Rough && p.Infeasible == nil }); j >= 0 && j < i && z.plans[j].ranked() < z.plans[i].ranked() {
			var err error
			if options.LimitUSD, err = z.besideSpares(z.plans[i], z.plans[j].ranked()); err != nil {
				return err
			}
		}
		p, err := z.sizeAs(z.plans[i].candidate, z.traffic, options)
		if errors.Is(err, capacity.ErrDearer) {
			z.plans[i].dearer = true
			continue
		}
		if err != nil {
			return err
		}
		z.plans[i] = p
		slices.SortStableFunc(z.plans, z.cheaper)
	}
}

// besideSpares is what a plan's engines of one pool may cost an hour without spares so that
// with them they cost no more than the limit; of two pools it is the limit.
func (z *sizing) besideSpares(p sizedPlan, limit capacity.USD) (capacity.USD, error) {
	if z.slo.Availability == 0 || len(p.sized.Replicas) > 1 {
		return limit, nil
	}
	s := p.sized
	for n := s.Replicas[0] - 1; n > 1; n-- {
		s.Replicas = []int{n}
		if smaller, err := z.planOf(p.candidate, s, true); err != nil || smaller.ranked() <= limit {
			return s.Layout.Ranked().HourlyUSD(s.Replicas), err
		}
	}
	return s.Layout.Ranked().HourlyUSD([]int{1}), nil
}

// promptsHoldUp is the code of that warning.
const promptsHoldUp = "prompts_hold_up"

// cachedRequests are how many a trial takes with prefix caches, which take ten
// times as long to simulate.
const cachedRequests = 5000

// name is the layout's, on its GPU.
func (c candidate) name() string { return layoutName(c.layout) }

func layoutName(l capacity.Layout) string { return l.Name() + " on " + l.Pools[0].GPU }

// sizeOne sizes a candidate as it is.
func (o capacityOptions) sizeOne(cand candidate, t capacity.Traffic, these capacity.SizeOptions) (sizedPlan, error) {
	cand.chunked, these.AtOnce = nil, atOnce
	return o.sizeAs(cand, t, these)
}

// saySizing tells who watches; nobody may.
func saySizing(say func(string), l capacity.Layout) {
	if say != nil {
		say("sizing " + layoutName(l))
	}
}

// sizeOptions are these with a seed, and what the candidate's caches take.
func (c candidate) sizeOptions(seed uint64, these capacity.SizeOptions) capacity.SizeOptions {
	these.Seed = seed
	if c.layout.Pools[0].Engine.PrefixCaching {
		these.Requests = cachedRequests
	}
	return these
}

func (o capacityOptions) sizeAs(cand candidate, t capacity.Traffic, options capacity.SizeOptions) (sizedPlan, error) {
	saySizing(o.progress, cand.layout)
	s, err := cand.variants().Size(t, o.slo, cand.sizeOptions(o.seed, options))
	if err != nil {
		return sizedPlan{}, fmt.Errorf("sizing %s: %w", cand.name(), err)
	}
	cand = cand.chosen(s)
	p, err := o.planOf(cand, s, options.Rough)
	if err != nil {
		return p, err
	}
	if l := cand.layout; l.Strategy == capacity.Aggregated && cand.chunked == nil && strings.HasPrefix(p.Binding, "ITL") {
		p.Warnings = append(p.Warnings, profile.Warnf(promptsHoldUp, "aggregated engines delay output tokens by steps with up to %d prompt tokens. Another --max-num-batched-tokens may need fewer engines", cmp.Or(l.Pools[0].Engine.Limits.MaxNumBatchedTokens, sim.DefaultMaxNumBatchedTokens)))
	}
	return p, nil
}

// farOff is how many times the plan's cost a range is not looked into any more.
const farOff = 8

// addRange gives the cheapest plan the GPUs that it would take if steps were as
// much faster or slower as nine of ten comparisons allow, by short trials.
func (z *sizing) addRange() error {
	if !feasible(z.plans) || !z.plans[0].candidate.off.Known() {
		return nil
	}
	best := &z.plans[0]
	r := capacity.Range{Factors: best.candidate.off}
	var sizes [2]int
	err := atOnce(len(sizes), func(i int) error {
		other, err := best.candidate.slower([...]engine.Factors{r.Factors.Inverse(), r.Factors}[i], z.caches)
		if err != nil {
			return err
		}
		if i == 1 && other.layout.FloorUSD(z.traffic, z.slo) > farOff*best.ranked() {
			r.HighAtLeast = other.layout.FloorGPUs(z.traffic, z.slo)
			return nil
		}
		p, err := z.sizeAs(other, z.traffic, capacity.SizeOptions{Rough: true, AtOnce: atOnce})
		sizes[i] = p.TotalGPUsFinal // 0 where it is infeasible
		return err
	})
	r.Low, r.High = sizes[0], sizes[1]
	best.Range = r
	return err
}
