package latency

import (
	"math"
	"testing"

	"plimsoll/engine"
)

// What vLLM had left for KV cache on an H100 of 79.18 GiB, in GiB per GPU
// (source: see samplerBytes).
func TestMemoryAgainstVLLM(t *testing.T) {
	for _, tc := range []struct {
		model   string
		weights engine.DType
		tp      int
		gib     float64
	}{
		{"llama-3.1-8b", engine.BF16, 1, 51.38},
		{"qwen3-32b", engine.BF16, 1, 4.45},
		{"qwen3-32b", engine.BF16, 2, 34.49},
		{"gpt-oss-120b", engine.FP4, 1, 3.33},
		{"gpt-oss-20b", engine.FP4, 1, 50.28},
		{"llama-3.3-70b", engine.FP8, 2, 32.0},
	} {
		lm := on(t, tc.model, "h100-sxm", engine.Config{Weights: tc.weights, Parallelism: engine.TP(tc.tp)})
		got := float64(lm.Memory().KV) / gib
		t.Logf("%s TP%d: %.2f GiB for KV, vLLM %.2f", tc.model, tc.tp, got, tc.gib)
		if math.Abs(got-tc.gib) > 0.6 {
			t.Errorf("%s TP%d: %.2f GiB for KV, vLLM has %.2f", tc.model, tc.tp, got, tc.gib)
		}
	}
}

// 51.38 GiB at 131072 bytes a token, MLA on every rank, KV heads never split.
func TestKVTokens(t *testing.T) {
	for _, tc := range []struct {
		model   string
		gpu     string
		config  engine.Config
		perGPU  float64 // bytes of KV per token on each GPU
		replica int
	}{
		{"llama-3.1-8b", "h100-sxm", engine.Config{}, 131072, 1},
		{"llama-3.1-8b", "h100-sxm", engine.Config{KV: engine.FP8}, 65536, 1},
		{"llama-3.1-8b", "h100-sxm", engine.Config{Parallelism: engine.TP(4)}, 131072 / 4, 1},
		{"llama-3.1-8b", "h100-sxm", engine.Config{Parallelism: engine.TP(16)}, 131072 / 8, 1},
		{"llama-3.1-8b", "h100-sxm", engine.Config{Parallelism: engine.Parallelism{TP: 2, PP: 2, DP: 2}}, 131072 / 4, 2},
		{"deepseek-v3", "h200", engine.Config{Weights: engine.FP8, Parallelism: engine.TP(8)}, 70272, 1},
	} {
		lm := on(t, tc.model, tc.gpu, tc.config)
		blocks := int(float64(lm.Memory().KV) / (16 * tc.perGPU))
		if got := lm.KVTokens(); got != 16*blocks*tc.replica {
			t.Errorf("%s %s: %d KV tokens, want %d", tc.model, tc.config.Parallelism.Label(), got, 16*blocks*tc.replica)
		}
	}
	if n := on(t, "llama-3.1-8b", "h100-sxm", engine.Config{}).KVTokens(); n < 420_000 || n > 422_000 {
		t.Errorf("Llama-3.1-8B on an H100 has room for %d tokens", n)
	}
}
