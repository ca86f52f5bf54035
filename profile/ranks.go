package profile

import (
	"math"
	"sort"

	"gonum.org/v1/gonum/mathext"
)

// tail is the share that a 95 % interval leaves out on each side.
const tail = 0.025

// Quantile is the probability that a percentile names; 0 for the mean.
func (s Statistic) Quantile() float64 {
	switch s {
	case P50:
		return 0.50
	case P90:
		return 0.90
	case P95:
		return 0.95
	case P99:
		return 0.99
	case Mean:
		return 0
	default:
		return 0
	}
}

// SamplesFor is how many independent samples a statistic needs to have a 95 %
// interval: a percentile q those of which the largest is above it but for 2.5 %,
// ln 0.025 / ln q (6 for P50, 36, 72, 368 for P99); five for a mean and its
// spread.
func SamplesFor(s Statistic) int {
	q := s.Quantile()
	if q == 0 {
		return 5
	}
	return int(math.Ceil(math.Log(tail)/math.Log(q) - 1e-9))
}

// ranks are the order statistics, counted from 1, between which quantile q of n
// independent samples lies with at least 95 %, each tail at most 2.5 %: the
// interval [X(lo), X(hi)] misses it where fewer than lo or at least hi of the
// samples are below, and that count is binomial (Conover, Practical
// Nonparametric Statistics, 3rd ed., §3.2). False where n is too small.
func ranks(n int, q float64) (lo, hi int, ok bool) {
	if n < 1 || q <= 0 || q >= 1 {
		return 0, 0, false
	}
	lo = sort.Search(n, func(k int) bool { return binomialCDF(k, n, q) > tail })        // P(B ≤ lo−1) ≤ tail
	hi = sort.Search(n, func(k int) bool { return binomialCDF(k, n, q) >= 1-tail }) + 1 // P(B ≤ hi−1) ≥ 1−tail
	return lo, hi, lo >= 1 && hi <= n
}

// binomialCDF is P(B ≤ k) for B of n trials with probability q, by the
// regularised incomplete beta function.
func binomialCDF(k, n int, q float64) float64 {
	switch {
	case k < 0:
		return 0
	case k >= n:
		return 1
	}
	return mathext.RegIncBeta(float64(n-k), float64(k)+1, 1-q)
}

// miss90 is what a 90 % interval leaves out on each side.
const miss90 = 0.05

// SharesFor is how many independent samples Shares needs to end below 1.
func SharesFor(q float64) float64 { return math.Log(miss90) / math.Log(q) }

// Shares are the shares of n independent samples, which need be no whole number, between
// which quantile q of their distribution lies with 90 %: ranks as numbers without a step,
// 0 and 1 where n is too small for any.
func Shares(n, q float64) (lo, hi float64) {
	beyond := func(c float64) float64 { return mathext.RegIncBeta(n-c, c+1, q) } // P(c samples at most are beyond)
	solve := func(a, b, p float64) float64 {
		for range 60 {
			if m := (a + b) / 2; beyond(m) < p {
				a = m
			} else {
				b = m
			}
		}
		return b
	}
	mean, hi := n*(1-q), 1.0
	if n >= SharesFor(q) {
		hi = 1 - solve(0, mean, miss90)/n
	}
	if n < 2 || beyond(n-2) < 1-miss90 {
		return 0, hi
	}
	return 1 - (solve(max(0, mean-1), n-2, 1-miss90)+1)/n, hi
}

// Worth is how many independent requests the requests of these batches are worth, by how
// many of each batch missed: as many as would spread so from one batch to the next (see
// seriesSpread). It is all of them where none missed, and 0 where the batches are too few to
// say.
func Worth(missed, of []float64) float64 {
	all, misses := 0.0, 0.0
	for i := range of {
		all, misses = all+of[i], misses+missed[i]
	}
	if len(of) < minBatches || all == 0 {
		return 0
	}
	p, more := misses/all, make([]float64, len(of)) // than the share's, of each batch
	for i := range of {
		more[i] = (missed[i] - p*of[i]) * float64(len(of)) / all
	}
	half := seriesSpread(more, false).half
	if half == 0 {
		return all
	}
	return min(all, p*(1-p)*z95*z95/(half*half))
}
