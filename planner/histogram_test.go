package planner

import (
	"math"
	"slices"
	"testing"

	"plimsoll/engine/enginetest"

	"pgregory.net/rapid"
)

// The quantile of the values themselves lies between the bounds that buckets give.
func TestQuantileHoldsTheTrueOne(t *testing.T) {
	enginetest.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.Float64Range(0.001, 100), 1, 300).Draw(t, "values")
		bounds := rapid.SliceOfNDistinct(rapid.Float64Range(0.01, 90), 0, 12, rapid.ID[float64]).Draw(t, "bounds")
		p := rapid.Float64Range(0.01, 0.999).Draw(t, "p")
		counts := map[float64]float64{math.Inf(1): float64(len(values))}
		for _, b := range bounds {
			counts[b] = 0
			for _, v := range values {
				if v <= b {
					counts[b]++
				}
			}
		}
		h, ok := NewHistogram(counts, 0)
		if !ok || h.Bent != 0 {
			t.Fatalf("no histogram of %v, or bent by %v", counts, h.Bent)
		}
		slices.Sort(values)
		truth := values[int(math.Ceil(p*float64(len(values))-1e-9))-1] // the smallest with a share p at or below it
		q := h.Quantile(p)
		if !(truth > q.Low && (q.Open || truth <= q.High)) || q.Value < q.Low || !q.Open && q.Value > q.High {
			t.Fatalf("quantile %v is %v, and said to be %+v", p, truth, q)
		}
	})
}

// As Prometheus' histogram_quantile has it: linear between bounds.
func TestQuantileIsLinear(t *testing.T) {
	h, ok := NewHistogram(map[float64]float64{1: 10, 2: 90, 4: 100, math.Inf(1): 100}, 150)
	if !ok || h.Mean() != 1.5 {
		t.Fatalf("histogram %+v, want a mean of 1.5", h)
	}
	for p, want := range map[float64]float64{0: 0, 0.05: 0.5, 0.1: 1, 0.5: 1.5, 0.9: 2, 0.99: 3.8, 1: 4} {
		if got := h.Quantile(p).Value; math.Abs(got-want) > 1e-12 {
			t.Errorf("quantile %v is %v, want %v", p, got, want)
		}
	}
	for _, p := range []float64{-1, 2, math.NaN()} {
		if h.Quantile(p).Known {
			t.Errorf("quantile %v is known", p)
		}
	}
}

func TestNewHistogramRefuses(t *testing.T) {
	inf := math.Inf(1)
	for _, counts := range []map[float64]float64{
		{}, {1: 3}, {inf: 0}, {inf: math.NaN()}, {1: -1, inf: 3}, {inf: inf}, {math.NaN(): 1, inf: 1},
	} {
		if h, ok := NewHistogram(counts, 1); ok {
			t.Errorf("%v is %+v", counts, h)
		}
	}
	// Below 2 there are 50 as well, not 20: the upper quartile is half way on to 4.
	if h, ok := NewHistogram(map[float64]float64{1: 50, 2: 20, 4: 100, inf: 100}, 1); !ok || h.Bent != 0.3 || h.Quantile(0.75).Value != 3 {
		t.Errorf("buckets of mixed series are %+v, want bent by 0.3, the upper quartile at 3", h)
	}
}

// The variation of lognormal lengths is found to a fifth in vLLM's buckets, whose bounds are
// 2 or 2.5 times each other; of equal ones it is what a bucket allows, and not that of its
// ends.
func TestVariation(t *testing.T) {
	of := func(mean, sigma float64, bounds []float64) (float64, bool) {
		const n = 2000
		counts, sum := map[float64]float64{math.Inf(1): n}, 0.0
		for i := range n {
			v := mean * math.Exp(sigma*math.Sqrt2*math.Erfinv(2*(float64(i)+0.5)/n-1)-sigma*sigma/2)
			sum += v
			for _, b := range bounds {
				if v <= b {
					counts[b]++
				}
			}
		}
		h, _ := NewHistogram(counts, sum)
		return SpreadOf(h, Tokens, 0).Variation()
	}
	vllm := []float64{1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 20_000, 50_000, 100_000, 200_000}
	for _, mean := range []float64{30, 300, 1500, 8000} {
		for _, sigma := range []float64{0.3, 0.5, 0.8, 1.2, 1.6} {
			if got, ok := of(mean, sigma, vllm); !ok || math.Abs(got/math.Expm1(sigma*sigma)-1) > 0.2 {
				t.Errorf("mean %v, sigma %v: %v, want %v", mean, sigma, got, math.Expm1(sigma*sigma))
			}
		}
	}
	if got, ok := of(32, 0, []float64{100, 210, 430}); !ok || got > 0.4 {
		t.Errorf("of equal lengths in one bucket: %v", got)
	}
	if _, ok := (Spread[float64]{Count: 100, Mean: Known(3.0)}).Variation(); ok {
		t.Error("known without buckets")
	}
}
