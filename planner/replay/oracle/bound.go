package oracle

import (
	"fmt"
	"math"
	"slices"

	"plimsoll/engine"
)

// Floor is what no schedule can go below.
type Floor struct {
	GPUHours float64
	// Work is the part of it that engines spend in steps; the rest is start-up, the
	// least number of replicas, and whole engines.
	Work float64
	Kept int // requests that must meet both promises
}

// Bound is the least number of GPU-hours, as far as can be proved (see the package
// comment), of any schedule of a case that reaches its attainment.
func Bound(c Case) (Floor, error) {
	tariffs, err := c.tariffs()
	if err != nil {
		return Floor{}, fmt.Errorf("bounding GPU-hours: %w", err)
	}
	flat, weighted := c.flat(), c.weighted(tariffs)
	f := Floor{Work: c.total(tariffs, flat), Kept: c.keep()}
	pools := 0.0
	for i := range tariffs {
		one := tariffs[i : i+1]
		pools += max(
			c.total(one, flat[i:i+1]), c.total(one, weighted[i:i+1]),
			c.whole(&tariffs[i], i)*tariffs[i].gpus/float64(engine.Second)/3600*(1-slack),
		)
	}
	f.GPUHours = max(f.Work, c.total(tariffs, weighted), pools)
	return f, nil
}

// tariffs are the best of each pool's.
func (c Case) tariffs() ([]tariff, error) {
	if err := c.Check(); err != nil {
		return nil, err
	}
	var out []tariff
	low, high := c.contexts()
	for i, p := range c.Fleet.Pools {
		m, err := machineOf(p)
		if err != nil {
			return nil, fmt.Errorf("pool %d: %w", i+1, err)
		}
		s := shopper{machine: &m, of: c.sample(), pool: i, low: low, high: high}
		out = append(out, newTariff(&m, m.prices(s.best(), nodes(low, high, manyNodes), tolerance), c, i, low, high))
	}
	return out, nil
}

// contexts are the least and the greatest that any request decodes at.
func (c Case) contexts() (low, high int) {
	low = math.MaxInt
	for _, r := range c.Requests {
		if r.OSL > 1 {
			low, high = min(low, r.ISL+1), max(high, r.ISL+r.OSL-1)
		}
	}
	if high == 0 {
		return 1, 1
	}
	return low, high
}

// How many contexts decode tokens are priced at, to try prices and to use them.
const (
	fewNodes  = 8
	manyNodes = 24
)

// nodes are contexts from low to high in equal ratios, multiples of 64, at which
// profiles are read, but for the first.
func nodes(low, high, n int) []int {
	const grid = 64
	out := []int{low / grid * grid}
	ratio := math.Pow(float64(high)/float64(low), 1/float64(n))
	for i := 1; i <= n; i++ {
		c := int(math.Ceil(float64(low)*math.Pow(ratio, float64(i))/grid)) * grid
		if c > out[len(out)-1] {
			out = append(out, c)
		}
	}
	if last := (high + grid - 1) / grid * grid; last > out[len(out)-1] {
		out = append(out, last)
	}
	return out
}

// sample is the case with evenly spread requests only: enough to choose prices by.
func (c Case) sample() Case {
	const enough = 4000
	every := max(1, len(c.Requests)/enough)
	some := c.Requests[:0:0]
	for i := 0; i < len(c.Requests); i += every {
		some = append(some, c.Requests[i])
	}
	c.Requests = some
	return c
}

// total is the GPU-hours of the cheapest share of requests that may be kept, each
// at its pools' weights of time, and what those add. What would cost less than
// nothing is left out of a pool's prices.
func (c Case) total(tariffs []tariff, weights []weighting) float64 {
	costs := make([]float64, 0, len(c.Requests))
	for _, r := range c.Requests {
		cost := 0.0
		for i := range tariffs {
			b := tariffs[i].of(r)
			least, most := weights[i].over(r.At, c.last(r.At, r.OSL, tariffs[i].role))
			cost += max(0, least*b.work-most*b.wait)
		}
		costs = append(costs, cost)
	}
	sum := cheapest(costs, c.keep())
	for i := range weights {
		sum += weights[i].given * tariffs[i].gpus
	}
	return max(0, sum) / float64(engine.Second) / 3600 * (1 - slack)
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
