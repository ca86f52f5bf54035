package main

import (
	"slices"
	"strings"
	"testing"

	"plimsoll/engine/catalog"
	"plimsoll/engine/sim/build"
)

// capacity plan tries what the profiler tries: experts spread over attention
// replicas, and engines over several nodes; what it emits starts such an engine.
func TestPlansTryTheProfilersLayouts(t *testing.T) {
	t.Parallel()
	o := capacityOptions{fleet: build.Options{Model: "deepseek-r1", Weights: ""}, maxEngine: 16, gpus: []string{"H200-SXM"}}
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
		"capacity", "plan", "--model", "deepseek-r1", "--gpu", "h200-sxm", "--parallelism", "DEP:8", "--strategy", "aggregated", "--rate", "1", "--isl", "1000", "--osl", "100",
		"--ttft-p99", "10s", "--itl-p99", "1s", "--emit", "kubernetes",
	}
	got := string(mustPrint(t, args...))
	for _, want := range []string{"--data-parallel-size", "--enable-expert-parallel", "--max-model-len"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %s in\n%s", want, got)
		}
	}
}
