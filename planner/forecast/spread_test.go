package forecast

import (
	"math"
	"math/rand/v2"
	"testing"
)

// Ranks are those of split conformal prediction; above them the normal quantile.
func TestQuantilesAreByRank(t *testing.T) {
	errs := []float64{4, -1, 3, 0, 2, -2, 1, -3, 5} // nine: ranks of ten parts
	for prob, want := range map[float64]float64{0: -3, 0.1: -3, 0.2: -2, 0.5: 1, 0.85: 5, 0.9: 5, math.NaN(): 5} {
		if math.IsNaN(prob) {
			continue
		}
		if got := quantile(errs, prob); got != want {
			t.Errorf("quantile %v is %v, want %v", prob, got, want)
		}
	}
	rms := math.Sqrt(69.0 / 9)
	// scipy.stats.norm.ppf(0.99), (0.999999)
	for prob, z := range map[float64]float64{0.99: 2.3263478740408408, 1: 4.753424308822899, 7: 4.753424308822899, math.NaN(): 4.753424308822899} {
		near(t, "quantile", quantile(errs, prob), z*rms, 0, 1e-9)
	}
	if quantile(nil, 0.9) != 0 || rootMeanSquare(nil) != 0 {
		t.Error("a spread without errors")
	}
}

// The quantile covers what it says, where errors are exchangeable: a random walk
// under the last value. With 50 errors a rank is up to 1/51 more than asked for.
func TestQuantilesCover(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 8))
	p := of(t, DefaultOptions(Constant))
	level, n := 1e6, 20_000
	covered := map[float64]int{0.5: 0, 0.9: 0, 0.95: 0}
	for range n {
		level += random.ExpFloat64() - 1
		for prob := range covered {
			if level <= p.Quantile(1, prob) {
				covered[prob]++
			}
		}
		p.Observe(level)
	}
	for prob, c := range covered {
		if got := float64(c) / float64(n); got < prob-0.01 || got > prob+1.0/51+0.01 {
			t.Errorf("the %v quantile covers %.3f", prob, got)
		}
	}
}

// The standard deviation is that of the latest errors, grown as a random walk's
// with the steps and with what is missing: an error after a gap is one of two
// steps, and while the metric is lost the spread grows.
func TestSpreadOfTheLastValue(t *testing.T) {
	p := of(t, DefaultOptions(Constant), 10, 13, gap, 9)
	if got := p.Scored(); got != 2 {
		t.Fatalf("%d errors, want 2", got)
	}
	value, sd := p.Forecast(4)
	near(t, "value", value, 9, 0, 0)
	near(t, "spread", sd, 2*math.Sqrt((9+8)/2.0), 0, 1e-12)
	p.Observe(gap)
	p.Observe(gap)
	_, later := p.Forecast(4)
	near(t, "spread after two gaps", later, math.Sqrt(3)*sd, 0, 1e-12)
}
