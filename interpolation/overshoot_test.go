package interpolation

import (
	"math"
	"testing"
)

// The figures are scipy's: CubicSpline(x, y, bc_type="natural"), version 1.10.1.
func TestOvershootOf(t *testing.T) {
	for name, c := range map[string]struct {
		x, y []float64
		want Overshoot
	}{
		"a mixture of experts": {[]float64{8, 120, 472, 1896}, []float64{14.2, 31.6, 37, 56.8}, Overshoot{0.2199, 296.5, 841.2}},
		"a straight line":      {[]float64{1, 4, 16, 64}, []float64{2, 5, 17, 65}, Overshoot{}},
		"samples that fall":    {[]float64{1, 2, 3}, []float64{10, 8, 6}, Overshoot{0.4, 1, 3}},
		"two samples":          {[]float64{1, 2}, []float64{2, 1}, Overshoot{}},
		"one load twice":       {[]float64{1, 1, 2}, []float64{1, 2, 3}, Overshoot{}},
	} {
		got := OvershootOf(c.x, c.y)
		step := (c.x[len(c.x)-1] - c.x[0]) / overshootSteps
		if math.Abs(got.Fall-c.want.Fall) > 2e-3 || math.Abs(got.Peak-c.want.Peak) > step || math.Abs(got.Trough-c.want.Trough) > step {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}
