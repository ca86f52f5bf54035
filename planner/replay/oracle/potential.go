package oracle

import (
	"math"
	"slices"

	"plimsoll/engine"
)

// weighted is, for each pool, weights that charge start-up and least replicas where
// they matter: the best of those whose potential has a few levels.
//
// With a potential v(t) from 0 to the start-up time σ, service at t is worth
// 1 − v′(t): over a replica's whole service that is at most its length plus σ, which
// is what the replica costs. The replicas of the start have no start-up to pay, so
// that each takes v(0) back. Where fewer engines do than there must be at least,
// service is worth nothing, and those are paid instead.
func (c Case) weighted(tariffs []tariff) []weighting {
	out := make([]weighting, len(tariffs))
	for i := range tariffs {
		p := c.Fleet.Pools[i]
		startUp := c.startUp(i)
		every := c.long(tariffs[i].role, startUp)
		work := c.work(&tariffs[i], every)
		d := ladder{
			work: work, width: float64(every), start: float64(p.Replicas),
			least: float64(min(p.Replicas, c.Bounds[i].Min)), startUp: float64(startUp),
		}
		out[i] = d.weights(every)
		out[i].end = c.end()
	}
	return out
}

// long is a span in which most requests come and go, and the potential may rise by a
// rung; the schedule has a whole number of them.
func (c Case) long(role engine.Role, startUp engine.Picoseconds) engine.Picoseconds {
	var osl []int
	for i := 0; i < len(c.Requests); i += 1 + len(c.Requests)/1000 {
		osl = append(osl, c.Requests[i].OSL)
	}
	slices.Sort(osl)
	span := max(c.last(0, osl[len(osl)*9/10], role), startUp/(rungs-1)+1, c.end()/mostBins, 1)
	parts := max(1, c.end()/min(span, c.end()))
	return (c.end() + parts - 1) / parts
}

// mostBins bounds how many weights there are.
const mostBins = 20_000

// work is what kept requests need of a pool by the bin of their arrival, in ps of
// one engine; each is kept as likely as any other.
func (c Case) work(t *tariff, every engine.Picoseconds) []float64 {
	out := make([]float64, int((c.end()+every-1)/every))
	share := float64(c.keep()) / float64(len(c.Requests)) / t.gpus
	for _, r := range c.Requests {
		if b := t.of(r); b.work > b.wait {
			out[r.At/every] += share * (b.work - b.wait)
		}
	}
	return out
}

// ladder looks for the weights by dynamic programming over the potential at the
// bins' edges, in equal steps.
type ladder struct {
	work                         []float64 // ps of an engine, by bin
	width, start, least, startUp float64   // ps of a bin; replicas; replicas; ps
}

// rungs are the steps of the potential; with them and whether service is worth
// anything, a bin has rungs²·2 states.
const rungs = 7

// rung is a bin's potential at its two edges, and whether the least replicas are
// paid instead of service.
type rung struct {
	from, to int
	idle     bool
}

func (d *ladder) all() []rung {
	var out []rung
	for from := range rungs {
		for to := range rungs {
			if d.worth(rung{from: from, to: to}) >= 0 {
				out = append(out, rung{from, to, false}, rung{from, to, true})
			}
		}
	}
	return out
}

// level is the potential on a rung.
func (d *ladder) level(i int) float64 { return d.startUp * float64(i) / (rungs - 1) }

// worth is 1 less the slope of the potential.
func (d *ladder) worth(r rung) float64 { return 1 + (d.level(r.from)-d.level(r.to))/d.width }

// paid is the weight of service.
func (d *ladder) paid(r rung) float64 {
	if r.idle {
		return 0
	}
	return d.worth(r)
}

// own is what a bin adds without the next one.
func (d *ladder) own(r rung) float64 {
	if !r.idle {
		return 0
	}
	return d.least * d.width * d.worth(r)
}

func (d *ladder) weights(every engine.Picoseconds) weighting {
	states := d.all()
	n := len(d.work)
	value := make([]float64, len(states)) // of the bins so far, the last one's work left out
	back := make([][]int32, n)
	for i, r := range states {
		value[i] = d.own(r) - d.start*d.level(r.from)
	}
	for b := 1; b < n; b++ {
		next := make([]float64, len(states))
		back[b] = make([]int32, len(states))
		for j, r := range states {
			next[j] = math.Inf(-1)
			for i, q := range states {
				if q.to != r.from {
					continue
				}
				if v := value[i] + d.own(r) + d.work[b-1]*min(d.paid(q), d.paid(r)); v > next[j] {
					next[j], back[b][j] = v, int32(i)
				}
			}
		}
		value = next
	}
	at := 0
	for i := range value {
		if value[i] > value[at] {
			at = i
		}
	}
	w := weighting{every: every, weight: make([]float64, n)}
	for b := n - 1; b >= 0; b-- {
		r := states[at]
		w.weight[b] = d.paid(r)
		w.given += d.own(r)
		if b == 0 {
			w.given -= d.start * d.level(r.from)
			break
		}
		at = int(back[b][at])
	}
	return w
}
