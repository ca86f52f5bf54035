package main

import (
	"os"
	"testing"

	"plimsoll/engine"
	"plimsoll/engine/catalog"
)

// What the catalog calls a model for short, no hub knows.
func TestModelsAsLoaded(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.Mkdir("qwen3-8b", 0o755); err != nil {
		t.Fatal(err)
	}
	full := catalog.Model{Name: "deepseek-ai/DeepSeek-V3"}
	for _, c := range []struct {
		kind        engine.Kind
		given, want string
	}{
		{engine.KindVLLM, "deepseek-v3", full.Name},
		{engine.KindSGLang, "deepseek-v3", full.Name},
		{engine.KindTRTLLM, "other/DeepSeek-V3", "other/DeepSeek-V3"},
		{engine.KindVLLM, "models/here/config.json", "models/here"},
		{engine.KindVLLM, "qwen3-8b", "qwen3-8b"}, // a folder
		{engine.KindSim, "deepseek-v3", full.Name},
		{engine.KindCommand, "deepseek-v3", "deepseek-v3"},
		{engine.KindLlamaCpp, "deepseek-v3", "deepseek-v3"},
	} {
		if got := (deployment{kind: c.kind, modelName: c.given}).asLoaded(full); got != c.want {
			t.Errorf("%s gets %q for %q, want %q", c.kind, got, c.given, c.want)
		}
	}
}
