package plots

import (
	"errors"
	"fmt"
	"image/color"

	"gonum.org/v1/plot/vg"

	"plimsoll/engine"
	"plimsoll/profile"
)

// Beside is what a picture of prefill shows beside samples and fit; the zero value
// is nothing.
type Beside struct {
	// Bounds are where nine of ten measurements are expected around the fit, in its
	// unit. They are drawn as a band where it is in range; nil = none.
	Bounds func(x float64) (low, high float64)
	// Batched are points of several prompts at once: throughput only.
	Batched profile.BatchedPrefill
}

// envelope is the area between two lines over the same xs.
type envelope struct{ xs, low, high []float64 }

func colourAround() color.NRGBA {
	c := okabeIto(0)
	c.A = 0x2A
	return c
}

// shade widens the envelope to x of a fit whose value there is v. It is cut at most, which
// is the end of what is worth an axis, and left out where its ends are no bounds.
func (c *chart) shade(b Beside, x, v, most float64) {
	if b.Bounds == nil {
		return
	}
	low, high := b.Bounds(x)
	if !finite(low) || !finite(high) || low < 0 || low > v || high < v {
		return
	}
	c.around.xs = append(c.around.xs, x)
	c.around.low, c.around.high = append(c.around.low, min(low, most)), append(c.around.high, min(high, most))
}

// paint fills the area.
func (b envelope) paint(p pen, f frame) {
	if len(b.xs) < 2 {
		return
	}
	var path vg.Path
	path.Move(f.point(b.xs[0], b.low[0]))
	for i := range b.xs {
		path.Line(f.point(b.xs[i], b.high[i]))
	}
	for i := len(b.xs) - 1; i >= 0; i-- {
		path.Line(f.point(b.xs[i], b.low[i]))
	}
	path.Close()
	p.fill(colourAround(), path)
}

// batchedSeries are points of several prompts at once, joined, for they follow from
// how many fill a step.
func batchedSeries(c Caption, b profile.BatchedPrefill) (series, error) {
	var errs []error
	sr := series{name: "several prompts at once (k)", look: lookOf(1), joined: true}
	for _, s := range b.Samples {
		name := fmt.Sprintf("%s of ISL %d", engine.Count(s.K, "prompt"), s.ISL)
		errs = append(errs, drawable(name, "ISL", float64(s.ISL)), drawable(name, "throughput per GPU", s.ThroughputPerGPU))
		sr.dots = append(sr.dots, dot{
			x: float64(s.ISL), y: s.ThroughputPerGPU, text: fmt.Sprintf("k=%d", s.K), solid: c.SLA.TTFT <= 0 || s.TTFT <= c.SLA.TTFT,
		})
	}
	return sr, errors.Join(errs...)
}
