package build

import (
	"testing"

	"plimsoll/engine"
	"plimsoll/engine/catalog"
	"plimsoll/profile"
	"plimsoll/profile/store"
)

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
