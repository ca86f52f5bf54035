package profile

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// Latencies of one load hang together: who comes while others wait, waits too. A
// short run cannot show for how long: one that saw little of it looks as if there
// were none. So it is bounded from below by what the load is known to do, and a
// run that is short of that gives no interval.

// memory is for how long a load remembers a latency: n of them are worth n/floor
// independent ones at most.
type memory struct {
	floor float64 // requests, at least 1; infinite where nothing is known
	least float64 // requests that an interval takes
	share bool    // a percentile is judged by how those within its limit hang together, not latencies
}

// worth is the effective sample size of a sequence of requests within a limit or not.
func (m memory) worth(within []bool) float64 {
	rs := make([]float64, len(within))
	for i, in := range within {
		if !in {
			rs[i] = 1
		}
	}
	sum := 1.0
	if late := sumSquares(rs); late > 0 {
		sum = integrated(residuals(rs, false))
	}
	return float64(len(within)) / max(m.floor, sum)
}

const (
	queueLeast  = 10  // floors: busy periods are of very different length
	queueFewest = 100 // requests: of fewer, waits are too skewed for Student's t
	flightStay  = 1.5 // see FlightMemory
	flightLeast = 6   // floors
)

// QueueMemory is how many requests in a row share a wait for the first token, at
// least 1, in a Poisson load of an engine that is used to a share of use, 0 to below
// 1, by services of a coefficient of variation: the integrated autocorrelation of waits in M/M/1
// at that use (Daley, J. Austral. Math. Soc. 8, 1968), and (1+c²)/2 of it (heavy
// traffic: Whitt, Management Science 35(11), 1989), whatever c. Engines that serve
// several first tokens at once remember less than it supposes.
func QueueMemory(use, variation float64) float64 {
	idle := 1 - use
	waits := (2 + 5*use - 4*use*use + use*use*use) / (idle * idle * (2 - use))
	return max(1, waits*(1+variation*variation)/2)
}

// QueueRequests is how many requests of a Poisson load have to be judged before
// their TTFT is given an interval, where the engine is used to a share of use, 0 to
// below 1, by services of a coefficient of variation (0 = all alike, 1 as much as
// exponential ones): some more than in the mean, since the use that such a load
// happens to show varies, and is believed at its upper end.
func QueueRequests(use, variation float64) int {
	n := 2.0 * queueFewest
	for range 100 {
		seen := use + 2*math.Sqrt(use/n) // one standard error of what is seen, one that is added to it
		if need := queueLeast * QueueMemory(min(seen, 1-1e-3), variation); seen < 1 && n >= need {
			break
		}
		n *= 1.1
	}
	return int(math.Ceil(n))
}

// queueMemory is that of waiting for the first token in so many queues, by the share
// of them that the requests due in w found empty: in a Poisson load that is the time
// in which nobody waits there, and who finds one has the service alone as TTFT. The
// use is one less that share, and its standard error more, √(ρ/n) as the number of
// busy periods in a renewal process varies. Of several queues that requests are
// dealt out to blindly, not to the emptiest, too much is taken to be in use.
func queueMemory(rs []Request, w Window, queues int) memory {
	n, idle, alone := unhindered(rs, w, queues)
	idle -= math.Sqrt((1 - idle) / float64(max(n, 1)))
	if len(alone) < 2 || idle <= 0 {
		return memory{floor: math.Inf(1), least: math.Inf(1)}
	}
	d := Describe(alone)
	floor := QueueMemory(1-idle, float64(d.Std)/float64(max(d.Mean, 1)))
	return memory{floor: floor, least: max(queueFewest, queueLeast*floor)}
}

// unhindered are the TTFTs of those of the n requests due in w that found fewer
// waiting for a first token than there are queues, and the share of queues that the
// n found empty in the mean.
func unhindered(rs []Request, w Window, queues int) (n int, idle float64, alone []time.Duration) {
	var waiting []time.Duration // until when each waits
	for _, r := range rs {
		waiting = slices.DeleteFunc(waiting, func(t time.Duration) bool { return t <= r.Due })
		if w.holds(r.Due) && r.Failure != FailCanceled {
			n++
			if free := queues - len(waiting); free > 0 {
				idle += float64(free) / float64(queues)
				if r.OK() {
					alone = append(alone, r.TTFTFromDue())
				}
			}
		}
		waiting = append(waiting, cmp.Or(r.First, r.End))
	}
	return n, idle / float64(max(n, 1)), alone
}

// FlightMemory is how many requests in a row share a TPOT, at least 1, where so many
// are in flight: those share their steps. In M/G/∞ with stays of one length the
// autocovariance of their number is a triangle of one stay to each side, and that of
// its mean over a stay sums up to 3/2 stays, in which so many times the requests in
// flight come. Where steps lengthen with them, more in flight leave later, so that
// their number n drifts back by λ − n/(OSL·ITL(n)) per second: not in one stay, but
// in one over slack (see slackOf), by the derivative at its balance.
func FlightMemory(inFlight, slack float64) float64 {
	return max(1, flightStay*inFlight/max(slack, leastSlack))
}

// FlightRequests is how many requests of a Poisson load have to be judged before
// their TPOT is given an interval, where so many are in flight, and the time
// between tokens has a slack, above 0 to 1: that of a request alone over that of
// as many, where it grows by a line. It is a quarter more than in the mean, since
// what is in flight, and the slack that a load shows, vary.
func FlightRequests(inFlight, slack float64) int {
	return int(math.Ceil(1.25 * flightLeast * FlightMemory(inFlight, slack)))
}

// flightMemory is that of TPOT.
func flightMemory(inFlight, slack float64) memory {
	floor := FlightMemory(inFlight, slack)
	return memory{floor: floor, least: flightLeast * floor}
}

// describe sums up latencies of one load, in the order of their requests. Half and
// Neff are zero where the load was too short to say.
func (m memory) describe(xs []time.Duration) Distribution {
	ys := floats(xs)
	d, _ := describe(slices.Clone(ys))
	s := underLoad(ys, m)
	d.Half, d.Neff = round(s.half), s.count
	return d
}

// underLoad is how sure the mean of latencies is; zero where they are too few.
// They count as many independent ones as their integrated autocorrelation leaves,
// and no more than m does.
//
// Of 400 loads each of queues used by 0.3 to 0.9 (M/D/1 and M/M/1), the interval of
// the mean held the truth in 93 to 97 %, where at least four loads in five were
// long enough for one: from 200 requests on at a utilisation of 0.3 and 0.5, 1,000
// at 0.8 (M/M/1: 4,000), 4,000 at 0.9 (M/M/1: more). Of shorter ones few have an
// interval, as they saw too little of the queue, and it is too narrow more often:
// in 84 % of those of 4,000 requests at 0.9, M/M/1. No more than 7 % of all loads
// had one that missed the truth. Where services vary more than exponential ones,
// waits are more skewed than Student's t supposes: at c² = 4 it is 88 to 92 % of loads
// as long as QueueRequests says. On the simulator, loads as long as QueueRequests and
// FlightRequests say: the table in docs/method.md.
func underLoad(ys []float64, m memory) spread {
	n := float64(len(ys))
	if n < 2 || n < m.least {
		return spread{}
	}
	rs := residuals(ys, false)
	hang := 1.0
	if sumSquares(rs) > n { // not all alike, to a nanosecond
		hang = integrated(rs)
	}
	count := n / max(m.floor, hang)
	if count < 2 {
		return spread{}
	}
	return spread{half: studentAt(count-1) * math.Sqrt(sumSquares(rs)/(n-1)/count), count: count}
}

// integrated is the sum of the autocorrelations of residuals over all lags, to
// both sides, at least 1: Geyer's initial monotone sequence (Statistical Science
// 7(4), 1992, §3.3). It ends where half the residuals would be one.
func integrated(rs []float64) float64 {
	ss := sumSquares(rs)
	if ss == 0 {
		return 1
	}
	sum, last := -1.0, math.Inf(1)
	for k := 0; k+1 < len(rs) && 2*sum <= float64(len(rs)); k += 2 {
		pair := (lagged(rs, k) + lagged(rs, k+1)) / ss
		if pair <= 0 {
			break
		}
		last = min(last, pair)
		sum += 2 * last
	}
	return max(sum, 1)
}

// lagged is the sum of the products of residuals k apart.
func lagged(rs []float64, k int) (sum float64) {
	for i, r := range rs[k:] {
		sum += r * rs[i]
	}
	return sum
}
