package profile

import (
	"math"
	"slices"
	"time"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"
)

// Distribution sums up a sample of latencies. N = 0 means that there was none.
type Distribution struct {
	N    int           `json:"n"`
	Mean time.Duration `json:"mean_ns"`
	Std  time.Duration `json:"std_ns"` // sample standard deviation; 0 for N < 2
	Min  time.Duration `json:"min_ns"`
	P50  time.Duration `json:"p50_ns"`
	P90  time.Duration `json:"p90_ns"`
	P95  time.Duration `json:"p95_ns"`
	P99  time.Duration `json:"p99_ns"`
	Max  time.Duration `json:"max_ns"`
	// Half is half the width of the 95 % confidence interval of Mean; 0 where
	// the sample is too small to give one.
	Half time.Duration `json:"half95_ns"`
}

// At is the figure that a Statistic names; Mean for an unknown one.
func (d Distribution) At(s Statistic) time.Duration {
	switch s {
	case P50:
		return d.P50
	case P90:
		return d.P90
	case P95:
		return d.P95
	case P99:
		return d.P99
	case Mean:
		return d.Mean
	default:
		return d.Mean
	}
}

// Describe sums up independent samples. Quantiles are linear interpolations
// between order statistics (Hyndman & Fan 1996, type 7, numpy's default); Half
// is Student's t on N−1 degrees of freedom.
func Describe(xs []time.Duration) Distribution {
	if len(xs) == 0 {
		return Distribution{}
	}
	v := make([]float64, len(xs))
	for i, x := range xs {
		v[i] = float64(x)
	}
	slices.Sort(v)
	d := Distribution{
		N:   len(v),
		Min: time.Duration(v[0]), Max: time.Duration(v[len(v)-1]),
		P50: quantile(v, 0.50), P90: quantile(v, 0.90), P95: quantile(v, 0.95), P99: quantile(v, 0.99),
	}
	if len(v) < 2 {
		d.Mean = time.Duration(v[0])
		return d
	}
	mean, std := stat.MeanStdDev(v, nil)
	d.Mean, d.Std = round(mean), round(std)
	d.Half = round(studentHalf(std, len(v)))
	return d
}

// studentHalf is half the width of the 95 % interval of the mean of n
// independent values with sample standard deviation std.
func studentHalf(std float64, n int) float64 {
	if n < 2 {
		return 0
	}
	t := distuv.StudentsT{Mu: 0, Sigma: 1, Nu: float64(n - 1)}.Quantile(0.975)
	return t * std / math.Sqrt(float64(n))
}

// quantile of sorted v by Hyndman & Fan's type 7: h = (n−1)q, linear between
// the neighbours. gonum's stat.Quantile offers types 1 and 4 only.
func quantile(v []float64, q float64) time.Duration {
	h := q * float64(len(v)-1)
	i := int(h)
	if i+1 >= len(v) {
		return round(v[len(v)-1])
	}
	return round(v[i] + (h-float64(i))*(v[i+1]-v[i]))
}

// Milliseconds is d in ms, for what speaks in them: flags, NPZ files, text.
func Milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func round(x float64) time.Duration { return time.Duration(math.Round(x)) }
