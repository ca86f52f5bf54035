package sweep

import (
	"math"
	"time"

	"plimsoll/engine"
	"plimsoll/profile"
)

// Cost is what a sweep spent, launches included.
type Cost struct {
	Launches       int     `json:"launches"`
	EngineSeconds  float64 `json:"engine_seconds"`  // Σ time that engines ran
	LoadingSeconds float64 `json:"loading_seconds"` // of these, from a launch until the engine answered
	GPUSeconds     float64 `json:"gpu_seconds"`     // Σ engine-seconds × GPUs of the engine
	Requests       int     `json:"requests"`        // warm-up included
	PromptTokens   int64   `json:"prompt_tokens"`
	OutputTokens   int64   `json:"output_tokens"`
}

// Measuring is EngineSeconds without loading.
func (c Cost) Measuring() float64 { return c.EngineSeconds - c.LoadingSeconds }

// plus is c and what somebody else spent.
func (c Cost) plus(o Cost) Cost {
	return Cost{
		Launches:       c.Launches + o.Launches,
		EngineSeconds:  c.EngineSeconds + o.EngineSeconds,
		LoadingSeconds: c.LoadingSeconds + o.LoadingSeconds,
		GPUSeconds:     c.GPUSeconds + o.GPUSeconds,
		Requests:       c.Requests + o.Requests,
		PromptTokens:   c.PromptTokens + o.PromptTokens,
		OutputTokens:   c.OutputTokens + o.OutputTokens,
	}
}

// rounded is c with its seconds to the nanosecond, so that they do not depend on
// the order in which engines were added up.
func (c Cost) rounded() Cost {
	for _, s := range []*float64{&c.EngineSeconds, &c.LoadingSeconds, &c.GPUSeconds} {
		*s = math.Round(*s*1e9) / 1e9
	}
	return c
}

// costOf is what sending w to an engine is expected to cost; cached says that its
// prefix cache holds the prompts. Requests and tokens are exact, seconds by the
// latency model, 0 without one.
func (o Options) costOf(c engine.Config, w profile.Workload, cached bool) Cost {
	secs := o.engineTime(c, w, cached).Seconds()
	return Cost{
		EngineSeconds: secs, GPUSeconds: secs * float64(c.GPUs()), Requests: w.Requests,
		PromptTokens: int64(w.Requests) * int64(w.ISL), OutputTokens: int64(w.Requests) * int64(w.OSL),
	}
}

// engineTime is how long an engine works at a closed loop: as many rounds as it
// takes, in each of which all prompts are computed and then all tokens.
func (o Options) engineTime(c engine.Config, w profile.Workload, cached bool) time.Duration {
	e, ok := o.expect(c)
	if !ok || w.Requests == 0 {
		return 0
	}
	n := min(w.InFlight, w.Requests)
	if seqs := c.Limits.MaxNumSeqs * attentionReplicas(c); seqs > 0 {
		n = min(n, seqs)
	}
	prompt := w.ISL
	if cached { // but for the last block, whose token gives the first of the answer
		prompt = min(w.ISL, max(c.Limits.BlockSize, 1))
	}
	round := fillTime(e, c, n, prompt) + time.Duration(w.OSL-1)*e.ITL(n, nominalContext(w.ISL, w.OSL))
	return time.Duration(float64(round) * float64(w.Requests) / float64(n))
}

// stepTokens is how many prompt tokens an engine is taken to compute in one step
// where its configuration does not say: the default of vLLM's servers on data
// centre GPUs (vllm v0.10, EngineArgs, 2025-08).
const stepTokens = 8192

// fillTime is how long n prompts take that come at once: one after another, but
// for short ones, which share steps; side by side on attention replicas.
func fillTime(e Expectation, c engine.Config, n, prompt int) time.Duration {
	step := c.Limits.MaxNumBatchedTokens
	if step == 0 {
		step = stepTokens
	}
	n = (n + attentionReplicas(c) - 1) / attentionReplicas(c)
	switch total := n * prompt; {
	case prompt >= step:
		return time.Duration(n) * e.TTFT(prompt)
	case total <= step:
		return e.TTFT(total)
	default:
		return time.Duration(float64(e.TTFT(step)) * float64(total) / float64(step))
	}
}
