package forecast

import (
	"errors"
	"math"
)

// guarded keeps a model from what it cannot do: it is the last value until there
// are enough values in the window, it is in log1p's space where asked for, and
// it is within 0 and farthest times the largest value in the window.
type guarded struct {
	Constant constant `json:"constant"`
	Model    model    `json:"model"`

	log1p     bool
	minPoints int
	points    int       // values in the window
	largest   float64   // of them
	space     []float64 // the window in the model's space
}

func newGuarded(m model, o Options) *guarded {
	return &guarded{Model: m, log1p: o.Log1p, minPoints: o.MinPoints}
}

func (g *guarded) observe(window []float64) {
	g.Constant.observe(window)
	g.enter(window)
	g.Model.observe(g.space)
}

func (g *guarded) resume(window []float64) error {
	if g.Model == nil {
		return errors.New("no model")
	}
	g.enter(window)
	if err := g.Constant.resume(window); err != nil {
		return err
	}
	return g.Model.resume(g.space)
}

func (g *guarded) enter(window []float64) {
	g.points, g.largest, g.space = 0, 0, g.space[:0]
	for _, v := range window {
		if !math.IsNaN(v) {
			g.points++
			g.largest = max(g.largest, v)
		}
		if g.log1p {
			v = math.Log1p(v)
		}
		g.space = append(g.space, v)
	}
}

func (g *guarded) forecast(steps int) float64 {
	if g.points < g.minPoints {
		return g.Constant.Last
	}
	value := g.Model.forecast(steps)
	if g.log1p {
		value = math.Expm1(value)
	}
	if math.IsNaN(value) {
		return g.Constant.Last
	}
	return min(max(0, value), farthest*g.largest)
}
