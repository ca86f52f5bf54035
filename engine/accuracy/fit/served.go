package main

import (
	"strings"

	"plimsoll/engine"
	"plimsoll/engine/accuracy"
)

// asServed fills in the flags that InferenceX starts engines with and its table does not
// say (SemiAnalysisAI/InferenceX, benchmarks/single_node, read in November 2026).
func asServed(r *accuracy.Row) {
	l := &r.Config.Limits
	blackwell := r.GPU.FP4FLOPS > 0
	switch name := r.Model.Name; {
	case strings.HasPrefix(name, "MiniMax"):
		r.Config.MemoryFraction = 0.95
	case r.Config.Kind == engine.KindSGLang:
		l.MaxNumBatchedTokens = 32768
		if strings.HasPrefix(name, "Qwen") && r.Config.Weights != engine.BF16 {
			l.MaxNumBatchedTokens = 16384
		}
		if r.Config.Weights != engine.BF16 && (blackwell || strings.HasPrefix(name, "Qwen")) {
			r.Config.KV = engine.FP8
		}
		if blackwell {
			r.Poll = 10
			if r.Concurrency >= 16 {
				r.Poll = 30
			}
		}
	case r.Config.Kind == engine.KindTRTLLM && strings.HasPrefix(name, "openai"):
		l.MaxNumBatchedTokens, l.MaxNumSeqs = 20000, 512
	case r.Config.Kind == engine.KindTRTLLM:
		l.MaxNumBatchedTokens = max(8192, r.Concurrency+r.ISL+64)
	}
}
