package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"plimsoll/engine"
	"plimsoll/engine/gpu"
)

var update = flag.Bool("update", false, "rewrite the expected command lines")

// launches are what each engine that is known by name is asked to run: every
// layout, and every knob.
func launches() []struct {
	name string
	cfg  engine.Config
} {
	layout := func(tp, pp, dp, ep int) engine.Config {
		return engine.Config{Model: "org/model", Role: engine.RoleAggregated, Parallelism: engine.Parallelism{TP: tp, PP: pp, DP: dp, EP: ep}}
	}
	cached := layout(4, 1, 1, 1)
	cached.PrefixCaching = true
	limited := cached
	limited.Limits = engine.Limits{MaxNumSeqs: 64, MaxNumBatchedTokens: 8192, MaxModelLen: 4096}
	replicas := limited
	replicas.Parallelism = engine.Parallelism{TP: 1, DP: 8, EP: 8}
	blocks, fp8, share := layout(1, 1, 1, 1), layout(1, 1, 1, 1), layout(1, 1, 1, 1)
	blocks.Limits.BlockSize, fp8.KV, share.MemoryFraction = 32, engine.FP8, 0.85
	return []struct {
		name string
		cfg  engine.Config
	}{
		{"prefill TP:1", layout(1, 1, 1, 1)},
		{"prefill TP:2", layout(2, 1, 1, 1)},
		{"decode TP:4", cached},
		{"decode TP:4, limits", limited},
		{"TP:1 PP:2", layout(1, 2, 1, 1)},
		{"TP:2 PP:2", layout(2, 2, 1, 1)},
		{"TEP:8", layout(8, 1, 1, 8)},
		{"DEP:8", layout(1, 1, 8, 8)},
		{"DEP:8, limits", replicas},
		{"TP:1 DP:4", layout(1, 1, 4, 1)},
		{"TP:2 DP:2", layout(2, 1, 2, 1)},
		{"TP:2 DP:2 EP:4", layout(2, 1, 2, 4)},
		{"TP:4 EP:3", layout(4, 1, 1, 3)},
		{"blocks", blocks},
		{"fp8 KV", fp8},
		{"memory", share},
		{"no model", engine.Config{}},
	}
}

// What each engine is started with, at each layout: testdata/argv has a file for
// each. -update rewrites them; each changed line is to be looked at.
func TestCommandLines(t *testing.T) {
	servers := map[string]server{"llamacpp-cpu": realServer(t, engine.KindLlamaCpp, deployment{cpu: true}, "--no-warmup")}
	for _, e := range realEngines() {
		servers[string(e.kind)] = realServer(t, e.kind, deployment{gpuCount: 8, visible: []gpu.Device{{ID: "GPU-0"}}}, "--seed", "1")
	}
	for name, s := range servers {
		var b strings.Builder
		for _, l := range launches() {
			spec, err := s.Spec(l.cfg, engine.Launch{Port: 8123, LogPath: "engines/x.log"})
			fmt.Fprintf(&b, "# %s\n", l.name)
			if err != nil {
				fmt.Fprintf(&b, "refused: %v\n\n", err)
				continue
			}
			fmt.Fprintf(&b, "%s\n", strings.Join(spec.Argv, " "))
			for _, f := range spec.Files {
				fmt.Fprintf(&b, "%s:\n  %s\n", f.Path, strings.ReplaceAll(strings.TrimSuffix(f.Text, "\n"), "\n", "\n  "))
			}
			b.WriteString("\n")
		}
		golden := filepath.Join("testdata", "argv", name+".txt")
		if *update {
			if err := os.WriteFile(golden, []byte(b.String()), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		want, err := os.ReadFile(golden)
		if err != nil || b.String() != string(want) {
			t.Errorf("%s: %v\n%s", golden, err, b.String())
		}
	}
}

// realServer is the engine of that kind with arguments of the user's.
func realServer(t *testing.T, k engine.Kind, d deployment, extra ...string) server {
	t.Helper()
	e, ok := realEngineOf(k)
	if !ok {
		t.Fatalf("no engine of kind %s", k)
	}
	return e.server(profileOptions{extra: extra}, d)
}
