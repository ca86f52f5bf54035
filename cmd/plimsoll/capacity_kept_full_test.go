//go:build full

package main

import (
	"strings"
	"testing"
)

// A profile's plan keeps the chunk that the profile was measured at, says so and emits it:
// there is no other to read off its surfaces.
func TestPlanOfAProfileKeepsItsChunk(t *testing.T) {
	dir := t.TempDir()
	target := []string{"--isl", "500", "--osl", "100", "--ttft", "500", "--itl", "40"}
	ran(t, exitDone, append([]string{
		"profile-sla", "--engine", "estimate", "--model", "llama-3.1-8b", "--gpu", "h100-sxm", "--parallelism", "TP:1",
		"--mode", "aggregated", "--max-num-batched-tokens", "1024", "--verify", "never", "--quiet", "--output-dir", dir,
	}, target...)...)
	plan := func(more ...string) string {
		p := ran(t, exitDone, append([]string{"capacity", "plan", "--profile", dir, "--rate", "20", "--isl", "500", "--osl", "100", "--ttft-p99", "1500", "--itl-p99", "60"}, more...)...)
		return p.out.String()
	}
	for _, c := range []struct {
		more  []string
		wants []string
	}{
		{nil, []string{"1024 tokens in a step, not searched (as the profile was measured): vLLM --max-num-batched-tokens 1024, SGLang --chunked-prefill-size 1024"}},
		{[]string{"--max-num-batched-tokens", "2048"}, []string{"2048 tokens in a step, not searched (as asked for; the profile was measured at 1024): vLLM --max-num-batched-tokens 2048"}},
		{[]string{"--emit", "kubernetes"}, []string{"--max-num-batched-tokens\n", "\"1024\"\n"}},
	} {
		said := plan(c.more...)
		for _, want := range c.wants {
			if !strings.Contains(said, want) {
				t.Errorf("%v: no %q in\n%s", c.more, want, said)
			}
		}
	}
}
