package deployment

import (
	"cmp"
	"fmt"
	"strings"

	"plimsoll/engine"
	"plimsoll/engine/catalog"
	"plimsoll/engine/field"
	"plimsoll/profile"
)

// Storage is how a model's weights are stored, and who says so, and how its KV cache is.
type Storage struct {
	Weights  engine.DType
	KV       engine.DType // "" = BF16
	Note     string       // what is not as asked for, or not in BF16 all the way
	Warnings []profile.Warning
}

// StorageOf is what is asked for, else how the model is published by its checkpoint or
// the catalog, else BF16.
func StorageOf(weights, kv engine.DType, m catalog.Model) Storage {
	s := Storage{Weights: cmp.Or(weights, m.Weights, engine.BF16), KV: cmp.Or(kv, m.KV)}
	switch {
	case weights != "":
	case m.Quantization == "":
		if s.Weights != engine.BF16 {
			s.Note = fmt.Sprintf("weights in %s, as %s is published", s.Weights, m.Name)
		}
	case m.Weights == "":
		s.Warnings = append(s.Warnings, profile.Warnf("weights_assumed",
			"the checkpoint of %s has unknown quantization %q, so bf16 is assumed. Set "+field.Weights+" and "+field.KVDType+" if that is wrong", m.Name, m.Quantization))
	default:
		s.Note = fmt.Sprintf("weights in %s, as the checkpoint of %s has it (%s)", s.Weights, m.Name, m.Quantization)
		if strings.Contains(m.Quantization, "8-bit integers") {
			s.Note += "; 8-bit integers count as fp8, which has the same size"
		}
	}
	switch {
	case kv != "":
	case m.KV != "":
		if s.Note != "" {
			s.Note += "; "
		}
		s.Note += fmt.Sprintf("KV cache in %s, as the checkpoint has it", m.KV)
	case m.KVQuantization != "":
		s.Warnings = append(s.Warnings, profile.Warnf("weights_assumed",
			"the checkpoint of %s asks for a KV cache in %q, which is not understood, so bf16 is assumed. Set "+field.KVDType+" if that is wrong", m.Name, m.KVQuantization))
	}
	return s
}

// On is s where g computes: a GPU without arithmetic for the stored type keeps
// the weights in it and computes in BF16, which the note then says.
func (s Storage) On(g catalog.GPU) Storage {
	if _, native := g.FLOPS(s.Weights); native {
		return s
	}
	if s.Note != "" {
		s.Note += "; "
	}
	s.Note += fmt.Sprintf("%s has no %s arithmetic. Storage is in %s, but steps compute in bf16", g.Name, s.Weights, s.Weights)
	return s
}

// Phrase is s after the name of what it was assumed for; empty for BF16.
func (s Storage) Phrase() string {
	words := ""
	if s.Weights != engine.BF16 {
		words = ", weights in " + string(s.Weights)
	}
	if s.KV.Bytes() < engine.BF16.Bytes() {
		words += ", KV cache in " + string(s.KV)
	}
	return words
}
