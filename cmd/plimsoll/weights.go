package main

import (
	"plimsoll/engine"
)

// published leaves --weights to the model.
const published = "published"

// weightsUsage is of --weights, wherever it is.
const weightsUsage = "storage of the weights, `published|bf16|fp8|fp4`: as the model is published (catalog, config.json), or another"

// kvUsage is of --kv-dtype, wherever an engine is modelled.
const kvUsage = "storage of the KV cache, `bf16|fp8` (default: bf16)"

// weights reads --weights; "" where it is left to the model.
func (p *parser) weights() engine.DType {
	if w := p.choice("weights", published, "bf16", "fp8", "fp4"); w != published {
		return engine.DType(w)
	}
	return ""
}
