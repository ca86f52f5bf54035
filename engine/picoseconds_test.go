package engine

import (
	"math"
	"testing"
	"time"
)

func TestPicoseconds(t *testing.T) {
	for _, tc := range []struct {
		p    Picoseconds
		want time.Duration
	}{
		{0, 0},
		{499, 0},
		{500, 1},
		{-499, 0},
		{-500, -1},
		{1_499, 1},
		{Second, time.Second},
		{math.MaxInt64, 9_223_372_036_854_776},
		{math.MinInt64, -9_223_372_036_854_776},
	} {
		if got := tc.p.Duration(); got != tc.want {
			t.Errorf("%d ps is %d ns, want %d", tc.p, got, tc.want)
		}
	}
	if got := FromDuration(3 * time.Millisecond); got != 3*Millisecond || got.Duration() != 3*time.Millisecond {
		t.Errorf("3 ms became %d ps", got)
	}
	if FromDuration(math.MaxInt64) <= 0 || FromDuration(math.MinInt64) >= 0 {
		t.Error("a long duration overflows")
	}
	for s, want := range map[float64]Picoseconds{1.5: 1500 * Millisecond, -1: -Second, 1e300: math.MaxInt64, -1e300: math.MinInt64, math.NaN(): 0} {
		if got := FromSeconds(s); got != want {
			t.Errorf("%g s is %d ps, want %d", s, got, want)
		}
	}
	if Millisecond.Seconds() != 1e-3 || Second.Milliseconds() != 1e3 {
		t.Error("a unit is off")
	}
}
