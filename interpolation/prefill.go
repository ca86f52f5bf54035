package interpolation

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"plimsoll/profile"
)

// Prefill predicts TTFT and prefill throughput over ISL at one configuration.
type Prefill struct {
	isl, fit []float64 // the ISLs measured, and ns of the fit there
	measured []float64 // ns
	ttft     curve     // ns over tokens, at more points than were measured
	errors   line      // relative, of ttft
	pace     line      // measured throughput over ISL / TTFT: one over the GPUs
	wild     []Wild
	from     profile.Provenance

	together *together // nil where only one prompt at a time was measured
}

var prefillTerms = []term{constant, perUnit, squared}

// fineISL is the ratio of two neighbouring ISLs of a curve's points.
const fineISL = 1.2

// FitPrefill fits a surface. One sample is usable at its own ISL only.
func FitPrefill(s profile.PrefillSurface) (Prefill, error) {
	if len(s.Samples) == 0 {
		return Prefill{}, errors.New("prefill surface has no samples")
	}
	var x, ttft, pace []float64
	var points []point
	for i, p := range s.Samples {
		switch {
		case p.ISL <= 0:
			return Prefill{}, fmt.Errorf("prefill sample %d: ISL %d, want above 0", i, p.ISL)
		case i > 0 && p.ISL <= s.Samples[i-1].ISL:
			return Prefill{}, fmt.Errorf("prefill sample %d: ISL %d after %d, want rising", i, p.ISL, s.Samples[i-1].ISL)
		case p.TTFT <= 0:
			return Prefill{}, fmt.Errorf("prefill sample %d (ISL %d): TTFT %v, want above 0", i, p.ISL, p.TTFT)
		case !finite(p.ThroughputPerGPU) || p.ThroughputPerGPU < 0:
			return Prefill{}, fmt.Errorf("prefill sample %d (ISL %d): throughput %v, want a number not below 0", i, p.ISL, p.ThroughputPerGPU)
		}
		x = append(x, float64(p.ISL))
		points = append(points, point{float64(p.ISL), 1})
		ttft = append(ttft, float64(p.TTFT))
		pace = append(pace, p.ThroughputPerGPU*float64(p.TTFT)/float64(p.ISL))
	}
	f, wild := fitField(points, ttft, make([]float64, len(x)), prefillTerms)
	p := Prefill{isl: x, measured: ttft, pace: line{x, pace}, wild: wild, from: s.Provenance}
	p.draw(f, slices.Min(ttft)/wander, slices.Max(ttft)*wander)
	return p, nil
}

// wander is how far, as a ratio, a curve may leave what was measured.
const wander = 1.5

// draw makes the curve, which stays between two values.
func (p *Prefill) draw(f *field, low, high float64) {
	knots := between(p.isl, fineISL)
	if b := f.trend.bend; b.kind == knee && b.scale > knots[0] && b.scale < knots[len(knots)-1] {
		if i, found := slices.BinarySearch(knots, b.scale); !found {
			knots = slices.Insert(knots, i, b.scale)
		}
	}
	y, off := make([]float64, len(knots)), make([]float64, len(knots))
	for i, x := range knots {
		y[i], off[i] = min(max(f.at(point{x, 1}), low), high), f.unsure(point{x, 1})
	}
	rising(y)
	p.ttft, p.errors = newCurve(knots, y), line{knots, off}
	for _, x := range p.isl {
		p.fit = append(p.fit, p.ttft.at(x))
	}
}

// Provenance is the surface's.
func (p Prefill) Provenance() profile.Provenance { return p.from }

// Range is the measured ISL, in tokens.
func (p Prefill) Range() (low, high float64) { return p.ttft.first(), p.ttft.last() }

// TTFT predicts the time to first token of a prompt of isl tokens on an idle
// engine. Below the measured range it is that of the shortest prompt measured.
// Above, it goes on with the slope of the last two samples or in proportion to
// ISL, whichever is slower: prefill time grows at least linearly (upstream holds
// the last value there, which promises the longest prompts for free).
func (p Prefill) TTFT(islTokens float64) Latency {
	g := p.verdict(islTokens)
	if g.what == notNumber {
		islTokens = p.ttft.last() // the slow side
	}
	return Latency{Value: duration(p.nanos(islTokens)), InRange: g.what == nothing, Error: p.unsure(islTokens), gaps: [2]gap{g}}
}

func (p *Prefill) nanos(x float64) float64 {
	end := p.ttft.last()
	y := p.ttft.at(x)
	if x > end {
		y += max(p.endSlope(), y/end) * (x - end)
	}
	return y
}

// endSlope is that of the fit between the last two ISLs measured.
func (p *Prefill) endSlope() float64 {
	n := len(p.isl)
	if n < 2 {
		return 0
	}
	return (p.fit[n-1] - p.fit[n-2]) / (p.isl[n-1] - p.isl[n-2])
}

// unsure is the relative error at x. Outside of what was measured it grows with
// the part of the prediction that rests on nothing but the rule there.
func (p *Prefill) unsure(x float64) float64 {
	e := p.errors.at(x)
	if low, high := p.Range(); x > 0 && x < low {
		e += (low - x) / low
	} else if x > high {
		e += beyond * math.Log(x/high)
	}
	return e
}

// beyond is the relative error that each e-fold beyond the measured range adds:
// TTFT may grow by any power of ISL from 1 to 2, ITL with context by any from 0
// to 1, and the predictions take a side.
const beyond = 0.5

// ThroughputPerGPU predicts prompt tokens/s/GPU of prompts of isl tokens, one
// after the other: what TTFT allows, times the ratio of the two as measured.
func (p Prefill) ThroughputPerGPU(islTokens float64) Rate {
	g := p.verdict(islTokens)
	if g.what == notNumber {
		islTokens = p.ttft.last()
	}
	v := p.pace.at(islTokens) * islTokens / p.nanos(islTokens)
	return Rate{Value: v, InRange: g.what == nothing, Error: p.unsure(islTokens), gaps: [2]gap{g}}
}

func (p *Prefill) verdict(x float64) gap {
	low, high := p.Range()
	switch {
	case !(x > 0) || math.IsInf(x, 0):
		return gap{what: notNumber, got: x}
	case x < low || x > high:
		return gap{what: isl, got: x, low: low, high: high}
	default:
		return gap{}
	}
}

func finite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }
