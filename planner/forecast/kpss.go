package forecast

import (
	"math"
	"slices"
)

// kpssLevel is the 5 % critical value of the statistic around a level
// (Kwiatkowski, Phillips, Schmidt and Shin, Journal of Econometrics 54, 1992,
// table 1).
const kpssLevel = 0.463

// maxDifferences is the most that a series is differenced.
const maxDifferences = 2

// differences is how often a series has to be differenced for KPSS not to refuse
// at 5 % that it is stationary. Missing values are left out.
func differences(values []float64) int {
	x := slices.DeleteFunc(slices.Clone(values), math.IsNaN)
	for d := range maxDifferences {
		if !(kpss(x) > kpssLevel) {
			return d
		}
		for i := 1; i < len(x); i++ {
			x[i-1] = x[i] - x[i-1]
		}
		x = x[:len(x)-1]
	}
	return maxDifferences
}

// kpss is the statistic around a level, Σ S_t² / (n² s²), with S_t the sums of the
// residuals and s² their long-run variance with Bartlett weights over
// ⌊3·√n/13⌋ lags, as R's forecast::ndiffs takes them. NaN for a constant.
func kpss(x []float64) float64 {
	n := float64(len(x))
	lags := int(3 * math.Sqrt(n) / 13)
	var mean float64
	for _, v := range x {
		mean += v / n
	}
	var sum, squares, longRun float64
	for t := range x {
		sum += x[t] - mean
		squares += sum * sum
		longRun += (x[t] - mean) * (x[t] - mean)
		for l := 1; l <= min(lags, t); l++ {
			weight := 1 - float64(l)/float64(lags+1)
			longRun += 2 * weight * (x[t] - mean) * (x[t-l] - mean)
		}
	}
	if !(longRun > 0) {
		return math.NaN()
	}
	return squares / n / longRun
}
