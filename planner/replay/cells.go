package replay

import (
	"fmt"
	"math"

	"plimsoll/engine"
	"plimsoll/engine/sim/fleet"
	"plimsoll/planner"
)

// A fleet under a load that does not change is simulated once, with rates and
// lengths rounded to these steps, lengths from the mean of all on, and with at most so many replicas of a pool: a
// larger fleet is taken as one of that size under its share of the load.
const (
	rateStep     = 0.03
	lengthStep   = 0.1
	mostInCell   = 24
	cellRequests = 1500 // that are counted, after those that fill the fleet
)

// replicas are those of a fleet's pools that serve.
type replicas [2]int

// cell is how a fleet serves a load that does not change.
type cell struct {
	ttft, itl, e2e planner.Spread[float64] // seconds
	met            [3]float64              // shares that met TTFT, ITL and both
	pools          [2]cellPool             // of each replica

	ttfts, tpots, e2es sample
}

// cellPool is what one replica of a pool holds, on average: requests, and a share.
type cellPool struct{ running, waiting, kv float64 }

// cellKey names a cell: replicas, and steps of rate, ISL and OSL.
type cellKey struct {
	n              replicas
	rate, isl, osl int
}

// cells are those that were needed, each once.
type cells struct {
	s     Scenario
	rates Rates
	mean  RateBin // whose lengths are those of all requests; never 0
	known map[cellKey]*cell
	most  map[cellKey]*full // of one replica of a pool, which n names
}

func newCells(s Scenario, r Rates) *cells {
	mean := r.mean(0, engine.FromDuration(r.Every)*engine.Picoseconds(len(r.Bins)))
	mean.ISL, mean.OSL = max(mean.ISL, 1), max(mean.OSL, 1)
	return &cells{s: s, rates: r, mean: mean, known: map[cellKey]*cell{}, most: map[cellKey]*full{}}
}

// steps is how many steps of a ratio lead to x; exactly is the way back.
func steps(x, step float64) int             { return int(math.Round(math.Log(x) / math.Log1p(step))) }
func exactly(steps int, by float64) float64 { return math.Exp(float64(steps) * math.Log1p(by)) }

// scaled is a fleet of at most mostInCell replicas of a pool, and the share of the
// load that it has.
func scaled(n replicas) (replicas, float64) {
	large := max(n[0], n[1])
	if large <= mostInCell {
		return n, 1
	}
	by := float64(mostInCell) / float64(large)
	var small replicas
	share, pools := 0.0, 0.0
	for i, k := range n {
		if k == 0 {
			continue
		}
		small[i] = max(1, int(math.Round(float64(k)*by)))
		share, pools = share+math.Log(float64(small[i])/float64(k)), pools+1
	}
	return small, math.Exp(share / pools)
}

// lengths is a key with those of a load.
func (c *cells) lengths(load RateBin) cellKey {
	return cellKey{isl: steps(load.ISL/c.mean.ISL, lengthStep), osl: steps(load.OSL/c.mean.OSL, lengthStep)}
}

// at is how n replicas, some of each pool, serve a load that they can carry.
func (c *cells) at(n replicas, load RateBin) (*cell, error) {
	small, share := scaled(n)
	key := c.lengths(load)
	key.n, key.rate = small, steps(load.Rate*share, rateStep)
	if known := c.known[key]; known != nil {
		return known, nil
	}
	made, err := c.simulate(key)
	c.known[key] = made
	return made, err
}

// simulate runs a fleet until it is filled, and then for cellRequests more.
func (c *cells) simulate(key cellKey) (*cell, error) {
	out := &cell{}
	const bound = 20 * cellRequests
	var first, last int64 // of the requests that count
	ended := 0
	var ttfts, tpots, e2es []int64
	counts := func(o fleet.Outcome) {
		ended++
		if o.Number < first || o.Number > last || first == 0 || o.Status != fleet.Finished {
			return
		}
		ttfts, e2es = append(ttfts, int64(o.TTFT())), append(e2es, int64(o.E2E()))
		if o.OSL > 1 {
			tpots = append(tpots, int64(o.TPOT()))
		}
		ttft := o.TTFT() <= engine.FromDuration(c.s.Deployment.SLA.TTFT)
		itl := o.TPOT() <= engine.FromDuration(c.s.Deployment.SLA.ITL)
		for i, ok := range []bool{ttft, itl, ttft && itl} {
			if ok {
				out.met[i]++
			}
		}
	}
	f, err := c.fleet(key.n, counts)
	if err != nil {
		return nil, err
	}
	d := c.draw(key, cellBlock)
	at, offered := 0.0, int64(0)
	offer := func() error {
		at += d.gap() / exactly(key.rate, rateStep)
		offered++
		return f.Offer(d.request(engine.FromSeconds(at)))
	}
	for ended < max(3*f.InFlight(), cellRequests/3) && offered < bound {
		for range cellRequests / 10 {
			if err := offer(); err != nil {
				return nil, fmt.Errorf("a steady load: %w", err)
			}
		}
	}
	f.Interval()
	first, last = offered+1, offered+cellRequests
	for range cellRequests {
		if err := offer(); err != nil {
			return nil, fmt.Errorf("a steady load: %w", err)
		}
	}
	out.see(f.Interval(), key.n)
	for range cellRequests / 2 { // beside the last of those that count
		if err := offer(); err != nil {
			return nil, fmt.Errorf("a steady load: %w", err)
		}
	}
	if err := f.Finish(fleet.Forever); err != nil {
		return nil, fmt.Errorf("a steady load: %w", err)
	}
	for i := range out.met {
		out.met[i] /= cellRequests
	}
	out.ttfts, out.tpots, out.e2es = sampled(ttfts), sampled(tpots), sampled(e2es)
	return out, nil
}

func (c *cells) fleet(n replicas, done func(fleet.Outcome)) (*fleet.Fleet, error) {
	config := c.s.Simulated()
	config.Done = done
	for i := range config.Pools {
		config.Pools[i].Replicas = n[i]
	}
	return fleet.New(config)
}

// see takes the figures of an interval.
func (c *cell) see(v fleet.Interval, n replicas) {
	c.ttft, c.itl, c.e2e = seconds(v.TTFT), seconds(v.ITL), seconds(v.E2E)
	for i, p := range v.Pools {
		k := float64(n[i])
		c.pools[i] = cellPool{p.RunningMean / k, p.WaitingMean / k, p.KVUse}
	}
}

func seconds(s fleet.Sketch) planner.Spread[float64] {
	return spread(s, 0, func(v float64) float64 { return v / float64(engine.Second) })
}
