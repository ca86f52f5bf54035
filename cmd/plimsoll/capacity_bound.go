package main

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"plimsoll/capacity"
	"plimsoll/profile"
)

// wave is how many candidates are sized before it is asked which of the others could still
// be cheap; few are all sized. They are no numbers of processors, so that every machine gives
// the same plans.
const wave, few = 2, 4

// bounded is a candidate with what its plan costs per hour at the least, by
// itself, and as the cheaper one of its pools with another candidate's.
type bounded struct {
	candidate
	usd, own capacity.USD
	with     []candidate // its prefill pool with the cheapest decode pool, and the other way round
}

// bounds are the candidates, those that are cheapest by themselves first. A pool
// of one may go together with the other pool of another, on the same GPU unless
// different ones may be mixed.
func (z *sizing) bounds(cs []candidate) []bounded {
	floors := make([][]capacity.USD, len(cs))
	for i, c := range cs {
		floors[i] = c.variants().PoolFloorsUSD(z.traffic, z.slo)
	}
	// The candidate with the cheapest such pool; the same where it is no matter.
	least := func(gpu string, pool int) int {
		best := -1
		for i, c := range cs {
			if c.layout.Strategy == capacity.Disaggregated && (z.mixedGPUs || c.layout.Pools[0].GPU == gpu) && (best < 0 || floors[i][pool] < floors[best][pool]) {
				best = i
			}
		}
		return best
	}
	out := make([]bounded, len(cs))
	for i, c := range cs {
		out[i] = bounded{candidate: c, usd: floors[i][0], own: floors[i][0]}
		if gpu := c.layout.Pools[0].GPU; c.layout.Strategy == capacity.Disaggregated {
			prefill, decode := least(gpu, 0), least(gpu, 1)
			out[i].own += floors[i][1]
			out[i].usd = min(floors[i][0]+floors[decode][1], floors[prefill][0]+floors[i][1])
			out[i].with = []candidate{pair(c, cs[decode]), pair(cs[prefill], c)}
		}
	}
	slices.SortStableFunc(out, func(a, b bounded) int { return cmp.Or(cmp.Compare(a.own, b.own), cmp.Compare(a.usd, b.usd)) })
	return out
}

// addCheap sizes the candidates in waves, and leaves those out that cannot be
// near the cheapest plan so far. Of one that is dear by itself but has a pool that
// may be cheap, that pool is sized with the cheapest other one.
func (z *sizing) addCheap(cs []candidate) error {
	if len(cs) <= few {
		return z.add(cs, 0)
	}
	for some := range slices.Chunk(z.bounds(cs), wave) {
		limit := z.limit()
		var open, pairs []candidate
		for _, c := range some {
			switch {
			case c.usd > limit:
				z.leaveOut(c.candidate, "any plan with it costs at least %s; %s costs %s", c.words(c.usd), z.plans[0].candidate.name(), z.plans[0].candidate.words(z.plans[0].ranked()))
			case c.own > limit:
				z.leaveOut(c.candidate, "it costs at least %s; %s costs %s", c.words(c.own), z.plans[0].candidate.name(), z.plans[0].candidate.words(z.plans[0].ranked()))
			default:
				open = append(open, c.candidate)
			}
		}
		if err := z.add(z.unseen(open), limit); err != nil {
			return err
		}
		for _, c := range some {
			if c.usd <= limit && len(z.unseen([]candidate{c.candidate})) > 0 {
				pairs = append(pairs, c.with...)
			}
		}
		if err := z.add(z.unseen(pairs), limit); err != nil {
			return err
		}
	}
	return nil
}

// addMixed sizes pools of different kinds of GPU together that may be the cheapest plan.
func (z *sizing) addMixed(cs []candidate) error {
	limit := z.limit()
	var pairs []candidate
	for _, c := range z.bounds(cs) {
		for _, p := range c.with {
			if c.usd <= limit/nearly && p.layout.Pools[0].GPU != p.layout.Pools[1].GPU {
				pairs = append(pairs, p)
			}
		}
	}
	if err := z.add(z.unseen(pairs), limit); err != nil {
		return err
	}
	return z.rough(nil)
}

// limit is what a plan may cost an hour to be near the cheapest so far.
func (z *sizing) limit() capacity.USD {
	if !feasible(z.plans) {
		return capacity.USD(math.Inf(1))
	}
	return nearly * z.plans[0].ranked()
}

// unseen are those that are not sized yet, each once.
func (z *sizing) unseen(cs []candidate) []candidate {
	var out []candidate
	for _, c := range cs {
		same := func(o candidate) bool { return o.name() == c.name() && o.layout.Strategy == c.layout.Strategy }
		if !slices.ContainsFunc(out, same) && !slices.ContainsFunc(z.plans, func(p sizedPlan) bool { return same(p.candidate) }) {
			out = append(out, c)
		}
	}
	return out
}

// words are a cost at the prices by which fleets are compared: where those count
// GPUs, so do the words.
func (c candidate) words(usd capacity.USD) string {
	if !slices.ContainsFunc(c.layout.Pools, func(p capacity.EnginePool) bool { return p.USDPerGPUHour > 0 }) {
		owned, gpu := "", c.layout.Ranked().Pools[0].USDPerGPUHour
		if c.layout.Priced() {
			owned = "owned "
		}
		return fmt.Sprintf("%.0f %sGPUs", math.Ceil(float64(usd/gpu)-1e-6), owned)
	}
	return "$" + amount(usd) + " an hour"
}

func (z *sizing) leaveOut(c candidate, why string, args ...any) {
	z.leftOut = append(z.leftOut, profile.Skip{Label: c.name(), Reason: fmt.Sprintf(why, args...)})
}
