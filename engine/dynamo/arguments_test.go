package dynamo_test

import (
	"fmt"
	"strings"
	"testing"

	"plimsoll/engine"
	"plimsoll/engine/argv"
	"plimsoll/engine/dynamo"
	"plimsoll/engine/sglang"
	"plimsoll/engine/trtllm"
	"plimsoll/engine/vllm"
)

// A deployment with a worker's arguments is read back as the same engine, by each
// engine's names for what a plan knows.
func TestArgumentsAreReadBack(t *testing.T) {
	limits := engine.Limits{MaxNumSeqs: 64, MaxNumBatchedTokens: 2048, MaxModelLen: 5120}
	for kind, e := range map[engine.Kind]struct {
		flag string
		argv.Table
	}{
		engine.KindVLLM: {"--max-model-len", vllm.Arguments()}, engine.KindSGLang: {"--context-length", sglang.Arguments()}, engine.KindTRTLLM: {"--max-seq-len", trtllm.Arguments()},
	} {
		cfg := engine.Config{Limits: limits, KV: engine.FP8, MemoryFraction: 0.8}
		var services strings.Builder
		for _, role := range []engine.Role{engine.RolePrefill, engine.RoleDecode} {
			args, err := dynamo.Arguments(engine.Config{Kind: kind, Model: "example-org/Chat-8B", Role: role, Parallelism: engine.TP(2), Limits: cfg.Limits, KV: cfg.KV, MemoryFraction: cfg.MemoryFraction})
			if err != nil {
				t.Fatal(err)
			}
			text := strings.Join(args, " ")
			for _, want := range []string{e.flag + " 5120", "fp8", string(role)} {
				if !strings.Contains(text, want) {
					t.Errorf("%s lacks %s: %s", kind, want, text)
				}
			}
			fmt.Fprintf(&services, "    %s:\n      subComponentType: %s\n      extraPodSpec:\n        mainContainer:\n          command: [python3, -m, dynamo.%s]\n          args:\n", role, role, kind)
			for _, a := range args {
				fmt.Fprintf(&services, "            - %q\n", a)
			}
		}
		w, err := dynamo.Read([]byte("kind: DynamoGraphDeployment\nspec:\n  services:\n" + services.String()))
		if err != nil || w.Kind != kind || w.Model != "example-org/Chat-8B" {
			t.Errorf("%s: %+v, %v", kind, w, err)
		}
		if s, err := e.Read(w.Args, engine.Config{}); err != nil || s.Config != cfg || len(s.Unknown) > 0 {
			t.Errorf("%s: %q: %+v, %v", kind, w.Args, s, err)
		}
	}
}

// Whoever has no such worker, or no such layout, says so.
func TestArgumentsRefuse(t *testing.T) {
	for _, cfg := range []engine.Config{
		{Kind: engine.KindLlamaCpp, Model: "m", Role: engine.RoleDecode},
		{Kind: engine.KindTRTLLM, Model: "m", Role: engine.RoleDecode, Parallelism: engine.Parallelism{TP: 2, DP: 2}},
		{Kind: engine.KindVLLM, Role: engine.RoleDecode},
	} {
		if args, err := dynamo.Arguments(cfg); err == nil {
			t.Errorf("%+v: %q", cfg, args)
		}
	}
}
