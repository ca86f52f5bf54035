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
		e, _ := realEngineOf(kind)
		said, errRead := e.arguments(deployment{}).Read(w.Args, engine.Config{})
		if err != nil || errRead != nil || w.Kind != kind || w.Model != "meta-llama/Meta-Llama-3.1-8B" || said.Config.Limits.MaxModelLen != 3072 || said.Config.Limits.MaxNumBatchedTokens != 2048 {
			t.Errorf("%q: %+v, %v, %v\n%s", fit, w, err, errRead, p.out.String())
		}
	}
}

// A planner that starts with the emitted configuration has room to correct itself: with
// no more than the plan's GPUs it gave prefill too few and kept 5 % of 20 requests/s.
func TestPlannersKeepWhatThePlanPromises(t *testing.T) {
	t.Parallel()
	load := []string{"--model", "llama-3.1-8b", "--gpu", "h100-sxm", "--rate", "20", "--isl", "3000", "--osl", "150"}
	for _, strategy := range []string{"disaggregated", "aggregated"} {
		p := ran(t, 0, append([]string{"capacity", "plan", "--strategy", strategy, "--ttft-p99", "1000", "--itl-p99", "50", "--emit", "planner"}, load...)...)
		file := configFile(t, p.out.String())
		for _, policy := range replayed(t, append([]string{"--config", file, "--policy", "default"}, load...)...).Policies {
			if policy.Both.Mean < 0.99 {
				t.Errorf("%s, %s: %v of requests within the SLO\n%s", strategy, policy.Name, policy.Both.Mean, p.out.String())
			}
		}
	}
}
