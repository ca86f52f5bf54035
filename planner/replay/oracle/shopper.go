package oracle

import (
	"math"
	"slices"

	"plimsoll/engine"
)

// shopper looks for the prices of one pool at which its kept requests cost the
// most: those say best how many engines they need.
type shopper struct {
	*machine
	of        Case
	pool      int
	low, high int
}

// best is the offer found, one number after the other: the multiplier, the token's
// price, the multiplier again.
func (s shopper) best() offer {
	best, most := offer{token: s.dearest()}, math.Inf(-1)
	try := func(o offer) float64 {
		cost := s.cost(o)
		if cost > most {
			best, most = o, cost
		}
		return cost
	}
	dearest := best.token
	if s.role == engine.RoleDecode {
		best.token *= rarely
	}
	try(best)
	if s.role == roleWithoutDecode {
		return best
	}
	for range 2 {
		if s.of.Fleet.SLA.ITL > 0 {
			token := best.token
			golden(-6, 1, 14, func(log float64) float64 { return try(offer{token, math.Pow(10, log)}) })
		}
		wait := best.wait
		golden(0, 1, 10, func(share float64) float64 { return try(offer{share * dearest, wait}) })
	}
	return best
}

// rarely is the price, in its share of the most, that a prompt token begins at where
// only preemptions compute prompts.
const rarely = 0.1

// cost is what the sample's cheapest share costs.
func (s shopper) cost(o offer) float64 {
	t := newTariff(s.machine, s.prices(o, nodes(s.low, s.high, fewNodes), roughly), s.of, s.pool, s.low, s.high)
	costs := make([]float64, 0, len(s.of.Requests))
	for _, r := range s.of.Requests {
		b := t.of(r)
		costs = append(costs, max(0, b.work-b.wait))
	}
	return cheapest(costs, s.of.keep())
}

// golden tries arguments between two ends, ever closer to the best of a function
// that rises and then falls (golden-section search, Kiefer 1953).
func golden(low, high float64, tries int, try func(float64) float64) {
	ratio := (math.Sqrt(5) - 1) / 2
	a, b := high-ratio*(high-low), low+ratio*(high-low)
	fa, fb := try(a), try(b)
	for range tries - 2 {
		if fa < fb {
			low, a, fa = a, b, fb
			b = low + ratio*(high-low)
			fb = try(b)
		} else {
			high, b, fb = b, a, fa
			a = high - ratio*(high-low)
			fa = try(a)
		}
	}
}

// cheapest is the sum of the k least.
func cheapest(costs []float64, k int) float64 {
	slices.Sort(costs)
	sum := 0.0
	for _, x := range costs[:k] {
		sum += x
	}
	return sum
}
