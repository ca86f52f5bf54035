package main

import (
	"testing"

	"plimsoll/engine"
	"plimsoll/engine/catalog"
	dep "plimsoll/engine/deployment"
	"plimsoll/engine/latency"
	"plimsoll/profile/trace"
)

// The requests of a trace are not left out of a load for a context that the program
// chose: each layout has what the longest one takes, as far as model and memory go.
func TestContextForTheTrace(t *testing.T) {
	cat, err := catalog.Default()
	if err != nil {
		t.Fatal(err)
	}
	m, err := cat.Model("llama-3.1-8b")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		gpu                string
		longest, asked, kv int
		want               [2]int // of TP:1 and TP:2; 0 = what the KV cache holds
	}{
		{"h100-sxm", 0, 0, 0, [2]int{quickReach, quickReach}},
		{"h100-sxm", 50_000, 0, 0, [2]int{50_000, 50_000}},
		{"h100-sxm", 500_000, 0, 0, [2]int{m.MaxContext, m.MaxContext}},
		{"h100-sxm", 50_000, 8000, 0, [2]int{8000, 8000}},
		{"h100-sxm", 50_000, 0, 20_000, [2]int{20_000, 20_000}},
		{"l4", 50_000, 0, 0, [2]int{0, 50_000}},
	} {
		g, err := cat.GPU(c.gpu)
		if err != nil {
			t.Fatal(err)
		}
		d := deployment{kind: engine.KindEstimate, model: &m, gpu: &g, gpuCount: 2, weights: dep.StorageOf("", "", m)}
		o := profileOptions{isl: 500, osl: 100, maxContext: c.asked, kvTokens: c.kv, layouts: dep.PowersOfTwo(2), traffic: traffic{isl: 500, osl: 100, arrivals: []trace.Arrival{{ISL: 10, OSL: 10}, {ISL: c.longest - 100, OSL: 100}}}}
		cs, skips, err := d.candidates(o)
		if err != nil || len(cs) != 2 {
			t.Fatalf("%s: %d candidates, %v, %v", c.gpu, len(cs), skips, err)
		}
		for i, got := range cs {
			want := c.want[i]
			if want == 0 {
				want = dep.ContextRoom(m, g, got)
			}
			if got.Limits.MaxModelLen != want || latency.Check(m, g, got) != nil {
				t.Errorf("%s, longest %d, --max-context-length %d, --kv-tokens %d: %s has a context of %d, want %d", c.gpu, c.longest, c.asked, c.kv, got.Parallelism.Label(), got.Limits.MaxModelLen, want)
			}
		}
		if reach := simContext(o, m); reach > quickReach {
			t.Errorf("surfaces reach %d tokens for the sake of a trace", reach)
		}
	}
}
