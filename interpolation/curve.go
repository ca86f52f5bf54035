package interpolation

import "gonum.org/v1/gonum/interp"

// curve passes through points and is monotone between each two neighbours:
// Fritsch & Butland's cubic (1984), a straight line for two points, a constant
// for one. Predict outside the points is the caller's business.
type curve struct {
	x, y []float64 // x strictly rising
	fit  interp.FritschButland
}

// newCurve needs finite values, x strictly rising: gonum panics on repeated x
// and takes NaN for a number.
func newCurve(x, y []float64) curve {
	c := curve{x: x, y: y}
	if len(x) > 1 {
		// Fit's error is always nil by its documentation.
		_ = c.fit.Fit(x, y)
	}
	return c
}

func (c *curve) first() float64 { return c.x[0] }
func (c *curve) last() float64  { return c.x[len(c.x)-1] }

// at evaluates within the points; outside it holds the end's value.
func (c *curve) at(x float64) float64 {
	switch {
	case x <= c.x[0]:
		return c.y[0]
	case x >= c.last():
		return c.y[len(c.y)-1]
	default:
		return c.fit.Predict(x)
	}
}

// firstSlope and lastSlope are the slopes of the chords at the ends; 0 for a
// single point.
func (c *curve) firstSlope() float64 {
	if len(c.x) < 2 {
		return 0
	}
	return (c.y[1] - c.y[0]) / (c.x[1] - c.x[0])
}

func (c *curve) lastSlope() float64 {
	n := len(c.x)
	if n < 2 {
		return 0
	}
	return (c.y[n-1] - c.y[n-2]) / (c.x[n-1] - c.x[n-2])
}
