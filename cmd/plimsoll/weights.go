package main

import (
	"plimsoll/engine"
)

// published leaves --weights to the model.
const published = "published"

// weightsUsage is of --weights, wherever it is.
const weightsUsage = "storage of the weights, `published|bf16|fp8|fp4`: as the model is published (catalog, config.json), or another"

// weights reads --weights; "" where it is left to the model.
func (p *parser) weights() engine.DType {
	if w := p.choice("weights", published, "bf16", "fp8", "fp4"); w != published {
		return engine.DType(w)
	}
	return ""
}
