package main

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"plimsoll/capacity"
	"plimsoll/profile"
)

// wave is how many candidates are sized before it is asked which of the others
// could still be cheap. It is no number of processors, so that every machine
// gives the same plans.
const wave = 4

// bounded is a candidate with the least that a plan with one of its pools could
// cost per hour.
type bounded struct {
	candidate
	usd float64
}

// bounds are the candidates, those of the lowest bound first. A pool of one may
// go together with the other pool of another, on the same GPU unless different
// ones may be mixed.
func (z *sizing) bounds(cs []candidate) []bounded {
	floors := make([][]float64, len(cs))
	for i, c := range cs {
		floors[i] = c.layout.PoolFloorsUSD(z.traffic, z.slo)
	}
	least := func(gpu string, pool int) float64 {
		usd := math.Inf(1)
		for i, c := range cs {
			if c.layout.Strategy == capacity.Disaggregated && (z.mixedGPUs || c.layout.Pools[0].GPU == gpu) {
				usd = min(usd, floors[i][pool])
			}
		}
		return usd
	}
	out := make([]bounded, len(cs))
	for i, c := range cs {
		out[i] = bounded{c, floors[i][0]}
		if gpu := c.layout.Pools[0].GPU; c.layout.Strategy == capacity.Disaggregated {
			out[i].usd = min(floors[i][0]+least(gpu, 1), least(gpu, 0)+floors[i][1])
		}
	}
	slices.SortStableFunc(out, func(a, b bounded) int { return cmp.Compare(a.usd, b.usd) })
	return out
}

// addCheap sizes the candidates in waves, and leaves those out that cannot be
// near the cheapest plan so far.
func (z *sizing) addCheap(cs []candidate) error {
	if len(cs) <= wave {
		return z.add(cs)
	}
	for some := range slices.Chunk(z.bounds(cs), wave) {
		var open []candidate
		for _, c := range some {
			if len(z.plans) > 0 && z.plans[0].Infeasible == nil && c.usd > nearly*z.plans[0].HourlyUSD {
				z.leftOut = append(z.leftOut, profile.Skip{Label: c.name(), Reason: fmt.Sprintf("no plan with it could cost less than $%s an hour, %s costs $%s",
					amount(c.usd), z.plans[0].candidate.name(), amount(z.plans[0].HourlyUSD))})
				continue
			}
			open = append(open, c.candidate)
		}
		if err := z.add(open); err != nil {
			return err
		}
	}
	return nil
}
