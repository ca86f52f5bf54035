package main

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"plimsoll/engine/catalog"
	"plimsoll/engine/sim/build"
)

// An engine has to hold the longest request, not the model's whole context: what
// one GPU serves is not refused, and the length is in the plan and in what it emits.
func TestEnginesHoldTheLongestRequest(t *testing.T) {
	long(t)
	t.Parallel()
	for _, c := range []struct{ model, gpu string }{
		{"gpt-oss-120b", "h100-sxm"}, {"qwen3-32b", "h100-sxm"}, {"gemma-3-27b", "h100-sxm"}, {"llama-3.1-8b", "l4"}, {"llama-3.1-8b", "a10g"},
	} {
		common := []string{
			"capacity", "plan", "--model", c.model, "--gpu", c.gpu, "--tp", "1", "--strategy", "aggregated", "--peak-qps", "0.2", "--avg-isl", "1000", "--avg-osl", "100",
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

// capacity plan tries what the profiler tries: experts spread over attention
// replicas, and engines over several nodes; what it emits starts such an engine.
func TestPlansTryTheProfilersLayouts(t *testing.T) {
	long(t)
	t.Parallel()
	o := capacityOptions{fleet: build.Options{Model: "deepseek-r1", Weights: "", Async: "auto"}, maxEngine: 16, gpus: []string{"H200-SXM"}}
	cat, err := catalog.Load("")
	if err != nil {
		t.Fatal(err)
	}
	m, err := cat.Model(o.fleet.Model)
	if err != nil {
		t.Fatal(err)
	}
	o.fleet.Limits.MaxModelLen = 8192
	labels := func() []string {
		var out []string
		sources, _ := o.engines(m, o.gpus[0])
		for _, s := range sources {
			out = append(out, s.Config.Parallelism.Label())
		}
		return out
	}
	if got := labels(); !slices.Contains(got, "DEP:8") || !slices.Contains(got, "DEP:16") || !slices.Contains(got, "TEP:8") {
		t.Errorf("candidates %v", got)
	}
	if o.maxEngine = 8; slices.Contains(labels(), "DEP:16") {
		t.Errorf("more GPUs than one engine may have: %v", labels())
	}
	args := []string{
		"capacity", "plan", "--model", "deepseek-r1", "--gpu", "h200-sxm", "--parallelism", "DEP:8", "--strategy", "aggregated", "--peak-qps", "1", "--avg-isl", "1000", "--avg-osl", "100",
		"--ttft-p99", "10s", "--itl-p99", "1s", "--emit", "kubernetes",
	}
	got := string(mustPrint(t, args...))
	for _, want := range []string{"--data-parallel-size", "--enable-expert-parallel", "--max-model-len"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %s in\n%s", want, got)
		}
	}
}
