package latency

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"
)

// Nearest is the fit that explains the observations with the least calibration:
// the one from which Calibrate should start. It is the fit under which they are
// likeliest, when the engine's coefficients lie around the fit's as FactorSpread
// and SpanSpread say and rows around predictions by rowError (the evidence in
// Laplace's approximation: MacKay, Information Theory, Inference, and Learning
// Algorithms, 2003, chapter 28): being off by a factor that one coefficient
// explains counts little. Of equals it is the first. It refuses what Calibrate
// refuses.
func Nearest(fits []Fit, obs []Observation) (Fit, error) {
	if len(fits) == 0 || len(obs) == 0 {
		return Fit{}, errors.New("choosing the nearest fit: want one fit and one point at least")
	}
	ss, err := samples(obs)
	if err != nil {
		return Fit{}, fmt.Errorf("choosing the nearest fit: %w", err)
	}
	fits = slices.Clone(fits)
	for i, f := range fits {
		fits[i] = f.of(obs[0].Model, obs[0].GPU, obs[0].Config.Weights)
		if err := fits[i].Coefficients.Check(); err != nil {
			return Fit{}, fmt.Errorf("choosing the nearest fit: %q: %w", f.Name, err)
		}
	}
	if len(fits) == 1 {
		return fits[0], nil
	}
	best, least := 0, math.Inf(1)
	for i, f := range fits {
		if s := surprise(f.Coefficients, ss); s < least {
			best, least = i, s
		}
	}
	return fits[best], nil
}

// surprise is −2·ln of the evidence for a prior, less what all priors share.
func surprise(prior Coefficients, ss []sample) float64 {
	k := logs(solve(prior, prior, ss))
	rows := slopes(k, ss)
	hessian, _ := normal(k, logs(prior), rows)
	var cholesky mat.Cholesky
	if !cholesky.Factorize(hessian) {
		return math.Inf(1)
	}
	sum := cholesky.LogDet()
	for i, p := range logs(prior) {
		sum += square((k[i] - p) / spread(i))
	}
	for _, r := range rows {
		sum += square(r.residual)
	}
	return sum
}
