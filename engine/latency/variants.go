package latency

// Slower is m with every time multiplied by a factor, its overhead too: what
// answers look like if the model is off by so much. The factor is above 0; what
// is faster than the data sheet is allowed here, since the question is not
// whether an engine can be.
func (m Model) Slower(by float64) Model {
	v := m.about.fit.Coefficients.vector()
	for i := range v {
		v[i] *= by
	}
	return m.about.at(fromVector(v))
}

// At is m at other coefficients.
func (m Model) At(k Coefficients) Model {
	a := *m.about
	a.fit.Coefficients = k
	return a.at(k)
}

// firstYear is from where on a version is a year: vLLM of 2023.
const firstYear = 2000

// AsyncScheduling reports whether the engine schedules a step while the one
// before it runs: vLLM does by default since 0.14.0 (release notes, January
// 2026), but not with pipeline parallelism. An engine or a version that is not
// known is taken for a recent vLLM.
func (m Model) AsyncScheduling() bool {
	f := m.about.fit
	if f.Engine != "vllm" && f.Engine != "" || m.about.config.Parallelism.PP > 1 {
		return false
	}
	return since(f.Version, 14)
}

// ReserveFullPrompt reports whether a request starts only where free KV blocks
// hold its whole prompt: vLLM does by default since 0.19.0 (pull request 37307;
// release notes, April 2026). TensorRT-LLM sets the output aside too
// (GUARANTEED_NO_EVICT, its default; documentation of SchedulerConfig), SGLang a
// part of it that it expects (new_token_ratio): of what the simulator knows,
// this is nearest. A version that is not known is taken for a recent one.
func (m Model) ReserveFullPrompt() bool {
	f := m.about.fit
	return f.Engine == "trtllm" || f.Engine == "sglang" || f.Engine == "vllm" && since(f.Version, 19)
}

// PrefillAlone reports whether prompts and decoding have steps of their own: SGLang does
// so unless told --enable-mixed-chunk (docs.sglang.io, server_arguments, November 2026).
func (m Model) PrefillAlone() bool { return m.about.fit.Engine == "sglang" }

// since reports whether a version of vLLM is 0.least or later; one that is empty is.
func since(version string, least int) bool {
	v, known := release(version)
	return version == "" || known && v >= 1000*least
}
