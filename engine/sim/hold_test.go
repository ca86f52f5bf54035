package sim

import (
	"testing"

	"plimsoll/engine"
)

// A prefill engine of 10 blocks computes two prompts of 4, and cannot start a
// third before one of them has left.
func TestHoldKV(t *testing.T) {
	e := mustNew(t, Config{Role: engine.RolePrefill, HoldKV: true, ReserveFullPrompt: true, KVBlocks: 10}, fixed(1))
	for id := range uint64(3) {
		mustAdd(t, e, Request{ID: id, PromptTokens: 64, OutputTokens: 100})
	}
	stepOf(t, e)
	for range 2 {
		if s, ok := e.Begin(); ok {
			t.Fatalf("a step %+v while no prompt has room", s)
		}
	}
	if s := e.Stats(); s.Held != 2 || s.Waiting != 1 || s.Running != 0 || s.KVUsed != 8 || s.Steps != 1 {
		t.Errorf("stats %+v: want two prompts held and one waiting after one step", s)
	}
	if err := e.Add(Request{ID: 1, PromptTokens: 1, OutputTokens: 1}); err == nil {
		t.Error("the ID of a held request was given again")
	}
	if e.Release(2) || !e.Release(1) || e.Release(1) {
		t.Error("Release is for held requests, once for each")
	}
	if b, events := stepOf(t, e); b.PrefillTokens != 64 || len(events) != 1 || !events[0].Last {
		t.Errorf("batch %+v, events %v after a release: want the third prompt", b, events)
	}
	if !e.Idle() || e.Held() != 2 {
		t.Errorf("idle %v, %d held; want an idle engine that holds two", e.Idle(), e.Held())
	}
}

// Only a prefill engine's requests go anywhere, and warm-ups stay.
func TestWhatIsNotHeld(t *testing.T) {
	for _, c := range []struct {
		role   engine.Role
		warmUp bool
	}{{engine.RoleAggregated, false}, {engine.RoleDecode, false}, {engine.RolePrefill, true}} {
		e := mustNew(t, Config{Role: c.role, HoldKV: true, KVBlocks: 10}, fixed(1))
		mustAdd(t, e, Request{ID: 1, PromptTokens: 64, OutputTokens: 1, WarmUp: c.warmUp})
		stepOf(t, e)
		if s := e.Stats(); s.Held != 0 || s.KVUsed != 0 {
			t.Errorf("%s, warm-up %v: %+v", c.role, c.warmUp, s)
		}
	}
}
