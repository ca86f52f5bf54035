package interpolation

import "gonum.org/v1/gonum/interp"

// Overshoot is where the natural cubic spline through samples falls although they
// rise: scipy's Clough-Tocher surfaces, by which Dynamo's planner reads profiles, are
// about that spline along a row of samples. A curve that rises steeply and then
// bends, as the ITL of a mixture of experts, has it where samples are few.
type Overshoot struct {
	Fall   float64 // relative to the highest value before; 0 = none
	Peak   float64 // x of that value
	Trough float64 // x of the lowest value after it
}

// overshootSteps is how finely each interval is looked at.
const overshootSteps = 32

// OvershootOf takes samples by x, at least three; of fewer, or two at one x, there is
// none.
func OvershootOf(x, y []float64) Overshoot {
	var worst Overshoot
	for i := 1; i < len(x); i++ {
		if !(x[i] > x[i-1]) {
			return worst
		}
	}
	var spline interp.NaturalCubic
	if len(x) < 3 || spline.Fit(x, y) != nil {
		return worst
	}
	most, at := y[0], x[0]
	for i := 1; i < len(x); i++ {
		for k := 1; k <= overshootSteps; k++ {
			q := x[i-1] + (x[i]-x[i-1])*float64(k)/overshootSteps
			v := spline.Predict(q)
			if v > most {
				most, at = v, q
			}
			if fall := 1 - v/most; fall > worst.Fall {
				worst = Overshoot{fall, at, q}
			}
		}
	}
	return worst
}
