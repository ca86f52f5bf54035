package latency

import "plimsoll/engine"

// Slower is m with every time multiplied by a factor: what answers look like if the model
// is off by so much. A step with prompts takes as long as one without them at ITL's
// factor, and what the prompts add at TTFT's, as does what a request takes outside of
// steps. The factors are above 0; what is faster than the data sheet is allowed here,
// since the question is not whether an engine can be.
func (m Model) Slower(by engine.Factors) Model {
	at := func(factor float64) Model {
		v := m.about.fit.Coefficients.vector()
		for i := range v {
			v[i] *= factor
		}
		return m.about.at(fromVector(v))
	}
	out, prompts := at(by.ITL), at(by.TTFT).unit
	out.prompts, out.unit.overhead, out.unit.perToken = &prompts, prompts.overhead, prompts.perToken
	return out
}

// At is m at other coefficients.
func (m Model) At(k Coefficients) Model {
	a := *m.about
	a.fit.Coefficients = k
	return a.at(k)
}

// AsyncScheduling reports whether the engine schedules a step while the one before it
// runs. vLLM does by default since 0.14.0 (release notes, January 2026), but not with
// pipeline parallelism; TensorRT-LLM does (nvidia.github.io/TensorRT-LLM, "Overlap
// Scheduler", read in November 2026). An engine or a version that is not known is taken
// for a recent vLLM.
func (m Model) AsyncScheduling() bool {
	f := m.about.fit
	switch {
	case m.about.config.Parallelism.PP > 1:
		return false
	case f.Engine == "vllm" || f.Engine == "":
		return f.Release().Since("0.14")
	}
	return f.Engine == "trtllm"
}

// ReserveFullPrompt reports whether a request starts only where free KV blocks
// hold its whole prompt: vLLM does by default since 0.19.0 (pull request 37307;
// release notes, April 2026). TensorRT-LLM sets the output aside too
// (GUARANTEED_NO_EVICT, its default; documentation of SchedulerConfig), SGLang a
// part of it that it expects (new_token_ratio): of what the simulator knows,
// this is nearest. A version that is not known is taken for a recent one.
func (m Model) ReserveFullPrompt() bool {
	f := m.about.fit
	return f.Engine == "trtllm" || f.Engine == "sglang" || f.Engine == "vllm" && f.Release().Since("0.19")
}

// PrefillAlone reports whether prompts and decoding have steps of their own: SGLang does
// so unless told --enable-mixed-chunk (docs.sglang.io, server_arguments, November 2026).
func (m Model) PrefillAlone() bool { return m.about.fit.Engine == "sglang" }
