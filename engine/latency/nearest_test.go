package latency

import (
	"slices"
	"strings"
	"testing"

	"plimsoll/engine"
)

// An engine that is a shipped fit's, or nearly, is found among them all.
func TestNearestFindsTheEngine(t *testing.T) {
	for _, by := range []float64{1, 1.05} {
		for _, f := range Fits() {
			got, err := Nearest(Fits(), points(t, scaled(f.Coefficients, by), "mixtral-8x7b", engine.FP8))
			if err != nil {
				t.Fatal(err)
			}
			if got.Name != f.Name {
				t.Errorf("points of %s × %g are nearest to %s", f.Name, by, got.Name)
			}
		}
	}
}

// What one coefficient explains counts little: an engine whose memory is slower
// is nearer to its own fit than to one that errs less before calibration, but by
// many coefficients.
func TestNearestLooksPastOneCoefficient(t *testing.T) {
	own, other := plain(), plain()
	own.Name, other.Name = "own", "other"
	truth := own.Coefficients
	truth.Products *= 2
	obs := points(t, truth, "llama-3.1-8b", engine.BF16)
	obs = slices.DeleteFunc(obs, func(o Observation) bool { return o.Kind.TTFT() })
	k := &other.Coefficients
	k.Layer, k.Quantised, k.Step, k.Sequence = 8*k.Layer, 8*k.Quantised, 8*k.Step, k.Sequence/8
	off := func(f Fit) float64 {
		_, r, err := Calibrate(f, obs)
		if err != nil {
			t.Fatal(err)
		}
		return r.Before.TPOT.Median
	}
	if off(other) > 0.9*off(own) {
		t.Errorf("before calibration %.3f is no less than %.3f: the test tests nothing", off(other), off(own))
	}
	if got, err := Nearest([]Fit{other, own}, obs); err != nil || got.Name != "own" {
		t.Errorf("nearest is %q, %v", got.Name, err)
	}
}

func TestNearestAtItsEnds(t *testing.T) {
	obs := points(t, plain().Coefficients, "llama-3.1-8b", engine.BF16)[:6]
	first, second := plain(), plain()
	first.Name, second.Name = "first", "second"
	if got, err := Nearest([]Fit{first, second}, obs); err != nil || got.Name != "first" {
		t.Errorf("of equals %q, %v", got.Name, err)
	}
	for want, f := range map[string]func() (Fit, error){
		"want one fit and one point": func() (Fit, error) { return Nearest(nil, obs) },
		"fit and one point at least": func() (Fit, error) { return Nearest(Fits(), nil) },
		`"": coefficient products is 0`: func() (Fit, error) {
			return Nearest([]Fit{{}}, obs)
		},
		"point 2: Seconds is 0": func() (Fit, error) {
			bad := slices.Clone(obs)
			bad[1].Seconds = 0
			return Nearest(Fits(), bad)
		},
	} {
		if _, err := f(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}
