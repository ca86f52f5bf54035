package accuracy

import (
	"cmp"
	"strings"

	"plimsoll/engine"
	"plimsoll/engine/catalog"
)

// KVOf is the type of KV cache that engines run with where a table does not say it: FP8
// on GPUs with FP4 and with TensorRT-LLM, unless weights are in BF16, else BF16. The
// recipes of the engines say so, and the capacities and times of measured rows agree.
func KVOf(kind engine.Kind, g catalog.GPU, weights engine.DType) engine.DType {
	if cmp.Or(weights, engine.BF16) != engine.BF16 && (kind == engine.KindTRTLLM || g.FP4FLOPS > 0) {
		return engine.FP8
	}
	return engine.BF16
}

// Served fills in what a table of a benchmark does not say of how its engine was started:
// the flags of InferenceX, whose rows are most of what is published
// (SemiAnalysisAI/InferenceX, benchmarks/single_node, read in November 2026).
func (r *Row) Served() {
	l := &r.Config.Limits
	tokens := 0
	switch name := r.Model.Name; {
	case strings.HasPrefix(name, "MiniMax"):
		r.Config.MemoryFraction = cmp.Or(r.Config.MemoryFraction, 0.95)
	case r.Config.Kind == engine.KindSGLang:
		tokens = 32768
		if strings.HasPrefix(name, "Qwen") && r.Config.Weights != engine.BF16 {
			tokens, r.Config.KV = 16384, cmp.Or(r.Config.KV, engine.FP8)
		}
		if r.Config.Weights == engine.FP8 && r.Config.Parallelism.TP == 4 && strings.HasPrefix(name, "deepseek") {
			r.Config.MemoryFraction = cmp.Or(r.Config.MemoryFraction, 0.95)
		}
		if r.GPU.FP4FLOPS > 0 { // --scheduler-recv-interval
			r.Poll = 10
			if r.Concurrency >= 16 {
				r.Poll = 30
			}
		}
	case r.Config.Kind == engine.KindTRTLLM && strings.HasPrefix(name, "openai"):
		tokens, l.MaxNumSeqs = 20000, cmp.Or(l.MaxNumSeqs, 512)
	case r.Config.Kind == engine.KindTRTLLM:
		tokens = max(8192, r.Concurrency+r.ISL+64)
	}
	l.MaxNumBatchedTokens = cmp.Or(l.MaxNumBatchedTokens, tokens)
}
