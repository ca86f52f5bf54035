package main

import (
	"cmp"
	"fmt"
	"strings"

	"plimsoll/engine"
	"plimsoll/engine/catalog"
	"plimsoll/profile"
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

// weightStorage is how a model's weights are stored, and who says so.
type weightStorage struct {
	weights  engine.DType
	note     string // what is not as asked for, or not in BF16 all the way
	warnings []profile.Warning
}

// storageOf is what --weights asks for, else how the model is published by its
// config.json or the catalog, else BF16.
func storageOf(asked engine.DType, m catalog.Model) weightStorage {
	s := weightStorage{weights: cmp.Or(asked, m.Weights, engine.BF16)}
	switch {
	case asked != "":
	case m.Quantization == "":
		if s.weights != engine.BF16 {
			s.note = fmt.Sprintf("weights in %s, as %s is published", s.weights, m.Name)
		}
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

// on is s where g computes: a GPU without arithmetic for the stored type keeps
// the weights in it and computes in BF16, which the note then says.
func (s weightStorage) on(g catalog.GPU) weightStorage {
	if _, native := g.FLOPS(s.weights); native {
		return s
	}
	if s.note != "" {
		s.note += "; "
	}
	s.note += fmt.Sprintf("%s has no %s arithmetic: only storage is in %s, and steps are computed in bf16", g.Name, s.weights, s.weights)
	return s
}

// phrase is s after the name of what it was assumed for; empty for BF16.
func (s weightStorage) phrase() string {
	if s.weights == engine.BF16 {
		return ""
	}
	return ", weights in " + string(s.weights)
}
