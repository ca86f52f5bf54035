package vllm_test

import (
	"errors"
	"os"
	"strings"
	"testing"

	"plimsoll/engine"
	"plimsoll/engine/kvlog"
	"plimsoll/engine/vllm"
)

func dp(n int) engine.Config { return engine.Config{Parallelism: engine.Parallelism{TP: 1, DP: n}} }

func TestKVTokens(t *testing.T) {
	for _, c := range []struct {
		file     string
		dp, want int
	}{
		{"0.7.3.log", 1, 2042019}, // 2048 × 997.08
		{"0.8.log", 1, 2042016},
		{"0.9-workers.log", 1, 436144},
		{"0.11.log", 1, 436144},
		{"0.11.log", 3, 3 * 436144},
		{"0.11-dp2.log", 2, 866144},
		{"0.19-hybrid.log", 1, 1082654},
		{"2026-06.log", 1, 620944},
		{"2026-09-dp2.log", 2, 128000},
		{"README.md", 1, 0},
	} {
		text, err := os.ReadFile("testdata/" + c.file)
		if err != nil {
			t.Fatal(err)
		}
		got, err := vllm.Server{}.KVTokens(dp(c.dp), strings.NewReader(string(text)))
		if got != c.want || (c.want == 0) != errors.Is(err, kvlog.ErrSilent) {
			t.Errorf("%s: got %d, %v, want %d", c.file, got, err, c.want)
		}
	}
}

// vLLM 0.19 states 290,864 tokens for a model of attention and Mamba layers that
// holds 33.04 requests of 32,768.
func TestKVTokensOfHybridModels_VLLM40691(t *testing.T) {
	log := "GPU KV cache size: 290,864 tokens\nMaximum concurrency for 32,768 tokens per request: 33.04x"
	if got, err := (vllm.Server{}).KVTokens(dp(1), strings.NewReader(log)); err != nil || got != 1082654 {
		t.Errorf("got %d, %v", got, err)
	}
}

func FuzzKVTokens(f *testing.F) {
	f.Add("(EngineCore_DP1 pid=1) GPU KV cache size: 436,144 tokens, Maximum concurrency for 4,096 tokens per request: 2.5x", 2)
	f.Fuzz(func(t *testing.T, log string, n int) {
		got, err := vllm.Server{}.KVTokens(dp(n%100), strings.NewReader(log))
		if (err == nil) != (got > 0) {
			t.Fatalf("%d tokens, %v", got, err)
		}
	})
}
