package build

import (
	"testing"

	"plimsoll/engine"
	"plimsoll/engine/catalog"
	"plimsoll/engine/sim"
	"plimsoll/profile"
	"plimsoll/profile/store"
)

// vLLM keeps the states of a model that has some, by its release.
func TestStatesKept(t *testing.T) {
	for _, c := range []struct {
		model, fit string
		want       sim.States
	}{
		{"qwen3.6-35b-a3b", "", sim.StatesAtForks},
		{"qwen3.6-35b-a3b", "vllm-0.24", sim.StatesAtForks},
		{"qwen3.6-35b-a3b", "vllm-0.23.1", sim.StatesAtEnds},
		{"qwen3.6-35b-a3b", "sglang", ""},
		{"llama-3.1-8b", "vllm-0.19", ""},
	} {
		s, err := NewModel(Options{Model: c.model, GPU: "h200-sxm", Fit: c.fit, Parallelism: engine.TP(2)})
		if err != nil {
			t.Fatal(err)
		}
		if got := Engine(s.Latency, engine.RoleAggregated).States; got != c.want {
			t.Errorf("%s by %q: %q, want %q", c.model, c.fit, got, c.want)
		}
	}
}

// What a profile's engines move from prefill to decode is as they store it.
func TestKVBytesOfProfile(t *testing.T) {
	cat, err := catalog.Default()
	if err != nil {
		t.Fatal(err)
	}
	m, err := cat.Model("llama-3.1-8b")
	if err != nil {
		t.Fatal(err)
	}
	moved := func(kv engine.DType) float64 {
		return Profile{Model: m, run: store.Run{Points: []profile.Point{{Config: engine.Config{KV: kv}}}}}.KVBytes().PerToken
	}
	if whole, half := moved(""), moved(engine.FP8); half <= 0 || whole != 2*half {
		t.Errorf("%v bytes a token in bf16, %v in fp8", whole, half)
	}
	if b := (Profile{}).KVBytes(); b.PerToken != 0 {
		t.Errorf("%v bytes of a model that is not known", b)
	}
}
