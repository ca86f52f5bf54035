package trace_test

import (
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"plimsoll/engine/enginetest"
	"plimsoll/profile/trace"
)

func TestLogNormalIsScipys(t *testing.T) {
	for _, o := range readOracles(t).LogNormal {
		l := must[trace.LogNormal](t)(trace.NewLogNormal(o.Mean, o.P99, 0))
		if !near(l.Mu, o.Mu, 1e-9) || !near(l.Sigma, o.Sigma, 1e-9) {
			t.Errorf("mean %v, p99 %v: mu %v sigma %v, scipy says %v %v", o.Mean, o.P99, l.Mu, l.Sigma, o.Mu, o.Sigma)
		}
	}
}

// Whatever pair can be had is had: the draws have that mean and that 99th
// percentile, as far as a sample can tell.
func TestLogNormalDrawsHaveMeanAndP99(t *testing.T) {
	for _, o := range []struct{ mean, p99 float64 }{{1155, 4142}, {211, 601}, {3000, 3000}, {5000, 30000}} {
		l := must[trace.LogNormal](t)(trace.NewLogNormal(o.mean, o.p99, 0))
		xs := draws(l, 1_000_000)
		slices.Sort(xs)
		sum, above := 0.0, 0
		for _, x := range xs {
			sum += x
			if x > o.p99 {
				above++
			}
		}
		// Five standard deviations of the mean; of the share above p99, 1e-4 each.
		cv := math.Sqrt(math.Expm1(l.Sigma * l.Sigma))
		if mean := sum / 1e6; math.Abs(mean/o.mean-1) > 5*cv/1e3+1e-4 {
			t.Errorf("%v: mean %v", o, mean)
		}
		if share := float64(above) / 1e6; l.Sigma > 0 && math.Abs(share-0.01) > 5e-4 {
			t.Errorf("%v: share %v above p99", o, share)
		}
	}
}

func TestImpossibleLogNormalsAreRefused(t *testing.T) {
	for _, c := range []struct {
		mean, p99 float64
		want      string
	}{
		{1000, 999, "p99 length 999 with mean length 1000: no log-normal has both: want a p99 of 1000 to 14968.5"},
		{1000, 14969, "want a p99 of 1000 to 14968.5"},
		{1000, math.NaN(), "p99 length NaN"},
		{0.5, 1, "mean length 0.5 is out of range: want 1 to 16777216"},
		{math.Inf(1), 1, "mean length +Inf is out of range"},
	} {
		if _, err := trace.NewLogNormal(c.mean, c.p99, 0); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("mean %v, p99 %v: %v", c.mean, c.p99, err)
		}
	}
	if _, err := trace.NewLogNormal(1000, 14968, 0); err != nil {
		t.Errorf("just possible: %v", err)
	}
}

func TestLengthsStayInBounds(t *testing.T) {
	enginetest.Check(t, func(t *rapid.T) {
		longest := rapid.IntRange(1, 2000).Draw(t, "longest")
		mean := rapid.Float64Range(1, 2000).Draw(t, "mean")
		for _, x := range draws(trace.LogNormal{Mu: math.Log(mean), Sigma: 2, Max: longest}, 100) {
			if x < 1 || x > float64(longest) {
				t.Fatalf("%v outside 1 to %d", x, longest)
			}
		}
	})
}
