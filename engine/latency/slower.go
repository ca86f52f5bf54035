package latency

// Slower is f with every span of time longer by a factor, or shorter where it is
// below 1, but no faster than the data sheet allows: what answers look like if
// the fit is off by so much.
func (f Fit) Slower(by float64) Fit {
	v := f.Coefficients.vector()
	for i := range v {
		v[i] *= by
	}
	f.Coefficients = fromVector(v).bounded()
	return f
}
