package plots

import "plimsoll/interpolation"

// TTFTCurve is the fit's TTFT in milliseconds over ISL.
func TTFTCurve(p interpolation.Prefill) Curve {
	return func(isl float64) (float64, bool) {
		v := p.TTFT(isl)
		return ms(v.Value), v.InRange
	}
}

// PrefillThroughputCurve is the fit's prompt tokens/s/GPU over ISL.
func PrefillThroughputCurve(p interpolation.Prefill) Curve {
	return func(isl float64) (float64, bool) {
		v := p.ThroughputPerGPU(isl)
		return v.Value, v.InRange
	}
}

// TTFTBounds are where nine of ten TTFTs are expected around the fit, in milliseconds.
func TTFTBounds(p interpolation.Prefill) func(isl float64) (low, high float64) {
	return func(isl float64) (float64, float64) {
		low, high := p.TTFT(isl).Bounds()
		return ms(low), ms(high)
	}
}

// PrefillThroughputBounds are the same of prompt tokens/s/GPU.
func PrefillThroughputBounds(p interpolation.Prefill) func(isl float64) (low, high float64) {
	return func(isl float64) (float64, float64) { return p.ThroughputPerGPU(isl).Bounds() }
}

// ITLSurface is the fit's ITL in milliseconds over KV usage and context.
func ITLSurface(d interpolation.Decode) Surface {
	return func(kvUsage, context float64) (float64, bool) {
		v := d.ITL(kvUsage, context)
		return ms(v.Value), v.InRange
	}
}

// DecodeThroughputSurface is the fit's output tokens/s/GPU over KV usage and context.
func DecodeThroughputSurface(d interpolation.Decode) Surface {
	return func(kvUsage, context float64) (float64, bool) {
		v := d.ThroughputPerGPU(kvUsage, context)
		return v.Value, v.InRange
	}
}
