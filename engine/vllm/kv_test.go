package vllm_test

import (
	"strings"
	"testing"

	"plimsoll/engine"
	"plimsoll/engine/vllm"
)

// vLLM 0.19 states 290,864 tokens for a model of attention and Mamba layers that
// holds 33.04 requests of 32,768.
func TestKVTokensOfHybridModels_VLLM40691(t *testing.T) {
	log := "GPU KV cache size: 290,864 tokens\nMaximum concurrency for 32,768 tokens per request: 33.04x"
	if got, err := (vllm.Server{}).KVTokens(engine.Config{}, strings.NewReader(log)); err != nil || got != 1082654 {
		t.Errorf("got %d, %v", got, err)
	}
}
