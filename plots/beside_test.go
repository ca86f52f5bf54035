package plots

import (
	"math"
	"strings"
	"testing"

	"plimsoll/profile"
)

// The fit's error is a band around it, and several prompts at once are a series of
// their own, each named in the legend; both only where there are any.
func TestPrefillShowsErrorsAndBatches(t *testing.T) {
	c := caption()
	beside := Beside{
		Bounds: func(x float64) (float64, float64) { v, _ := throughputCurve()(x); return v / 1.2, v * 1.2 },
		Batched: profile.BatchedPrefill{MaxBatchedTokens: 2048, Samples: []profile.BatchedSample{
			{ISL: 100, K: 20, TTFT: msec(60), ThroughputPerGPU: 70_000}, {ISL: 512, K: 4, TTFT: msec(55), ThroughputPerGPU: 75_000},
		}},
	}
	plain, err := PrefillThroughputInterpolation(c, prefillSurface(), throughputCurve(), ttftCurve(), Beside{})
	if err != nil {
		t.Fatal(err)
	}
	full, err := PrefillThroughputInterpolation(c, prefillSurface(), throughputCurve(), ttftCurve(), beside)
	if err != nil {
		t.Fatal(err)
	}
	show(t, "prefill_beside", full)
	for _, words := range []string{"nine of ten measurements", "several prompts at once", "k=20"} {
		if !strings.Contains(svg(t, full), words) || strings.Contains(svg(t, plain), words) {
			t.Errorf("%q: with %v, without %v", words, strings.Contains(svg(t, full), words), strings.Contains(svg(t, plain), words))
		}
	}
	ttft, err := PrefillTTFTInterpolation(c, prefillSurface(), ttftCurve(), beside)
	if err != nil || strings.Contains(svg(t, ttft), "several prompts") {
		t.Errorf("%v: TTFT has a series of throughputs", err)
	}
}

// Bounds that are none are not drawn, and what is far off stretches no axis.
func TestShade(t *testing.T) {
	for name, c := range map[string]struct {
		low, high float64
		want      []float64 // the upper ends
	}{
		"around":       {8, 12, []float64{12}},
		"not a number": {math.NaN(), 12, nil},
		"no end":       {8, math.Inf(1), nil},
		"upside down":  {12, 8, nil},
		"above":        {11, 12, nil},
		"far off":      {8, 1e9, []float64{30}},
	} {
		var ch chart
		ch.shade(Beside{Bounds: func(float64) (float64, float64) { return c.low, c.high }}, 1, 10, 30)
		if len(ch.around.high) != len(c.want) || len(c.want) == 1 && ch.around.high[0] != c.want[0] {
			t.Errorf("%s: %v", name, ch.around)
		}
	}
}
