package profile

import (
	"math"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"
)

// minBatches is how few batches a series is cut into at most: their spread is
// what the interval rests on, and fewer than twenty say little of their own
// correlation (Steiger et al., ASAP3, ACM TOMACS 15(1), 2005).
const minBatches = 20

// maxCorrelation bounds what is believed of the correlation that is left between
// batches; beyond it the series is too short for any interval.
const maxCorrelation = 0.8

// spread is how sure the mean of a series is.
type spread struct {
	half  float64 // half the 95 % interval of the mean; 0 = not known
	count float64 // independent samples that would give the same interval, at most those there are
}

// seriesSpread is the spread of the mean of values that follow each other in
// time, such as those of engine steps, which may depend on the ones before.
//
// It is the method of batch means: batches of one value are doubled until the
// lag-1 correlation of their means is within noise (1/√batches, a test at about
// 32 %), while minBatches stay; what correlation is left widens the interval by
// √((1+ρ)/(1−ρ)), as of a first-order autoregression (Lada, Steiger & Wilson,
// SBatch, J. Simulation 2(2), 2008, §3.4). Where drift is set, all of it is
// about a straight line over time, which is no noise: contexts grow. Too wide an
// interval is a small price, but samples that are lost to chance are measured
// again, so that count believes a correlation from two standard errors on.
func seriesSpread(ys []float64, drift bool) spread {
	lost := 1 // degrees of freedom
	if drift {
		lost = 2
	}
	n := len(ys)
	if n < lost+2 {
		return spread{count: float64(n)}
	}
	size, ms := 1, ys
	rs := residuals(ms, drift)
	one := sumSquares(rs) / float64(n-lost) // variance of a single value
	rho := lag1(rs, lost)
	related := rho >= 2/math.Sqrt(float64(n))
	for math.Abs(rho) >= 1/math.Sqrt(float64(len(ms))) && n/(2*size) >= minBatches {
		size *= 2
		ms = batchMeans(ys, size)
		rs = residuals(ms, drift)
		rho = lag1(rs, lost)
	}
	k := float64(len(ms))
	variance := sumSquares(rs) / (k - float64(lost)) / k // of the mean
	if math.Abs(rho) >= 1/math.Sqrt(k) && rho > 0 {
		r := min(rho, maxCorrelation)
		variance *= (1 + r) / (1 - r)
	}
	s := spread{half: studentAt(k-float64(lost)) * math.Sqrt(variance), count: float64(n)}
	if related {
		s.count = max(1, min(float64(n), one/variance))
	}
	return s
}

// residuals are of ys about their mean, or their line over the index.
func residuals(ys []float64, line bool) []float64 {
	mid, mean := float64(len(ys)-1)/2, 0.0
	for _, y := range ys {
		mean += y / float64(len(ys))
	}
	slope := 0.0
	if line {
		xy, xx := 0.0, 0.0
		for i, y := range ys {
			x := float64(i) - mid
			xy, xx = xy+x*(y-mean), xx+x*x
		}
		slope = xy / xx
	}
	rs := make([]float64, len(ys))
	for i, y := range ys {
		rs[i] = y - mean - slope*(float64(i)-mid)
	}
	return rs
}

// lag1 is the lag-1 autocorrelation of residuals. Those about a mean are short
// of the truth by (1+4ρ)/n, those about a line by (2+4ρ)/n (Kendall, Biometrika
// 41, 1954; with a trend, Tanaka, Econometric Theory 1, 1985), which is added.
func lag1(rs []float64, lost int) float64 {
	ss := sumSquares(rs)
	if ss == 0 {
		return 0
	}
	sum := 0.0
	for i := range rs[1:] {
		sum += rs[i] * rs[i+1]
	}
	rho := sum / ss
	return rho + (float64(lost)+4*max(rho, 0))/float64(len(rs))
}

// batchMeans are the means of consecutive batches; an incomplete first one, the
// nearest to a transient, is left out.
func batchMeans(ys []float64, size int) []float64 {
	ys = ys[len(ys)%size:]
	ms := make([]float64, len(ys)/size)
	for i, y := range ys {
		ms[i/size] += y / float64(size)
	}
	return ms
}

func sumSquares(vs []float64) (ss float64) {
	for _, v := range vs {
		ss += v * v
	}
	return ss
}

// studentAt is the 97.5 % point of Student's t.
func studentAt(freedom float64) float64 {
	return distuv.StudentsT{Mu: 0, Sigma: 1, Nu: freedom}.Quantile(0.975)
}

// MeanInterval is the mean of independent values and half of its 95 % interval, by
// Student's t; the half is NaN of fewer than two, and both are of none.
func MeanInterval(values []float64) (mean, half float64) {
	if len(values) < 2 {
		return stat.Mean(values, nil), math.NaN()
	}
	mean, std := stat.MeanStdDev(values, nil)
	return mean, studentAt(float64(len(values)-1)) * std / math.Sqrt(float64(len(values)))
}
