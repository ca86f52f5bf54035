package oracle

import (
	"fmt"
	"math"

	"plimsoll/engine"
)

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

// demand is how many engines of each pool would do for each bin if they were used
// as well as prices say: demand[pool][bin].
func (c Case) demand(tariffs []tariff) [][]float64 {
	out := make([][]float64, len(tariffs))
	for i := range tariffs {
		t := &tariffs[i]
		d := make([]float64, c.Bins)
		for _, r := range c.Requests {
			b := t.of(r)
			from := int(r.At / c.Every)
			to := from
			if t.role != roleWithoutDecode {
				to = min(int((r.At+c.decodes(r.OSL))/c.Every), c.Bins-1)
			}
			each := max(0, b.work-b.wait) / t.gpus / float64(c.Every) / float64(to-from+1)
			for k := from; k <= to; k++ {
				d[k] += each
			}
		}
		out[i] = d
	}
	return out
}

// decodes is how long a request of a full engine decodes, about.
func (c Case) decodes(osl int) engine.Picoseconds {
	return min(engine.Picoseconds(osl)*engine.FromDuration(c.Fleet.SLA.ITL), c.end())
}

// staffed is the schedule that has ready in each bin what is needed: demand times
// a margin, whole engines. Engines start as much earlier as they take, and one that
// is needed again before a new one could be ready stays.
func (c Case) staffed(demand [][]float64, margin float64) Schedule {
	s := make(Schedule, len(demand))
	for i, d := range demand {
		lead := int((c.Fleet.Pools[i].StartUp + c.Every - 1) / c.Every)
		need := make([]int, c.Bins)
		for b, x := range d {
			need[b] = int(math.Ceil(x * margin))
		}
		s[i] = bridged(early(need, lead), lead)
	}
	return c.fit(s)
}

// early asks for what each bin needs so many bins before it.
func early(need []int, lead int) []int {
	out := make([]int, len(need))
	for b := range need {
		for _, n := range need[b:min(b+lead+1, len(need))] {
			out[b] = max(out[b], n)
		}
	}
	return out
}

// bridged fills valleys of at most so many bins: to start again would cost as much.
// The fill of a bin is what both sides of it reach within that time.
func bridged(wanted []int, most int) []int {
	out := append([]int(nil), wanted...)
	for gap := 1; gap <= most; gap++ {
		for b := 0; b+gap+1 < len(wanted); b++ {
			level := min(wanted[b], wanted[b+gap+1])
			for k := b + 1; k <= b+gap; k++ {
				out[k] = max(out[k], level)
			}
		}
	}
	return out
}

// fit brings a schedule into bounds and budget; what is too much is taken from
// the pool with the most replicas that may have fewer.
func (c Case) fit(s Schedule) Schedule {
	for b := range c.Bins {
		gpus := 0
		for i := range s {
			s[i][b] = min(max(s[i][b], c.Bounds[i].Min), c.Bounds[i].Max)
			gpus += s[i][b] * c.gpus(i)
		}
		for c.Budget > 0 && gpus > c.Budget {
			most := -1
			for i := range s {
				if s[i][b] > c.Bounds[i].Min && (most < 0 || s[i][b] > s[most][b]) {
					most = i
				}
			}
			if most < 0 {
				break
			}
			s[most][b]--
			gpus -= c.gpus(most)
		}
	}
	return s
}

// most asks for the same in all bins: the most that bounds and budget allow,
// shared between pools as the demand's peaks are.
func (c Case) most(demand [][]float64) Schedule {
	peak, gpus := make([]float64, len(demand)), 0.0
	for i, d := range demand {
		for _, x := range d {
			peak[i] = max(peak[i], x)
		}
		gpus += peak[i] * float64(c.gpus(i))
	}
	s := make(Schedule, len(demand))
	for i := range s {
		n := c.Bounds[i].Max
		if c.Budget > 0 && gpus > 0 {
			n = min(n, max(1, int(math.Round(float64(c.Budget)*peak[i]/gpus))))
		}
		for range c.Bins {
			s[i] = append(s[i], n)
		}
	}
	return c.fit(s)
}
