package accuracy

import (
	"cmp"
	"fmt"
	"math"
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

// nominal is the length that a row of InferenceX asked for, 1024 or 8192: it draws
// lengths from 0.8 to 1.0 of it. Zero is a length of somebody else.
func nominal(mean int) int {
	for _, n := range []int{1024, 8192} {
		if mean == n || math.Abs(float64(mean)-0.9*float64(n)) <= 1 {
			return n
		}
	}
	return 0
}

// Served fills in what a table of a benchmark does not say of how its engine was started,
// where its lengths are those of InferenceX, whose rows are most of what is published:
// the flags of its scripts when those rows were measured (SemiAnalysisAI/InferenceX,
// benchmarks/single_node, October 2025 to August 2026).
func (r *Row) Served() {
	isl := nominal(r.ISL)
	if isl == 0 || nominal(r.OSL) == 0 {
		return
	}
	flags := engine.Config{}
	switch name := r.Model.Name; r.Config.Kind { //nolint:exhaustive // what it measures
	case engine.KindVLLM:
		flags = r.vllm(name, isl)
	case engine.KindSGLang:
		flags = r.sglang(name)
	case engine.KindTRTLLM:
		flags = r.trtllm(name, isl)
	}
	c := &r.Config
	c.KV, c.MemoryFraction = cmp.Or(c.KV, flags.KV), cmp.Or(c.MemoryFraction, flags.MemoryFraction)
	c.Limits.MaxNumSeqs = cmp.Or(c.Limits.MaxNumSeqs, flags.Limits.MaxNumSeqs)
	c.Limits.MaxNumBatchedTokens = cmp.Or(c.Limits.MaxNumBatchedTokens, flags.Limits.MaxNumBatchedTokens)
}

func (r *Row) vllm(name string, isl int) engine.Config {
	if !strings.HasPrefix(name, "MiniMax") {
		return engine.Config{Limits: engine.Limits{MaxNumBatchedTokens: 8192}}
	}
	minor := 0
	if n, _ := fmt.Sscanf(r.Version, "0.%d", &minor); r.GPU.FP4FLOPS == 0 || n == 1 && minor < 19 {
		return engine.Config{MemoryFraction: 0.95, KV: engine.BF16}
	}
	return engine.Config{MemoryFraction: 0.9, KV: engine.FP8, Limits: engine.Limits{MaxNumBatchedTokens: 2 * isl}}
}

func (r *Row) sglang(name string) engine.Config {
	tokens, fraction := 32768, 0.82
	switch {
	case strings.HasPrefix(name, "deepseek") && r.Config.Weights.Width() == engine.FP4:
		tokens, fraction = 16384, 0.85
	case strings.HasPrefix(name, "deepseek") && r.Config.Parallelism.TP == 4:
		tokens, fraction = 8192, 0.95
	case strings.HasPrefix(name, "Qwen") && r.Config.Weights == engine.FP8 && r.GPU.FP4FLOPS == 0:
		tokens, fraction = 16384, 0.8
	}
	if r.GPU.FP4FLOPS > 0 { // --scheduler-recv-interval
		r.Poll = 10
		if r.Concurrency >= 16 {
			r.Poll = 30
		}
	}
	c := engine.Config{MemoryFraction: fraction, Limits: engine.Limits{MaxNumBatchedTokens: tokens}}
	if strings.HasPrefix(name, "Qwen") && r.Config.Weights != engine.BF16 {
		c.KV = engine.FP8
	}
	return c
}

func (r *Row) trtllm(name string, isl int) engine.Config {
	if strings.HasPrefix(name, "openai") {
		return engine.Config{Limits: engine.Limits{MaxNumBatchedTokens: 20000, MaxNumSeqs: 512}}
	}
	const step = 64
	return engine.Config{Limits: engine.Limits{MaxNumBatchedTokens: max(8192, (r.Concurrency+isl+2*step-1)/step*step)}}
}
