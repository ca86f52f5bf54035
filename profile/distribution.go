package profile

import (
	"math"
	"slices"
	"time"

	"gonum.org/v1/gonum/stat"
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

	// Neff is how many independent samples the N are worth: gaps of one engine
	// step are one, and so are steps that hang together. 0 = not worked out.
	Neff float64 `json:"n_eff,omitempty"`
	// In50 … In99 are where the percentiles may be, ns, by 95 % confidence from
	// Neff samples; zero where those are too few.
	In50 Interval `json:"p50_interval_ns,omitzero"`
	In90 Interval `json:"p90_interval_ns,omitzero"`
	In95 Interval `json:"p95_interval_ns,omitzero"`
	In99 Interval `json:"p99_interval_ns,omitzero"`
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

// Interval is where the figure that a Statistic names may be, ns, by 95 %
// confidence; zero where there are too few independent samples to say.
func (d Distribution) Interval(s Statistic) Interval {
	switch s {
	case P50:
		return d.In50
	case P90:
		return d.In90
	case P95:
		return d.In95
	case P99:
		return d.In99
	case Mean:
	}
	if d.Half <= 0 || d.Half >= d.Mean {
		return Interval{}
	}
	return Interval{Low: float64(d.Mean - d.Half), High: float64(d.Mean + d.Half)}
}

// Describe sums up independent samples. Quantiles are linear interpolations
// between order statistics (Hyndman & Fan 1996, type 7, numpy's default); Half
// is Student's t on N−1 degrees of freedom. It leaves Neff and the percentiles'
// intervals to Sequence.
func Describe(xs []time.Duration) Distribution {
	d, _ := describe(floats(xs))
	return d
}

// Sequence sums up samples that were taken one after another, in that order, and
// may hang together: latencies of requests by the instants of their sending.
func Sequence(xs []time.Duration) Distribution {
	ys := floats(xs)
	d, sorted := describe(slices.Clone(ys))
	return d.sure(seriesSpread(ys, false), sorted)
}

func floats(xs []time.Duration) []float64 {
	v := make([]float64, len(xs))
	for i, x := range xs {
		v[i] = float64(x)
	}
	return v
}

// describe sorts v, ns, and gives it back.
func describe(v []float64) (Distribution, []float64) {
	if len(v) == 0 {
		return Distribution{}, nil
	}
	slices.Sort(v)
	d := Distribution{
		N:   len(v),
		Min: round(v[0]), Max: round(v[len(v)-1]),
		P50: round(Quantile(v, 0.50)), P90: round(Quantile(v, 0.90)), P95: round(Quantile(v, 0.95)), P99: round(Quantile(v, 0.99)),
	}
	if len(v) < 2 {
		d.Mean = round(v[0])
		return d, v
	}
	mean, std := stat.MeanStdDev(v, nil)
	d.Mean, d.Std = round(mean), round(std)
	d.Half = round(studentAt(float64(len(v)-1)) * std / math.Sqrt(float64(len(v))))
	return d, v
}

// sure replaces d's intervals by those of a spread: of the percentiles, the order
// statistics of so many samples spread over sorted as its own are.
func (d Distribution) sure(s spread, sorted []float64) Distribution {
	if d.N == 0 {
		return d
	}
	d.Half, d.Neff = round(s.half), s.count
	n := int(s.count)
	at := func(st Statistic) Interval {
		lo, hi, ok := ranks(n, st.Quantile())
		if !ok {
			return Interval{}
		}
		level := func(rank int) float64 { return Quantile(sorted, float64(rank-1)/float64(n-1)) }
		return Interval{Low: level(lo), High: level(hi)}
	}
	d.In50, d.In90, d.In95, d.In99 = at(P50), at(P90), at(P95), at(P99)
	return d
}

// widened adds by, ns, to both sides of every interval of a percentile.
func (d Distribution) widened(by float64) Distribution {
	for _, i := range []*Interval{&d.In50, &d.In90, &d.In95, &d.In99} {
		if *i != (Interval{}) {
			*i = Interval{Low: max(0, i.Low-by), High: i.High + by}
		}
	}
	return d
}

// Quantile is the share q, 0 to 1, of v, which is sorted and not empty, by Hyndman & Fan's type 7: h = (n−1)q, linear between
// the neighbours. gonum's stat.Quantile offers types 1 and 4 only.
func Quantile(v []float64, q float64) float64 {
	h := q * float64(len(v)-1)
	i := int(h)
	if i+1 >= len(v) {
		return v[len(v)-1]
	}
	return v[i] + (h-float64(i))*(v[i+1]-v[i])
}

// Milliseconds is d in ms, for what speaks in them: flags, NPZ files, text.
func Milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func round(x float64) time.Duration { return time.Duration(math.Round(x)) }

// Z99 is the 99th percentile of the standard normal distribution.
const Z99 = 2.3263478740408408

// Spread2 is the squared coefficient of variation of lengths that are log-normal
// through a mean and a 99th percentile, as capacity plans take them; 1 (as if
// exponential) where they do not say.
func Spread2(mean, p99 float64) float64 {
	if !(mean > 0 && p99 >= mean) {
		return 1
	}
	// ln(p99/mean) = z·σ − σ²/2; the smaller of both solutions. Beyond
	// e^(z²/2) there is none, and σ = z is the nearest.
	sigma := Z99 - math.Sqrt(max(0, Z99*Z99-2*math.Log(p99/mean)))
	return math.Expm1(sigma * sigma)
}

// Context is the mean tokens in the KV cache of a running sequence, of requests of mean
// lengths whose OSL has the squared coefficient of variation spread2. Longer answers
// run longer: a running one has generated OSL·(1 + spread2)/2 tokens, OSL/2 only where
// all are alike.
func Context(isl, osl, spread2 float64) float64 {
	return isl + osl*(1+min(spread2, mostSpread2))/2
}

// mostSpread2 is where a running sequence would have generated half the p99. More would come
// from answers rarer than one in a hundred, and a p99 says nothing about those.
const mostSpread2 = 10
