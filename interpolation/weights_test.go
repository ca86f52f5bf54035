package interpolation

import (
	"math"
	"testing"
	"time"

	"plimsoll/profile"
)

// decodeRow is a decode surface at one context of 10 tokens.
func decodeRow(t *testing.T, loads []float64, itl func(n float64) float64) Decode {
	t.Helper()
	s := profile.DecodeSurface{MaxKVTokens: 1_000_000}
	for _, n := range loads {
		s.Samples = append(s.Samples, profile.DecodeSample{KVUsage: n * 10 / 1e6, Context: 10, ITL: time.Duration(itl(n)), ThroughputPerGPU: n / itl(n) * 1e9})
	}
	d, err := FitDecode(s, 1)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestWeights(t *testing.T) {
	dense := func(n float64) float64 { return 2e6 + max(6e6, 20e3*n) + 15e3*n }
	experts := func(n float64) float64 { return 2e6 + 20e6*(1-math.Pow(1-8.0/128, n)) + 15e3*n }
	for _, tc := range []struct {
		name      string
		loads     []float64
		itl       func(float64) float64
		full, per float64
	}{
		{"dense", []float64{1, 200, 400, 800}, dense, 8e6, 15e3},
		{"dense, the knee below", []float64{1, 500, 1000}, dense, 8e6, 23e3},
		{"experts", []float64{1, 100, 200, 400}, experts, 22e6, 15e3},
		{"experts, few loads", []float64{1, 200, 400}, experts, 22e6, 15e3},
		{"two loads", []float64{1, 200}, dense, 8e6, 15e3},
		{"steeper than in proportion", []float64{50, 100, 200}, func(n float64) float64 { return 1e3 * n * n }, 0, 150e3},
		{"one load", []float64{100}, dense, 9.5e6, 0},
	} {
		d := decodeRow(t, tc.loads, tc.itl)
		w := newWeights(&d, 100)
		if math.Abs(w.full-tc.full) > 0.015*tc.full+1 || math.Abs(w.perSeq-tc.per) > 0.16*tc.per+1 {
			t.Errorf("%s: full %.3g ns and %.4g ns per sequence, want %.3g and %.4g", tc.name, w.full, w.perSeq, tc.full, tc.per)
		}
	}
}
