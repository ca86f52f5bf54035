package build

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"plimsoll/engine/field"
	"plimsoll/engine/latency"
)

// A fit is named, or the engine is that it is for, or a file.
func TestLoadFit(t *testing.T) {
	for name, want := range map[string]string{
		"": latency.DefaultFit().Name, "VLLM": "vllm", "vllm-0.15.1": "vllm-0.15.1", "vllm-v0.19.1": "vllm-0.19.1",
		"TRTLLM": "trtllm", "trtllm-1.2.0rc6.post3": "trtllm-1.2.0rc6.post3", "sglang-0.5.9": "sglang-0.5.9",
	} {
		if f, err := LoadFit(field.Fit, name); err != nil || f.Name != want {
			t.Errorf("%q: %s, %v; want %s", name, f.Name, err, want)
		}
	}
	file := filepath.Join(t.TempDir(), "sglang-0.5.9")
	for _, name := range []string{"vllm-0.19.json", "vllm-old", "llama", file} {
		if f, err := LoadFit(field.Fit, name); err == nil || !strings.Contains(err.Error(), `unknown fit "`+name+`": want vllm, `) {
			t.Errorf("%q: %s, %v", name, f.Name, err)
		}
	}
	if err := os.WriteFile(file, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Chdir(filepath.Dir(file))
	if f, err := LoadFit(field.Fit, "sglang-0.5.9"); err == nil || !strings.Contains(err.Error(), "not a calibration") {
		t.Errorf("a file of an engine's name: %s, %v", f.Name, err)
	}
}
