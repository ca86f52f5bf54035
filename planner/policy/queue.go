package policy

import (
	"math"
	"time"
)

// queue is a pool of equal servers with one line before them, M/G/n: Poisson
// arrivals at rate per second, service of mean seconds with squared coefficient
// of variation cv2. Waiting is Erlang's C formula scaled by (1+cv2)/2 (Lee and
// Longton 1959), its tail exponential; within a few per cent of simulation for
// cv2 up to 2 or so, and exact for cv2 = 1.
type queue struct {
	rate, mean, cv2 float64
}

// load is the mean number of busy servers that the work takes.
func (q queue) load() float64 { return q.rate * q.mean }

// wait is the waiting in seconds of a pool of n servers: its mean for p = 0,
// else its p quantile; +Inf where n servers do not keep up.
func (q queue) wait(n int, p float64) float64 {
	if q.load() == 0 {
		return 0
	}
	return q.waitOf(n, q.refused(n), p)
}

// refused is Erlang's B of n servers: the share that finds all of them busy, if
// nobody waited.
func (q queue) refused(n int) float64 {
	a, b := q.load(), 1.0
	for k := 1; k <= n; k++ {
		b = a * b / (float64(k) + a*b)
	}
	return b
}

// waitOf is wait where Erlang's B of n servers is known.
func (q queue) waitOf(n int, b, p float64) float64 {
	a := q.load()
	free := float64(n) - a
	if free <= 0 {
		return math.Inf(1)
	}
	waits := b / (1 - a/float64(n)*(1-b)) // Erlang's C: the share that waits at all
	mean := (1 + q.cv2) / 2 * q.mean / free
	if p == 0 {
		return waits * mean
	}
	if waits <= 1-p {
		return 0
	}
	return mean * math.Log(waits/(1-p))
}

// servers is the fewest servers whose wait, mean or p quantile, is at most limit
// seconds. It is found in one pass, since Erlang's B of k servers follows from
// that of k−1.
func (q queue) servers(limit, p float64) int {
	a := q.load()
	if a == 0 {
		return 0
	}
	if !(a < mostEngines) {
		return mostEngines
	}
	b := 1.0
	for k := 1; k < mostEngines; k++ {
		b = a * b / (float64(k) + a*b)
		if float64(k) > a && (q.waitOf(k, b, p) <= limit || float64(k) > 2*a+1000) { // where waiting has vanished long before
			return k
		}
	}
	return mostEngines
}

// mostEngines bounds what a pool may be sized to, whatever was observed.
const mostEngines = 1_000_000

// engineCount is the next whole number of engines, 1 to mostEngines.
func engineCount(x float64) int { return int(math.Min(math.Max(1, math.Ceil(x-1e-9)), mostEngines)) }

// normal is the standard normal's p quantile.
func normal(p float64) float64 { return math.Sqrt2 * math.Erfinv(2*p-1) }

func duration(s float64) time.Duration {
	return time.Duration(math.Min(s*float64(time.Second), math.MaxInt64/2))
}
