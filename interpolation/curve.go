package interpolation

import (
	"math"
	"sort"

	"gonum.org/v1/gonum/interp"
)

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

// slope is that of the last chord; 0 for a single point.
func (c *curve) slope() float64 {
	n := len(c.x)
	if n < 2 {
		return 0
	}
	return (c.y[n-1] - c.y[n-2]) / (c.x[n-1] - c.x[n-2])
}

// line is a straight line between each two points, and flat outside: for what
// needs no shape.
type line struct{ x, y []float64 }

func (l *line) add(x, y float64) { l.x, l.y = append(l.x, x), append(l.y, y) }

func (l *line) at(x float64) float64 {
	i := sort.SearchFloat64s(l.x, x)
	switch {
	case i == 0:
		return l.y[0]
	case i == len(l.x):
		return l.y[i-1]
	default:
		f := (x - l.x[i-1]) / (l.x[i] - l.x[i-1])
		return l.y[i-1] + f*(l.y[i]-l.y[i-1])
	}
}

// rising makes y, which noise may have bent, not fall: least squares under that
// condition, by pooling neighbours (Ayer et al., 1955).
func rising(y []float64) {
	type pool struct {
		sum float64
		n   int
	}
	var pools []pool
	for _, v := range y {
		p := pool{v, 1}
		for k := len(pools); k > 0 && pools[k-1].sum*float64(p.n) >= p.sum*float64(pools[k-1].n); k-- {
			p = pool{p.sum + pools[k-1].sum, p.n + pools[k-1].n}
			pools = pools[:k-1]
		}
		pools = append(pools, p)
	}
	i := 0
	for _, p := range pools {
		for range p.n {
			y[i] = p.sum / float64(p.n)
			i++
		}
	}
}

// between are the points of x and, where two are further apart than ratio, more
// between them; x is sorted and above 0.
func between(x []float64, ratio float64) []float64 {
	var all []float64
	for i, b := range x {
		if i > 0 {
			a := x[i-1]
			steps := math.Ceil(math.Log(b/a) / math.Log(ratio))
			for k := 1.0; k < steps; k++ {
				all = append(all, a*math.Pow(b/a, k/steps))
			}
		}
		all = append(all, b)
	}
	return all
}
