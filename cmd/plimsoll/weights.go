package main

import (
	"plimsoll/engine"
)

// published leaves --weights to the model.
const published = "published"

// weightsUsage is of --weights, wherever it is.
const weightsUsage = "storage of the weights, `published|bf16|fp8|fp4|nvfp4|mxfp4|int4`: as the model is published (catalog, config.json and files beside it), or another; fp4 is nvfp4 unless it is published in another format"

// kvUsage is of --kv-dtype, wherever an engine is modelled.
const kvUsage = "storage of the KV cache, `bf16|fp8|nvfp4` (default: as the checkpoint says, else bf16)"

// kvTypes are what --kv-dtype takes.
var kvTypes = []string{string(engine.BF16), string(engine.FP8), string(engine.NVFP4)}

// weights reads --weights; "" where it is left to the model.
func (p *parser) weights() engine.DType {
	if w := p.choice("weights", append([]string{published}, engine.WeightTypes()...)...); w != published {
		return engine.DType(w)
	}
	return ""
}
