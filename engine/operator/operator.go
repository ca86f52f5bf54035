// Package operator gives the time of one GPU operator: a matrix product, the
// attention of prompts and of decoding, the routed experts, a collective. Each is
// a curve with a few parameters that was fitted to measured kernel times of a GPU,
// an engine and a data type; curves.json has them with their errors on shapes that
// their fit did not see. GPUs without tables get the curves of the nearest kind,
// scaled by the data sheets. It is pure, and takes and gives microseconds, bytes
// and counts.
//
// Source of the tables: ai-dynamo/aiconfigurator @ 095f58a51,
// aic-core/src/aiconfigurator_core/systems/data (Apache-2.0). `make fit` makes
// curves.json from them again.
package operator

import (
	"math"
)

// Kind is what a curve times.
type Kind string

// The kinds of operator.
const (
	KindMatMul     Kind = "matmul"
	KindPrefill    Kind = "prefill attention"
	KindDecode     Kind = "decode attention"
	KindMLAPrefill Kind = "prefill attention, MLA"
	KindMLADecode  Kind = "decode attention, MLA"
	KindExperts    Kind = "experts"
	KindAllReduce  Kind = "all-reduce"
	KindAllGather  Kind = "all-gather"
	KindScatter    Kind = "reduce-scatter"
	KindAllToAll   Kind = "all-to-all"
)

// either is the p-norm of two times that overlap: the longer one where they
// differ, more than both where they are equal.
func either(a, b, p float64) float64 {
	if a < b {
		a, b = b, a
	}
	if a <= 0 {
		return 0
	}
	return a * math.Pow(1+math.Pow(b/a, p), 1/p)
}

// Bytes is the size of one element of weights or a cache, its share of scales included.
func (d DType) Bytes() float64 { return sizes[d].weights }

// activation is the size of an element of the other operand.
func (d DType) activation() float64 { return sizes[d].activations }

// sizes have a byte for 16 elements of NVFP4 (NVIDIA, Introducing NVFP4, 2025-06), and for
// 32 of MXFP4 (OCP Microscaling Formats v1.0, 2023-09).
var sizes = map[DType]struct{ weights, activations float64 }{
	"": {2, 2}, BF16: {2, 2}, FP8: {1, 1}, FP8Block: {1, 1}, SmoothQuant: {1, 1}, Int8: {1, 2}, Int4: {0.5, 2},
	NVFP4: {0.5 + 1.0/16, 0.5 + 1.0/16}, MXFP4: {0.5 + 1.0/32, 2}, MXFP4MXFP8: {0.5 + 1.0/32, 1},
}

// DType is how both operands of an operator are stored.
type DType string

// The types that tables have: weights and activations in BF16, FP8 (scaled by
// tensor or channel), FP8 by blocks of 128, NVFP4, MXFP4 with activations in FP8,
// both in 8-bit integers; weights alone in 4 or 8 bits and activations in BF16.
const (
	BF16        DType = "bfloat16"
	FP8         DType = "fp8"
	FP8Block    DType = "fp8_block"
	NVFP4       DType = "nvfp4"
	MXFP4       DType = "w4a16_mxfp4"
	MXFP4MXFP8  DType = "w4a8_mxfp4_mxfp8"
	Int8        DType = "int8_wo"
	Int4        DType = "int4_wo"
	SmoothQuant DType = "sq"
)
