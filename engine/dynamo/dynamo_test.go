package dynamo_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"plimsoll/engine"
	"plimsoll/engine/dynamo"
)

var update = flag.Bool("update", false, "rewrite the expected variants")

func read(t *testing.T, name string) dynamo.Graph {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name+".yaml"))
	if err != nil {
		t.Fatal(err)
	}
	g, err := dynamo.Read(b)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return g
}

func configOf(phase string, tp int) engine.Config {
	return engine.Config{Kind: engine.KindDynamo, Role: engine.RoleAggregated, Parallelism: engine.TP(tp), PrefixCaching: phase == "decode"}
}

func samples() []string {
	return []string{"disagg", "disagg_router", "agg", "multinode", "v1", "odd"}
}

func TestVariants(t *testing.T) {
	for _, name := range samples() {
		for _, phase := range []string{"prefill", "decode"} {
			got, err := read(t, name).Variant(configOf(phase, 4), 8123)
			if err != nil {
				t.Fatalf("%s %s: %v", name, phase, err)
			}
			golden := filepath.Join("testdata", name+"."+phase+".yaml")
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
				continue
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if got != string(want) {
				t.Errorf("%s, %s:\n%s\nwant\n%s", name, phase, got, want)
			}
		}
	}
}

// Upstream's profiler copied the configuration one level deep: what was set for
// prefill in a worker stayed in the configuration that decode started from
// (profile_sla.py, convert_config: config.copy()).
func TestVariantsLeaveTheGraphAlone_DynamoConfigCopyIsShallow(t *testing.T) {
	for _, name := range samples() {
		g := read(t, name)
		before, fresh := g.Text(), read(t, name)
		wantPrefill, _ := fresh.Variant(configOf("prefill", 2), 8123)
		wantDecode, _ := fresh.Variant(configOf("decode", 4), 8123)
		for tp := 1; tp <= 8; tp *= 2 {
			for _, phase := range []string{"prefill", "decode"} {
				if _, err := g.Variant(configOf(phase, tp), 8000+tp); err != nil {
					t.Fatal(err)
				}
			}
		}
		if g.Text() != before || g != fresh {
			t.Errorf("%s: the graph changed", name)
		}
		if got, _ := g.Variant(configOf("prefill", 2), 8123); got != wantPrefill {
			t.Errorf("%s: prefill after others:\n%s", name, got)
		}
		if got, _ := g.Variant(configOf("decode", 4), 8123); got != wantDecode {
			t.Errorf("%s: decode after others:\n%s", name, got)
		}
	}
}

func TestVariantKeepsTextAndComments(t *testing.T) {
	g := read(t, "disagg")
	decode, err := g.Variant(configOf("decode", 1), 8123)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []string{"# A chat model, prefilled apart.\n", "  # shorter prompts stay here\n", `'{"kv_connector":"DynamoNixlConnector"}'`, "common-configs: [model, block-size]\n"} {
		if !strings.Contains(decode, s) {
			t.Errorf("%q is lost in:\n%s", s, decode)
		}
	}
	if v1, _ := read(t, "v1").Variant(configOf("prefill", 1), 8123); !strings.Contains(v1, "enforce-eager: yes\n") {
		t.Errorf("yes, which YAML 1.1 reads as true, is another word in:\n%s", v1) // as PyYAML does
	}
}

func TestLimits(t *testing.T) {
	cfg := configOf("decode", 2)
	cfg.Limits = engine.Limits{MaxNumSeqs: 64, MaxNumBatchedTokens: 4096, MaxModelLen: 6000, BlockSize: 32}
	cfg.KV, cfg.MemoryFraction = engine.FP8, 0.85
	got, err := read(t, "multinode").Variant(cfg, 8123)
	if err != nil {
		t.Fatal(err)
	}
	for s, n := range map[string]int{
		"  max-num-seqs: 64\n": 1, "  max-num-batched-tokens: 4096\n": 1, "  max-model-len: 6000\n": 2, // the Processor's too
		"  block-size: 32\n": 1, "  kv-cache-dtype: fp8\n": 1, "  gpu-memory-utilization: 0.85\n": 1,
	} {
		if strings.Count(got, s) != n {
			t.Errorf("%d times %q in:\n%s", strings.Count(got, s), s, got)
		}
	}
}

func TestGraph(t *testing.T) {
	for name, want := range map[string]struct {
		model string
		most  int
	}{
		"disagg": {"example-org/Chat-8B", 16384}, "disagg_router": {"chat", 8192}, "multinode": {"example-org/Big-405B-FP8", 4096}, "odd": {"odd", 0},
	} {
		if g := read(t, name); g.Model() != want.model || g.MaxModelLen() != want.most {
			t.Errorf("%s: %q, %d", name, g.Model(), g.MaxModelLen())
		}
	}
	for name, want := range map[string]int{"disagg": 1, "disagg_router": 2, "multinode": 2, "v1": 1} {
		if got := read(t, name).Stages(); got != want {
			t.Errorf("%s: %d stages", name, got)
		}
	}
	if got := strings.Join(read(t, "agg").Components(), " "); got != "Common Frontend Processor VllmWorker Planner" {
		t.Error(got)
	}
	if m := (dynamo.Graph{}).Model(); m != "" {
		t.Error(m)
	}
}

func TestReadRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"":                         "no graph configuration",
		"isl: 3000\nosl: 150\n":    "component isl holds no mapping",
		"[1, 2]":                   "no graph configuration",
		"hello":                    "no graph configuration",
		"a: {b: 1}\n":              "no component Frontend",
		"Frontend: {port: 1}\n":    "want a component VllmWorker or VllmDecodeWorker",
		"Frontend:\nVllmWorker:\n": "component Frontend holds no mapping",
		"Frontend: {}\nVllmWorker: {ServiceArgs: 1}\n":              "VllmWorker.ServiceArgs: want a mapping",
		"Frontend: {}\nVllmWorker: {ServiceArgs: {resources: 2}}\n": "VllmWorker.ServiceArgs.resources: want a mapping",
		"Frontend: {}\nFrontend: {}\nVllmWorker: {}\n":              "already defined",
		"Frontend: {}\nVllmWorker: {}\n---\nFrontend: {}\n":         "more than one document",
		"Frontend: {\n": "",
		"apiVersion: nvidia.com/v1alpha1\nkind: DynamoGraphDeployment\nmetadata: {name: a}\nspec: {services: {}}\n": "manifest for Kubernetes",
	} {
		_, err := dynamo.Read([]byte(text))
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

func TestVariantRefuses(t *testing.T) {
	g := read(t, "disagg")
	for want, p := range map[string]engine.Parallelism{"TP:2 PP:2": {TP: 2, PP: 2}, "DEP:8": {TP: 1, DP: 8, EP: 8}, "TEP:4": {TP: 4, EP: 4}} {
		if _, err := g.Variant(engine.Config{Parallelism: p}, 8123); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
	for _, port := range []int{0, -1, 65536} {
		if _, err := g.Variant(configOf("decode", 1), port); err == nil {
			t.Errorf("port %d is accepted", port)
		}
	}
	if _, err := (dynamo.Graph{}).Variant(configOf("decode", 1), 8123); err == nil {
		t.Error("no graph is accepted")
	}
}
