package dynamo_test

import (
	"fmt"
	"strings"
	"testing"

	"plimsoll/engine"
	"plimsoll/engine/dynamo"
)

// A deployment with a worker's arguments is read back as the same engine, by each
// engine's names for its limits.
func TestArgumentsAreReadBack(t *testing.T) {
	limits := engine.Limits{MaxNumSeqs: 64, MaxNumBatchedTokens: 2048, MaxModelLen: 5120}
	for kind, flag := range map[engine.Kind]string{engine.KindVLLM: "--max-model-len", engine.KindSGLang: "--context-length", engine.KindTRTLLM: "--max-seq-len"} {
		var services strings.Builder
		for _, role := range []engine.Role{engine.RolePrefill, engine.RoleDecode} {
			args, err := dynamo.Arguments(engine.Config{Kind: kind, Model: "example-org/Chat-8B", Role: role, Parallelism: engine.TP(2), Limits: limits, KV: engine.FP8})
			if err != nil {
				t.Fatal(err)
			}
			text := strings.Join(args, " ")
			for _, want := range []string{flag + " 5120", "fp8", string(role)} {
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
		if err != nil || w.Kind != kind || w.Model != "example-org/Chat-8B" || w.Limits != limits {
			t.Errorf("%s: %+v, %v", kind, w, err)
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
