package plots

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"plimsoll/profile"
)

// Curve predicts a value at x; inRange is false outside what was measured. It
// is asked only while a picture is made, never when it is written.
type Curve func(x float64) (value float64, inRange bool)

// PrefillTTFTInterpolation shows TTFT over ISL: the samples and the fitted
// curve ttft, in milliseconds over tokens (nil where there is no fit).
func PrefillTTFTInterpolation(c Caption, s profile.PrefillSurface, ttft Curve, b Beside) (*Picture, error) {
	b.Batched = profile.BatchedPrefill{}
	ch, err := prefillChart(c.ofMeans(), s, ttft, b, prefillFace{
		title: "Prefill: TTFT by prompt length",
		y:     "TTFT (ms, mean)", unit: "ms",
		value: func(p profile.PrefillSample) float64 { return ms(p.TTFT) },
	})
	if err != nil {
		return nil, fmt.Errorf("plotting prefill TTFT: %w", err)
	}
	if c.SLA.TTFT > 0 {
		at := ms(c.SLA.TTFT)
		ch.limits = []limit{{horizontal: true, at: at, text: c.slaText("TTFT", c.SLA.TTFT)}}
		ch.zones = []zone{{horizontal: true, hi: at, text: feasibleTTFT(c)}}
	}
	return ch.picture(), nil
}

// PrefillThroughputInterpolation shows throughput per GPU (prompt
// tokens/s/GPU) over ISL: the samples and the fitted curve throughput. ttft
// (milliseconds, as above) tells which prompt lengths meet the SLA. Either
// curve may be nil.
func PrefillThroughputInterpolation(c Caption, s profile.PrefillSurface, throughput, ttft Curve, b Beside) (*Picture, error) {
	ch, err := prefillChart(c.ofMeans(), s, throughput, b, prefillFace{
		title: "Prefill: throughput per GPU by prompt length",
		y:     "Prefill throughput (prompt tokens/s/GPU)", unit: "tokens/s/GPU",
		value: func(p profile.PrefillSample) float64 { return p.ThroughputPerGPU },
	})
	if err != nil {
		return nil, fmt.Errorf("plotting prefill throughput: %w", err)
	}
	if c.SLA.TTFT > 0 && ttft != nil && len(s.Samples) > 0 {
		x, _ := newAxes("", ch.values(false), "", ch.values(true))
		ch.limits, ch.zones = crossings(c, x, ttft)
	}
	return ch.picture(), nil
}

func feasibleTTFT(c Caption) string {
	return fmt.Sprintf("feasible: TTFT ≤ %s ms", number(ms(c.SLA.TTFT)))
}

// prefillFace is what differs between the two pictures.
type prefillFace struct {
	title, y, unit string
	value          func(profile.PrefillSample) float64
}

func prefillChart(c Caption, s profile.PrefillSurface, fit Curve, b Beside, pf prefillFace) (chart, error) {
	c.Provenance = profile.Weakest(c.Provenance, s.Provenance)
	if len(b.Batched.Samples) > 0 {
		c.Provenance = profile.Weakest(c.Provenance, b.Batched.Provenance)
	}
	errs := []error{c.check()}
	sr := series{name: "samples", look: lookOf(0)}
	for _, p := range s.Samples {
		name := fmt.Sprintf("ISL %d", p.ISL)
		errs = append(errs,
			drawable(name, "ISL", float64(p.ISL)),
			drawable(name, "TTFT in ms", ms(p.TTFT)),
			drawable(name, "throughput per GPU", p.ThroughputPerGPU))
		meets := c.SLA.TTFT <= 0 || p.TTFT <= c.SLA.TTFT
		sr.dots = append(sr.dots, dot{x: float64(p.ISL), y: pf.value(p), solid: meets})
	}
	batched, err := batchedSeries(c, b.Batched)
	if err := errors.Join(append(errs, err)...); err != nil {
		return chart{}, err
	}
	sr.name = c.Provenance.String() + " " + sr.name
	ch := chart{
		caption: c, title: pf.title, x: "Prompt length, ISL (tokens)", y: pf.y,
		series: []series{sr}, fitted: "interpolation",
		dots: dotWords{"meets the SLA", "fails the SLA"},
	}
	if len(batched.dots) > 0 && len(s.Samples) > 0 {
		ch.series = append(ch.series, batched)
	}
	if c.ISL > 0 && len(s.Samples) > 0 {
		ch.guides = []guide{{float64(c.ISL), "target ISL " + number(float64(c.ISL))}}
	}
	if fit == nil || len(s.Samples) == 0 {
		return ch, nil
	}
	return ch, ch.trace(c, fit, b, pf.unit)
}

// trace samples fit from the first to the last x that is shown, and marks its
// value at the target.
func (c *chart) trace(caption Caption, fit Curve, b Beside, unit string) error {
	const steps = 240
	xs, ys := c.values(false), c.values(true)
	x, _ := newAxes("", xs, "", ys)
	lo, hi := bounds(xs)
	most := far * slices.Max(ys)
	for i := range steps + 1 {
		at := x.at(x.norm(lo) + (x.norm(hi)-x.norm(lo))*float64(i)/steps)
		if i == steps {
			at = hi // exactly: rounding must not leave the measured range
		}
		if err := c.extend(fit, max(at, lo), most); err != nil {
			return err
		}
		if v, inRange := fit(max(at, lo)); inRange {
			c.shade(b, max(at, lo), v, most)
		}
	}
	v, inRange := fit(float64(caption.ISL))
	if caption.ISL <= 0 || !finite(v) || v < 0 || v > largest {
		return nil
	}
	text := number(v) + " " + unit
	if !inRange {
		text += " (outside the sampled range)"
	}
	c.series = append(c.series, series{
		name: "at the target ISL", look: look{colourInk(), diamond},
		dots: []dot{{x: float64(caption.ISL), y: v, text: text, must: true, solid: inRange}},
	})
	return nil
}

// extend adds the fit at x to the last curve, or begins one where the fit
// enters or leaves the measured range. Beyond it, what is above most is not
// worth an axis that shows it.
func (c *chart) extend(fit Curve, x, most float64) error {
	v, inRange := fit(x)
	if inRange {
		if err := drawable("interpolation", fmt.Sprintf("value at %s", number(x)), v); err != nil {
			return err
		}
	}
	if !finite(v) || v < 0 || !inRange && v > most {
		return nil
	}
	n := len(c.curves)
	if n == 0 || c.curves[n-1].unsure == inRange {
		next := curve{unsure: !inRange}
		if n > 0 { // no gap between the two
			last := c.curves[n-1]
			next.xs, next.ys = append(next.xs, last.xs[len(last.xs)-1]), append(next.ys, last.ys[len(last.ys)-1])
		}
		c.curves, n = append(c.curves, next), n+1
	}
	k := &c.curves[n-1]
	k.xs, k.ys = append(k.xs, x), append(k.ys, v)
	return nil
}

// crossings are the prompt lengths at which ttft meets the SLA, as zones, and
// the ends of those, as limits.
func crossings(c Caption, x axis, ttft Curve) ([]limit, []zone) {
	const steps = 600
	var limits []limit
	var zones []zone
	was := false
	for i := range steps + 1 {
		at := x.at(float64(i) / steps)
		v, inRange := ttft(at)
		meets := inRange && v <= ms(c.SLA.TTFT)
		switch {
		case meets && !was:
			zones = append(zones, zone{lo: at, hi: at, text: feasibleTTFT(c)})
		case meets:
			zones[len(zones)-1].hi = at
		case was && inRange: // the SLA ends here, not the measured range
			z := &zones[len(zones)-1]
			z.hi = bisect(z.hi, at, func(x float64) bool { v, _ := ttft(x); return v <= ms(c.SLA.TTFT) })
			limits = append(limits, limit{at: z.hi, text: c.slaText("TTFT", c.SLA.TTFT) + " at ISL " + number(math.Floor(z.hi))})
		}
		was = meets
	}
	return limits, zones
}

// bisect is the largest x found in [lo, hi) for which holds is true; it is at lo.
func bisect(lo, hi float64, holds func(float64) bool) float64 {
	for range 50 {
		mid := (lo + hi) / 2
		if holds(mid) {
			lo = mid
		} else {
			hi = mid
		}
	}
	return lo
}
