package main

import (
	"plimsoll/engine"
)

// published leaves --weights to the model.
const published = "published"

// weightsUsage is of --weights, wherever it is.
const weightsUsage = "storage of the weights, `TYPE`: published (as catalog, config.json or a file beside it says), bf16, fp8, nvfp4, mxfp4, int4, or fp4, which is nvfp4 unless another is published"

// kvUsage is of --kv-dtype, wherever an engine is modelled.
const kvUsage = "storage of the KV cache, `bf16|fp8|nvfp4` (default: the checkpoint's, else bf16)"

// kvTypes are what --kv-dtype takes.
var kvTypes = []string{string(engine.BF16), string(engine.FP8), string(engine.NVFP4)}

// weights reads --weights; "" where it is left to the model.
func (p *parser) weights() engine.DType {
	if w := p.choice("weights", append([]string{published}, engine.WeightTypes()...)...); w != published {
		return engine.DType(w)
	}
	return ""
}
