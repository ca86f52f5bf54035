package replay

import (
	"math"

	"plimsoll/engine"
	"plimsoll/engine/sim/fleet"
)

// nearlyFull is the share of what an engine did at most, with all requests there from
// the start, that it is taken to do as they come; behind a backlog it does all of it.
const nearlyFull = 0.98

// serve takes the requests of a step to the fleet.
func (f *fluid) serve(dt engine.Picoseconds, lost float64) error {
	load := f.load.at(f.now + f.begin)
	came := f.poisson(load.Rate * dt.Seconds())
	if load.Rate == 0 {
		load.ISL, load.OSL = f.flow.isl, f.flow.osl // what is left is as what came last
	}
	if load.ISL == 0 {
		f.flow.idle(f.now, f.ready())
		return nil
	}
	n := f.ready()
	x := spell{at: f.now, came: float64(came), load: load, ready: n}
	if err := f.through(&x, dt.Seconds()); err != nil {
		return err
	}
	if x.served > 0 {
		carried := load
		carried.Rate = max(x.served/dt.Seconds(), 0.01/mostInCell)
		var err error
		if x.cell, err = f.cells.at(n, carried); err != nil {
			return err
		}
	}
	f.count(came, lost, f.shares(x), load.OSL)
	f.flow.add(x)
	return nil
}

// through takes the mean load of some seconds through the pools, one after the
// other, and notes what ran at all of them, what waits at each and how long those who
// came wait in all.
func (f *fluid) through(x *spell, seconds float64) error {
	x.served = x.load.Rate * seconds
	for i := range f.pools {
		p := &f.pools[i]
		full, err := f.cells.full(i, x.load)
		if err != nil {
			return err
		}
		p.one = full.rate
		room := max(0, float64(f.s.Fleet.MaxInFlight)-p.waiting()) // what is above is refused
		served, behind := p.take(min(x.served, room), seconds, f.s.Fleet.Pools[i].Router == fleet.LeastLoaded)
		x.served, x.wait = served, x.wait+behind
		x.pools[i] = backlog{waits: p.waiting(), share: p.behind(), full: full}
	}
	return nil
}

// ready are the replicas that serve.
func (f *fluid) ready() (n replicas) {
	for i := range f.pools {
		n[i] = f.pools[i].ready()
	}
	return n
}

// shares are those of requests that meet the SLA behind a backlog.
func (f *fluid) shares(x spell) [3]float64 {
	if x.cell == nil {
		return [3]float64{}
	}
	met := x.cell.met
	last := x.pools[len(f.pools)-1]
	itl := met[1]
	if last.share > 0 {
		itl += last.share * (last.full.metITL - itl)
	}
	switch limit := f.s.Deployment.SLA.TTFT.Seconds(); {
	case x.wait >= limit:
		return [3]float64{0, itl, 0}
	case x.wait == 0 && last.share == 0:
		return met
	default:
		ttft := x.cell.ttfts.within(int64(engine.FromSeconds(limit - x.wait)))
		return [3]float64{ttft, itl, ttft * itl}
	}
}

// count scores the requests of a step: each meets the SLA, or misses some of it, by
// chance.
func (f *fluid) count(came int, lost float64, shares [3]float64, osl float64) {
	ttft, itl, both := shares[0], shares[1], shares[2]
	left := max(0, came-int(lost+f.random.Float64()))
	c := met{arrivals: int64(came)}
	take := func(share, of float64) int64 { // of those left, who are so large a share of all
		n := f.binomial(left, share/max(of, share, 1e-12))
		left -= n
		return int64(n)
	}
	c.both = take(both, 1)
	c.ttft = c.both + take(max(0, ttft-both), 1-both)
	c.itl = c.both + take(max(0, itl-both), 1-max(ttft, both))
	f.output += float64(c.both) * osl
	f.score.add(f.now, c)
}

// binomial draws how many of n things that happen with probability p do.
func (f *fluid) binomial(n int, p float64) int {
	switch mean := float64(n) * p; {
	case p <= 0 || n == 0:
		return 0
	case p >= 1:
		return n
	case p > 0.5:
		return n - f.binomial(n, 1-p)
	case mean > 50:
		return min(n, max(0, int(math.Round(mean+math.Sqrt(mean*(1-p))*f.random.NormFloat64()))))
	default:
		return min(n, f.poisson(mean))
	}
}

// poisson draws a count of a mean.
func (f *fluid) poisson(mean float64) int {
	if mean > 50 {
		return max(0, int(math.Round(mean+math.Sqrt(mean)*f.random.NormFloat64())))
	}
	n := 0
	for left := mean - f.random.ExpFloat64(); left > 0; left -= f.random.ExpFloat64() {
		n++
	}
	return n
}
