package forecast

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"
)

// rootMeanSquare is 0 for none.
func rootMeanSquare(errs []float64) float64 {
	if len(errs) == 0 {
		return 0
	}
	var squares float64
	for _, e := range errs {
		squares += e * e
	}
	return math.Sqrt(squares / float64(len(errs)))
}

// quantile is the conformal one: see Predictor.Quantile.
func quantile(errs []float64, prob float64) float64 {
	n := len(errs)
	if n == 0 {
		return 0
	}
	sorted := slices.Clone(errs)
	slices.Sort(sorted)
	prob = min(max(0, finite(prob, 1)), 1)
	// A hair off, so that (n+1)·prob which is whole but for rounding stays whole.
	rank := int(math.Ceil(float64(n+1)*prob - 1e-9))
	switch {
	case rank < 1:
		return sorted[0]
	case rank <= n:
		return sorted[rank-1]
	}
	// The quantile of probability 1 is unbounded; six nines are far enough.
	normal := distuv.UnitNormal.Quantile(min(prob, 0.999999)) * rootMeanSquare(sorted)
	return max(sorted[n-1], normal)
}

// finite is v, or other where v is none.
func finite(v, other float64) float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return other
	}
	return v
}
