package operator

// ProductStart and its like are where fits begin; ProductX and its like are curves
// over a shape in a slice, for fits.
func ProductStart() []float64 { return []float64{3, 3e6, 100, 100, 6e6, 4e-4, 2e6, 2, 3} }

// ProductX takes M, N, K.
func ProductX(p []float64, d DType, x []float64) float64 {
	return productTime(p, d, Product{x[0], x[1], x[2]})
}

// DecodeStart begins decode attention's.
func DecodeStart() []float64 { return []float64{8, 2, 1e-5, 3e6, 1e8, 3, 1e-5, 1e4, 100, 100} }

// DecodeX takes heads of queries and KV, dimension, window, sequences, context.
func DecodeX(p []float64, d DType, x []float64) float64 {
	return decodeTime(p, Heads{x[0], x[1], x[2], x[3]}, d.Bytes(), x[4], x[5])
}

// MLADecodeX takes heads, sequences, context.
func MLADecodeX(p []float64, d DType, x []float64) float64 {
	return mlaDecodeTime(p, x[0], d.Bytes(), x[1], x[2])
}

// PrefillStart begins prefill attention's.
func PrefillStart() []float64 { return []float64{10, 1e-3, 1e-5, 5e8, 100, 100} }

// PrefillX takes heads of queries and KV, dimension, window, prompts, tokens, pairs.
func PrefillX(p []float64, _ DType, x []float64) float64 {
	return prefillTime(p, Heads{x[0], x[1], x[2], x[3]}, Prompts{x[4], x[5], x[6]})
}

// MLAPrefillX takes heads, prompts, tokens, pairs.
func MLAPrefillX(p []float64, _ DType, x []float64) float64 {
	return mlaPrefillTime(p, x[0], Prompts{x[1], x[2], x[3]})
}

// ExpertsStart begins experts'.
func ExpertsStart() []float64 { return []float64{20, .3, .01, 3e6, 1e7, 1, 5e8, 3} }

// ExpertsX takes tokens, hidden size, width, experts per token, experts, GPUs.
func ExpertsX(p []float64, d DType, x []float64) float64 {
	return expertsTime(p, d, Experts{x[0], x[1], x[2], x[3], x[4], x[5]})
}

// CollectiveStart begins collectives'.
func CollectiveStart() []float64 { return []float64{5, 6, 7, 2e5, 2e5, 2e5, 10, 12, 15, 3e5} }

// CollectiveX takes bytes and GPUs.
func CollectiveX(p []float64, _ DType, x []float64) float64 { return collectiveTime(p, x[0], x[1]) }
