//go:build full

package main

import (
	"testing"

	"plimsoll/engine"
	"plimsoll/engine/dynamo"
)

// Whoever reads the emitted deployment of a plan finds the engine that the plan was sized
// with: the length of its longest request, its chunk and the engine whose fit it rests on.
func TestEmittedEnginesAreThePlans(t *testing.T) {
	t.Parallel()
	for fit, kind := range map[string]engine.Kind{"vllm": engine.KindVLLM, "sglang-0.5": engine.KindSGLang, "trtllm": engine.KindTRTLLM} {
		p := ran(t, 0, "capacity", "plan", "--model", "llama-3.1-8b", "--gpu", "h100-sxm", "--tp", "1", "--strategy", "disaggregated", "--fit", fit,
			"--rate", "1", "--isl", "3000", "--osl", "50", "--ttft-p99", "2000", "--itl-p99", "50", "--max-num-batched-tokens", "2048", "--emit", "kubernetes")
		w, err := dynamo.Read([]byte(p.out.String()))
		if err != nil || w.Kind != kind || w.Model != "meta-llama/Meta-Llama-3.1-8B" || w.Limits.MaxModelLen != 3072 || w.Limits.MaxNumBatchedTokens != 2048 {
			t.Errorf("%q: %+v, %v\n%s", fit, w, err, p.out.String())
		}
	}
}
