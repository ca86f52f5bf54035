//go:build full

package main

import (
	"bytes"
	"slices"
	"strings"
	"testing"
)

// An engine has to hold the longest request, not the model's whole context: what
// one GPU serves is not refused, and the length is in the plan and in what it emits.
func TestEnginesHoldTheLongestRequest(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ model, gpu string }{
		{"gpt-oss-120b", "h100-sxm"}, {"qwen3-32b", "h100-sxm"}, {"gemma-3-27b", "h100-sxm"}, {"llama-3.1-8b", "l4"}, {"llama-3.1-8b", "a10g"},
	} {
		common := []string{
			"capacity", "plan", "--model", c.model, "--gpu", c.gpu, "--tp", "1", "--strategy", "aggregated", "--rate", "0.2", "--isl", "1000", "--osl", "100",
			"--ttft-p99", "30s", "--itl-p99", "1s", "--cost-per-gpu-hour", "1",
		}
		with := func(more ...string) []byte { return mustPrint(t, append(slices.Clone(common), more...)...) }
		out, err := readPlan(bytes.NewReader(with("--format", "json")))
		if err != nil {
			t.Errorf("%+v: %v", c, err)
			continue
		}
		if n := out.Plans[0].Pools[0].MaxModelLen; n != 2048 {
			t.Errorf("%+v: engines hold %d tokens, want 1100 rounded up to 2048", c, n)
		}
		if c.gpu != "l4" {
			continue
		}
		if got := string(with("--emit", "kubernetes", "--max-model-len", "3000")); !strings.Contains(got, "--max-model-len") || !strings.Contains(got, "\"3000\"") {
			t.Errorf("emitted without its length:\n%s", got)
		}
	}
}
