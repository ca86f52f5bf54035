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
