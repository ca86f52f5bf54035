//go:build full

package main

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"plimsoll/engine/enginetest"
	"plimsoll/profile"
	"plimsoll/profile/store"
)

// Every engine that is known by name is profiled from its name alone: started
// with flags that it has, found ready, asked what it is, and measured.
func TestEnginesByName(t *testing.T) {
	t.Parallel()
	env := withStandIns(t)
	for kind, s := range standIns() {
		if kind != "vllm" && !enginetest.Full { // each is a whole profile
			continue
		}
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "results")
			p := start(t, env, named(dir, kind, "--", "--quantization", "fp8")...)
			if code := p.wait(t); code != exitDone {
				t.Fatalf("exit code %d\n%s", code, &p.errout)
			}
			p.noOrphans(t)
			rec, err := store.ReadRecommendation(dir)
			if err != nil {
				t.Fatal(err)
			}
			if string(rec.Engine.Kind) != kind || rec.Engine.Version != s.version || rec.Provenance != profile.Simulated || rec.Decode.TP != 2 {
				t.Errorf("engine %+v, %s, decode at TP %d", rec.Engine, rec.Provenance, rec.Decode.TP)
			}
			run, err := store.ReadRun(dir)
			if err != nil || len(run.Engines) != 1 { // for both phases
				t.Fatalf("%d engines, %v", len(run.Engines), err)
			}
			for _, e := range run.Engines {
				if e.KVTokens != standInBlocks*16 || e.KVSource != "log" || e.Version != s.version {
					t.Errorf("%s: %d KV tokens from its %s, version %q", e.Key, e.KVTokens, e.KVSource, e.Version)
				}
				if n := len(e.Command); n < 3 || !slices.Equal(e.Command[n-2:], []string{"--quantization", "fp8"}) {
					t.Errorf("%s was started as %q", e.Key, e.Command)
				}
				if slices.ContainsFunc(e.Warnings, func(w profile.Warning) bool { return w.Code == "kv_disagree" }) {
					t.Errorf("%s: %+v", e.Key, e.Warnings)
				}
			}
		})
	}
}

// A flag that the engine does not have ends it, with its own words.
func TestEngineRefusesFlag(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "results")
	p := start(t, withStandIns(t), named(dir, "vllm", "--", "--no-such-flag")...)
	if code := p.wait(t); code != exitFailed || !strings.Contains(p.errout.String(), `| unrecognized arguments: "--no-such-flag"`) {
		t.Errorf("exit code %d\n%s", code, &p.errout)
	}
}
