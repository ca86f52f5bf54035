package main

import (
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestPlain(t *testing.T) {
	for _, c := range []struct {
		x    float64
		want string
	}{
		{0, "0"}, {1, "1"}, {4.762, "4.8"}, {0.96, "0.96"}, {0.996, "1"}, {0.0436, "0.044"}, {15330, "15330"}, {15330.26, "15330.3"}, {1e7, "10000000"}, {1e-6, "0.000001"},
	} {
		if got := plain(c.x); got != c.want {
			t.Errorf("plain(%v) = %s, want %s", c.x, got, c.want)
		}
	}
}

// A number is never written with an exponent, nor far from what it is.
func TestPlainIsNear(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := rapid.Float64Range(1e-9, 1e12).Draw(t, "x")
		s := plain(x)
		got, err := strconv.ParseFloat(s, 64)
		if err != nil || strings.ContainsAny(s, "eE") || got < 0.949*x || got > 1.051*x {
			t.Errorf("plain(%v) = %s", x, s)
		}
	})
}
