package planner

import (
	"encoding/json"
	"math"
	"slices"
	"testing"
	"time"

	"plimsoll/profile"
)

// A bucket that a percentile lies in says that it is above a limit only where all of it is.
func TestPercentile(t *testing.T) {
	bucket := func(low, high time.Duration) Percentile[time.Duration] {
		return Percentile[time.Duration]{Figure: Known(high), Low: low, High: high}
	}
	open := Percentile[time.Duration]{Figure: Known(10 * time.Second), Low: 10 * time.Second, Open: true}
	for _, c := range []struct {
		p                Percentile[time.Duration]
		limit            time.Duration
		above, straddles bool
		json, words      string
	}{
		{Exactly(20 * time.Millisecond), 20 * time.Millisecond, false, false, "[20000000,20000000]", "20ms"},
		{Exactly(21 * time.Millisecond), 20 * time.Millisecond, true, false, "[21000000,21000000]", "21ms"},
		{bucket(10*time.Millisecond, 25*time.Millisecond), 20 * time.Millisecond, false, true, "[10000000,25000000]", "between 10ms and 25ms"},
		{bucket(10*time.Millisecond, 25*time.Millisecond), 25 * time.Millisecond, false, false, "[10000000,25000000]", "between 10ms and 25ms"},
		{bucket(20*time.Millisecond, 23*time.Millisecond), 20 * time.Millisecond, true, false, "[20000000,23000000]", "between 20ms and 23ms"},
		{open, 20 * time.Second, false, true, "[10000000000,null]", "above 10s"},
		{open, 10 * time.Second, true, false, "[10000000000,null]", "above 10s"},
		{Percentile[time.Duration]{}, time.Second, false, false, "null", "missing"},
	} {
		b, err := json.Marshal(c.p)
		if err != nil || c.p.Above(c.limit) != c.above || c.p.Straddles(c.limit) != c.straddles || string(b) != c.json || c.p.String() != c.words {
			t.Errorf("%v at %v: above %v, straddles %v, %s", c.p, c.limit, c.p.Above(c.limit), c.p.Straddles(c.limit), b)
		}
	}
}

// The limits of an SLA are bounds, those around them narrow, and the others as they were.
func TestBoundsAround(t *testing.T) {
	own := Bounds{TTFT: []float64{0.001, 0.1, 0.25, 0.5, 5}, ITL: []float64{0.001, 0.01, 0.025, 1}, TPOT: nil, ISL: []float64{100}}
	got := own.Around(profile.SLA{TTFT: 400 * time.Millisecond, ITL: 14 * time.Millisecond})
	for what, x := range map[string]struct {
		bounds []float64
		limit  float64
		has    []float64
	}{"TTFT": {got.TTFT, 0.4, []float64{0.001, 0.1, 5}}, "ITL": {got.ITL, 0.014, []float64{0.001, 1}}} {
		if !slices.IsSorted(x.bounds) || !slices.Contains(x.bounds, x.limit) {
			t.Errorf("%s: %v", what, x.bounds)
		}
		for _, v := range x.has {
			if !slices.Contains(x.bounds, v) {
				t.Errorf("%s has no %v any more: %v", what, v, x.bounds)
			}
		}
		for i, v := range x.bounds {
			if i > 0 && v > x.limit/2.5 && v < 2.5*x.limit && v > 1.2*x.bounds[i-1] {
				t.Errorf("%s: from %v to %v", what, x.bounds[i-1], v)
			}
		}
	}
	if got.TPOT != nil || !slices.Equal(got.ISL, own.ISL) {
		t.Errorf("TPOT %v, ISL %v", got.TPOT, got.ISL)
	}
}

// Of a histogram the share above a limit is known at its bounds.
func TestShareAboveALimit(t *testing.T) {
	h, _ := NewHistogram(map[float64]float64{0.01: 50, 0.025: 99, math.Inf(1): 100}, 1)
	s := SpreadOf(h, Seconds, 0)
	for _, c := range []struct {
		limit              time.Duration
		least, most, width float64
	}{
		{5 * time.Millisecond, 0.5, 1, math.Inf(1)},
		{10 * time.Millisecond, 0.5, 0.5, 1},
		{20 * time.Millisecond, 0.01, 0.5, 2.5},
		{25 * time.Millisecond, 0.01, 0.01, 1},
		{time.Second, 0, 0.01, math.Inf(1)},
	} {
		least, most, width := s.Above(c.limit)
		if math.Abs(least-c.least) > 1e-9 || math.Abs(most-c.most) > 1e-9 || width != c.width {
			t.Errorf("above %v: %v to %v, bucket of %v", c.limit, least, most, width)
		}
	}
}
