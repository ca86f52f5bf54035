package fleet

import (
	"slices"
	"testing"

	"plimsoll/engine"
	"plimsoll/engine/sim"
)

// A full decode pool holds back prefill: no more prompts are computed ahead than
// the prefill engine has room for, and none is lost.
func TestDecodeHoldsBackPrefill(t *testing.T) {
	const s = engine.Second
	for _, c := range []struct {
		decoders int
		back     bool
	}{{1, true}, {8, false}} {
		f, err := New(Config{Pools: []Pool{
			{Engine: sim.Config{Role: engine.RolePrefill, KVBlocks: 20}, Timer: steady(s / 10), Replicas: 1},
			{Engine: sim.Config{Role: engine.RoleDecode, KVBlocks: 20}, Timer: steady(s), Replicas: c.decoders},
		}})
		if err != nil {
			t.Fatal(err)
		}
		for i := range 200 { // 5 blocks each: 4 at once in an engine
			offerAll(t, f, Request{At: engine.Picoseconds(i) * s / 2, ISL: 70, OSL: 10})
		}
		if err := f.Finish(Forever); err != nil {
			t.Fatal(err)
		}
		r := f.Report()
		p := r.Pools[0]
		if r.Finished != 200 || slices.Contains(codes(r), "held_back") != c.back || p.heldPeak > 4 {
			t.Errorf("%d decoders: %d finished, at most %v held, stalled %v, warnings %v", c.decoders, r.Finished, p.heldPeak, p.stalled, r.Warnings)
		}
	}
}

// A draining prefill engine stays until decode engines have what it holds.
func TestDrainingWaitsForReaders(t *testing.T) {
	const s = engine.Second
	f, err := New(Config{Pools: []Pool{
		{Engine: sim.Config{Role: engine.RolePrefill, KVBlocks: 20}, Timer: steady(s), Replicas: 1},
		{Engine: sim.Config{Role: engine.RoleDecode, KVBlocks: 20}, Timer: steady(s), StartUp: 10 * s},
	}})
	if err != nil {
		t.Fatal(err)
	}
	offerAll(t, f, Request{ISL: 10, OSL: 2})
	for role, n := range map[engine.Role]int{engine.RolePrefill: 0, engine.RoleDecode: 1} {
		if err := f.Scale(role, n, 2*s); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Finish(Forever); err != nil {
		t.Fatal(err)
	}
	if r := f.Report(); r.Finished != 1 || r.Pools[0].GPUSeconds != 12 {
		t.Errorf("%d finished, prefill was there for %v s; want the 12 until decoding began", r.Finished, r.Pools[0].GPUSeconds)
	}
}

func TestThrashIsSaid(t *testing.T) {
	for _, c := range []struct{ reserve, want bool }{{false, true}, {true, false}} {
		f, err := New(Config{Pools: []Pool{{
			Engine: sim.Config{
				KVBlocks: 10, ReserveFullPrompt: c.reserve, Limits: engine.Limits{MaxNumSeqs: 4, MaxNumBatchedTokens: 64},
			},
			Timer: steady(engine.Second), Replicas: 1,
		}}})
		if err != nil {
			t.Fatal(err)
		}
		offerAll(t, f, Request{ISL: 64, OSL: 61}, Request{At: 1, ISL: 96, OSL: 2})
		if err := f.Finish(Forever); err != nil {
			t.Fatal(err)
		}
		if r := f.Report(); slices.Contains(codes(r), "thrash") != c.want {
			t.Errorf("reserve %v: %d preemptions, warnings %v", c.reserve, r.Pools[0].Preemptions, r.Warnings)
		}
	}
}
