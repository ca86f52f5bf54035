package main

import (
	"cmp"
	"fmt"
	"strings"

	"plimsoll/engine"
	"plimsoll/engine/catalog"
	"plimsoll/profile"
)

// weightsUsage is of --weights, wherever it is.
const weightsUsage = "storage of the weights, `bf16|fp8|fp4`; a config.json says its own"

// weights reads --weights; "" where it is left to the model.
func (p *parser) weights() engine.DType {
	w := engine.DType(p.choice("weights", "bf16", "fp8", "fp4"))
	if !p.c.IsSet("weights") {
		return ""
	}
	return w
}

// weightStorage is how a model's weights are stored, and who says so.
type weightStorage struct {
	weights  engine.DType
	note     string // where a config.json decided it
	warnings []profile.Warning
}

// storageOf is what --weights asks for, else what the model's config.json says,
// else BF16.
func storageOf(asked engine.DType, m catalog.Model) weightStorage {
	s := weightStorage{weights: cmp.Or(asked, m.Weights, engine.BF16)}
	switch {
	case asked != "" || m.Quantization == "":
	case m.Weights == "":
		s.warnings = append(s.warnings, profile.Warnf("weights_assumed",
			"the config.json of %s says %q, which is not known here: bf16 is assumed; --weights says otherwise", m.Name, m.Quantization))
	default:
		s.note = fmt.Sprintf("weights in %s, as the config.json of %s has it (%s)", s.weights, m.Name, m.Quantization)
		if strings.Contains(m.Quantization, "integers") {
			s.note += fmt.Sprintf(": integers count as %s, which has their size", s.weights)
		}
	}
	return s
}
