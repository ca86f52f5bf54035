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

// Service is what a prefill engine takes for one prompt.
type Service struct {
	Mean, Std time.Duration
	At        time.Duration // by the statistic of the SLA
	// Batch is how many prompts one step takes; +Inf where that is not known.
	Batch float64
}

// SustainableUtilization is the largest utilisation at which waiting plus
// service are expected to meet limit by stat over a load (see heldOver), for
// Poisson arrivals. It is 0 where service alone misses the limit, and
// below 1 always.
//
// The mean wait is that of M/G/1, ρD(1+c²)/(2(1−ρ)), by the coefficient of
// variation c of the services (Pollaczek–Khinchine); the sum of a quantile of
// M/D/1's wait and the service's own is at or above the quantile of their sum as
// long as service hardly varies, which is what one prompt length gives. Both wait
// for who comes behind.
func SustainableUtilization(s Service, limit time.Duration, stat profile.Statistic) float64 {
	slack := float64(limit - s.At)
	if s.Mean <= 0 || slack <= 0 {
		return 0
	}
	x, c := slack/float64(s.Mean), float64(s.Std)/float64(s.Mean)
	lo, hi := 0.0, 1.0
	for range 60 {
		if mid := (lo + hi) / 2; s.holds(mid, c, x, stat) {
			lo = mid
		} else {
			hi = mid
		}
	}
	return lo
}

// holds reports whether the wait at utilisation rho, in units of the mean service,
// is expected to be at most x by stat over a load.
func (s Service) holds(rho, c, x float64, stat profile.Statistic) bool {
	if rho <= 0 || rho >= 1 {
		return rho <= 0
	}
	v, spread := waitMean(rho)*(1+c*c), spreadOf(profile.QueueMemory(rho, c), profile.QueueRequests(rho, c))
	if q := stat.Quantile(); q > 0 {
		return waitTogether(rho, x, behind(rho, v, s.Batch)/rho) >= surer(q, spread)
	}
	longer := 1 + behind(rho, v, s.Batch)/v
	third := rho / (3 * (1 - rho)) * (1 + 3*c*c)      // λE[S³]/(3(1−ρ)), of services that vary little
	std := math.Sqrt(v*v + third + c*c/longer/longer) // E[W²] = 2E[W]² + third: Takács 1962
	return longer*(v+spread*std) <= x
}

// behind is how many prompts that come after another have their first token with
// it, in the mean: all that wait for the same step, of batch of them at most, have
// theirs at its end. A step takes who came while the one before ran, so that with
// the work v that an arrival finds, in services, and the rest R of the step that
// runs, v = R + ρR (PASTA; Little), and ρR more come in that rest; half a step on
// average where more wait than one takes. Work is the same in whatever order: v is
// M/G/1's.
func behind(rho, v, batch float64) float64 { return min(rho*v/(1+rho), batch/2) }

// waitTogether is P(W ≤ x·D) where those who wait do so for more who come behind
// them, besides: Poisson's number of them, after in the mean.
func waitTogether(rho, x, after float64) float64 {
	p, in := math.Exp(-after), 1-rho
	for k := 0.0; k <= x && (k < after || p > negligible); k++ {
		in += p * max(0, waitCDF(rho, x-k)-(1-rho))
		p *= after / (k + 1)
	}
	return in
}
