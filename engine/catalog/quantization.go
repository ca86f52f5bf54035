package catalog

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"plimsoll/engine"
)

// hfQuantization is quantization_config of a config.json: the fields of it by
// which the methods say how they store a weight (transformers' documentation of
// quantization, compressed-tensors' and TensorRT Model Optimizer's, 2026).
type hfQuantization struct {
	Method string `json:"quant_method"`
	Bits   *int   `json:"bits"`         // awq, gptq and their kin
	FourB  bool   `json:"load_in_4bit"` // bitsandbytes
	EightB bool   `json:"load_in_8bit"`
	Algo   string `json:"quant_algo"` // modelopt
	Group  int    `json:"group_size"` // awq, gptq; -1 = a whole column
	Blocks []int  `json:"weight_block_size"`
	Groups map[string]struct {
		Weights *struct {
			Bits   *int   `json:"num_bits"`
			Type   string `json:"type"` // int or float
			Group  int    `json:"group_size"`
			Blocks blocks `json:"block_structure"`
		} `json:"weights"`
	} `json:"config_groups"` // compressed-tensors, modelopt
}

// blocks is compressed-tensors' block_structure: [128, 128], or "128x128" in
// its older files.
type blocks []int

// UnmarshalJSON implements json.Unmarshaler.
func (b *blocks) UnmarshalJSON(raw []byte) error {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		raw = []byte("[" + strings.ReplaceAll(text, "x", ",") + "]")
	}
	return json.Unmarshal(raw, (*[]int)(b))
}

// block is the longest side of what shares a scale; 0 where no such is said.
func (q hfQuantization) block() int {
	sides := append([]int{0, q.Group}, q.Blocks...)
	for _, g := range q.Groups {
		if g.Weights != nil {
			sides = append(append(sides, g.Weights.Group), g.Weights.Blocks...)
		}
	}
	return slices.Max(sides)
}

// stored is how most weights are stored: "" where that is not known. Integers
// count as the float of their size.
func (q hfQuantization) stored() engine.DType {
	switch strings.ToLower(q.Method) {
	case "fp8", "fbgemm_fp8":
		return engine.FP8
	case "mxfp4":
		return engine.FP4
	case "modelopt", "modelopt_fp4":
		if d := algorithm(q.Algo); d != "" {
			return d
		}
	case "bitsandbytes":
		switch {
		case q.FourB:
			return engine.FP4
		case q.EightB:
			return engine.FP8
		}
	}
	return ofBits(q.bits())
}

// algorithm is what modelopt's quant_algo stores weights in.
func algorithm(name string) engine.DType {
	switch name = strings.ToUpper(name); {
	case strings.Contains(name, "FP4"), strings.HasPrefix(name, "W4"), strings.HasPrefix(name, "INT4"):
		return engine.FP4
	case strings.HasPrefix(name, "FP8"), strings.HasPrefix(name, "W8"), strings.HasPrefix(name, "INT8"):
		return engine.FP8
	}
	return ""
}

// bits is the size of a weight; 0 where it is not said, or not of all alike.
func (q hfQuantization) bits() int {
	if q.Bits != nil {
		return *q.Bits
	}
	var sizes []int
	for _, g := range q.Groups {
		if g.Weights != nil && g.Weights.Bits != nil {
			sizes = append(sizes, *g.Weights.Bits)
		}
	}
	slices.Sort(sizes)
	if sizes = slices.Compact(sizes); len(sizes) != 1 {
		return 0
	}
	return sizes[0]
}

// floats reports whether the weights are floats, not integers.
func (q hfQuantization) floats() bool {
	for _, g := range q.Groups {
		if g.Weights != nil && g.Weights.Type == "float" {
			return true
		}
	}
	return false
}

func ofBits(n int) engine.DType {
	switch n {
	case 4:
		return engine.FP4
	case 8:
		return engine.FP8
	}
	return ""
}

// words is the configuration in a phrase: "awq, 4-bit integers".
func (q hfQuantization) words() string {
	parts := []string{q.Method}
	if q.Method == "" {
		parts[0] = "quantization_config without quant_method"
	}
	if q.Algo != "" {
		parts = append(parts, q.Algo)
	}
	switch n := q.bits(); {
	case q.FourB:
		parts = append(parts, "4 bits")
	case q.EightB:
		parts = append(parts, "8 bits")
	case n > 0 && q.floats():
		parts = append(parts, fmt.Sprintf("%d-bit floats", n))
	case n > 0:
		parts = append(parts, fmt.Sprintf("%d-bit integers", n))
	}
	return strings.Join(parts, ", ")
}

// readQuantization is the storage that a config.json's quantization_config says,
// its words, and Model.QuantBlock; nothing where there is none.
func readQuantization(raw json.RawMessage) (stored engine.DType, words string, block int) {
	if len(raw) == 0 || string(raw) == "null" {
		return "", "", 0
	}
	var q hfQuantization
	if err := json.Unmarshal(raw, &q); err != nil {
		return "", "quantization_config that is not understood", 0
	}
	return q.stored(), q.words(), q.block()
}
