package main

import (
	"strconv"
	"strings"
	"testing"

	"plimsoll/engine/enginetest"

	"pgregory.net/rapid"
)

func TestPlain(t *testing.T) {
	for _, c := range []struct {
		x    float64
		want string
	}{
		{0, "0"}, {1, "1"}, {4.762, "4.76"}, {2.15, "2.15"}, {0.96, "0.96"}, {0.9996, "1"}, {0.04362, "0.0436"}, {15330, "15330"}, {15330.26, "15330.3"}, {1e7, "10000000"}, {1e-6, "0.000001"},
	} {
		if got := plain(c.x); got != c.want {
			t.Errorf("plain(%v) = %s, want %s", c.x, got, c.want)
		}
	}
}

// A number is never written with an exponent, nor far from what it is.
func TestPlainIsNear(t *testing.T) {
	enginetest.Check(t, func(t *rapid.T) {
		x := rapid.Float64Range(1e-9, 1e12).Draw(t, "x")
		s := plain(x)
		got, err := strconv.ParseFloat(s, 64)
		if err != nil || strings.ContainsAny(s, "eE") || got < 0.994*x || got > 1.006*x {
			t.Errorf("plain(%v) = %s", x, s)
		}
	})
}

// A rate of three digits, as --gpu-count finds them, is not rounded up to one that the
// fleet may not hold.
func TestPlainKeepsThreeDigits(t *testing.T) {
	enginetest.Check(t, func(t *rapid.T) {
		x := float64(rapid.IntRange(100, 999).Draw(t, "digits")) / float64(rapid.SampledFrom([]int{1, 10, 100, 1000, 10_000}).Draw(t, "scale"))
		if got, err := strconv.ParseFloat(plain(x), 64); err != nil || got != x {
			t.Errorf("plain(%v) = %s", x, plain(x))
		}
	})
}
