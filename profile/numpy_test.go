package profile

import (
	"encoding/json"
	"math"
	"os"
	"testing"
)

// numbers is testdata/statistics.json, by numpy, scipy and statsmodels
// (testdata/statistics.py).
type numbers struct {
	Ranks []struct {
		N, Lo, Hi int
		Q         float64
		OK        bool
	}
	Samples map[Statistic]int
	Series  []struct {
		Y          []float64
		Lag1, Half float64
	}
}

func reference(t *testing.T) (n numbers) {
	t.Helper()
	b, err := os.ReadFile("testdata/statistics.json")
	if err == nil {
		err = json.Unmarshal(b, &n)
	}
	if err != nil || len(n.Ranks) == 0 || len(n.Series) == 0 {
		t.Fatalf("testdata/statistics.json: %v", err)
	}
	return n
}

func TestRanksAgainstScipy(t *testing.T) {
	ref := reference(t)
	for _, c := range ref.Ranks {
		lo, hi, ok := ranks(c.N, c.Q)
		if ok != c.OK || ok && (lo != c.Lo || hi != c.Hi) {
			t.Errorf("quantile %v of %d: ranks %d to %d (%v), want %d to %d (%v)", c.Q, c.N, lo, hi, ok, c.Lo, c.Hi, c.OK)
		}
	}
	for s, want := range ref.Samples {
		if got := SamplesFor(s); got != want {
			t.Errorf("%s takes %d samples, want %d", s, got, want)
		}
		if _, _, ok := ranks(SamplesFor(s), s.Quantile()); !ok {
			t.Errorf("%s has no interval from %d samples", s, SamplesFor(s))
		}
		if _, _, ok := ranks(SamplesFor(s)-1, s.Quantile()); ok {
			t.Errorf("%s has an interval from %d samples", s, SamplesFor(s)-1)
		}
	}
}

func TestSeriesAgainstStatsmodels(t *testing.T) {
	for i, c := range reference(t).Series {
		n := float64(len(c.Y))
		rs := residuals(c.Y, true)
		if got, want := lag1(rs, 2), c.Lag1+(2+4*max(c.Lag1, 0))/n; math.Abs(got-want) > 1e-9 {
			t.Errorf("series %d: lag-1 correlation %v, want %v", i, got, want)
		}
		s := seriesSpread(c.Y, true)
		if independent := math.Abs(lag1(rs, 2)) < 1/math.Sqrt(n); independent && math.Abs(s.half-c.Half) > 1e-9 {
			t.Errorf("series %d: ± %v, want %v", i, s.half, c.Half)
		} else if !independent {
			t.Logf("series %d hangs together by chance: ± %v", i, s.half)
		}
	}
}
