package accuracy

import (
	"plimsoll/engine"
	"plimsoll/engine/catalog"
)

// KVOf is the type of KV cache that engines run with where a table does not say it:
// vLLM in FP8 on GPUs with FP4 (its recipes for Blackwell) and in BF16 on others, SGLang
// in BF16, TensorRT-LLM in FP8 unless weights are in BF16. The capacities and times of
// measured rows agree.
func KVOf(kind engine.Kind, g catalog.GPU, weights engine.DType) engine.DType {
	switch {
	case kind == engine.KindSGLang, weights == engine.BF16, weights == "":
		return engine.BF16
	case kind == engine.KindTRTLLM, g.FP4FLOPS > 0:
		return engine.FP8
	}
	return engine.BF16
}
