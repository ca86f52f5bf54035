package interpolation

import (
	"errors"
	"fmt"
	"math"

	"plimsoll/profile"
)

// Prefill predicts TTFT and prefill throughput over ISL at one configuration.
type Prefill struct {
	ttft curve // ns over tokens
	rate curve // prompt tokens/s/GPU over tokens
	from profile.Provenance
}

// FitPrefill fits a surface. One sample is usable at its own ISL only.
func FitPrefill(s profile.PrefillSurface) (Prefill, error) {
	if len(s.Samples) == 0 {
		return Prefill{}, errors.New("prefill surface has no samples")
	}
	var x, ttft, rate []float64
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
		ttft = append(ttft, float64(p.TTFT))
		rate = append(rate, p.ThroughputPerGPU)
	}
	return Prefill{ttft: newCurve(x, ttft), rate: newCurve(x, rate), from: s.Provenance}, nil
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
	return Latency{Value: duration(p.nanos(islTokens)), InRange: g.what == nothing, gaps: [2]gap{g}}
}

func (p *Prefill) nanos(x float64) float64 {
	end := p.ttft.last()
	y := p.ttft.at(x)
	if x > end {
		y += max(p.ttft.lastSlope(), y/end) * (x - end)
	}
	return y
}

// ThroughputPerGPU predicts prompt tokens/s/GPU of prompts of isl tokens, one
// after the other. Outside the measured range it is what TTFT there allows.
func (p Prefill) ThroughputPerGPU(islTokens float64) Rate {
	g := p.verdict(islTokens)
	if g.what == notNumber {
		islTokens = p.rate.last()
	}
	x := min(max(islTokens, p.rate.first()), p.rate.last())
	v := p.rate.at(x)
	if x != islTokens {
		v *= islTokens / x * p.nanos(x) / p.nanos(islTokens)
	}
	return Rate{Value: v, InRange: g.what == nothing, gaps: [2]gap{g}}
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
