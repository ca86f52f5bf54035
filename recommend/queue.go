package recommend

import (
	"math"
	"time"

	"plimsoll/profile"
)

// A prefill engine that takes one prompt at a time, all of one length, under
// Poisson arrivals is an M/D/1 queue: service D, utilisation ρ = λD < 1.
//
//	mean wait   W = ρD / (2(1−ρ))                     Pollaczek–Khinchine
//	P(W ≤ x)    = (1−ρ) Σ_{k=0}^{⌊x/D⌋} (λ(kD−x))^k/k! · e^{−λ(kD−x)}
//	                                                  Crommelin 1932; Erlang 1909
//	P(W > x)    ~ (1−ρ)/(ρe^{θD} − 1) · e^{−θx}, θ > 0 root of λ(e^{θD}−1) = θ
//	                                                  Cramér–Lundberg, for large x/D
//
// The sum's terms alternate in sign and grow, so beyond exactTerms services the
// asymptote, which has long converged there, takes over.
const exactTerms = 8

// waitMean is the mean wait in units of D, at utilisation rho in [0, 1).
func waitMean(rho float64) float64 { return rho / (2 * (1 - rho)) }

// waitCDF is P(W ≤ x·D) at utilisation rho in (0, 1); x >= 0 in units of D.
func waitCDF(rho, x float64) float64 {
	if x > exactTerms {
		theta := decayRate(rho)
		return 1 - (1-rho)/(rho*math.Exp(theta)-1)*math.Exp(-theta*x)
	}
	sum := 0.0
	for k := 0; k <= int(x); k++ {
		u := rho * (float64(k) - x) // <= 0
		lg, _ := math.Lgamma(float64(k) + 1)
		sum += math.Pow(u, float64(k)) / math.Exp(lg) * math.Exp(-u)
	}
	return min(1, (1-rho)*sum)
}

// decayRate is θ·D: the positive root of ρ(e^θ − 1) = θ, by bisection. The
// root lies in (0, 2(1−ρ)/ρ], since e^θ − 1 >= θ + θ²/2.
func decayRate(rho float64) float64 {
	lo, hi := 0.0, 2*(1-rho)/rho
	for range 200 {
		mid := (lo + hi) / 2
		if rho*math.Expm1(mid) < mid {
			lo = mid
		} else {
			hi = mid
		}
	}
	return (lo + hi) / 2
}

// SustainableUtilization is the largest utilisation at which waiting plus
// service still meets limit by stat, for Poisson arrivals at a server whose
// service takes mean on average and service by the same statistic. It is 0
// where service alone misses the limit, and below 1 always.
//
// The wait is that of constant service at mean; the sum of the wait's quantile
// and the service's own is at or above the quantile of their sum as long as
// service hardly varies, which is what one prompt length gives.
func SustainableUtilization(mean, service, limit time.Duration, stat profile.Statistic) float64 {
	slack := float64(limit - service)
	if mean <= 0 || slack <= 0 {
		return 0
	}
	x := slack / float64(mean)
	if stat == profile.Mean {
		return 2 * x / (1 + 2*x) // ρ/(2(1−ρ)) = x
	}
	q := quantileOf(stat)
	lo, hi := 0.0, 1.0
	for range 60 {
		mid := (lo + hi) / 2
		if waitCDF(mid, x) >= q {
			lo = mid
		} else {
			hi = mid
		}
	}
	return lo
}

// quantileOf is the probability that a percentile statistic names.
func quantileOf(s profile.Statistic) float64 {
	switch s {
	case profile.P50:
		return 0.50
	case profile.P90:
		return 0.90
	case profile.P95:
		return 0.95
	case profile.P99:
		return 0.99
	default:
		return 0.50
	}
}
