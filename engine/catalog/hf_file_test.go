package catalog

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A config.json is told from rows by what it holds, and adds the model by the
// name that it gives itself, else that of its folder.
func TestWithHFFile(t *testing.T) {
	c, err := Default()
	if err != nil {
		t.Fatal(err)
	}
	qwen, err := os.ReadFile("testdata/hf/qwen3-32b.json")
	if err != nil {
		t.Fatal(err)
	}
	named := func(field string) string {
		return strings.Replace(string(qwen), "{", `{"_name_or_path": "`+field+`", `, 1)
	}
	for _, tt := range []struct{ name, text, want string }{
		{"no name", string(qwen), "our-qwen"},
		{"its own name", named("house/Qwen3-32B-tuned"), "house/Qwen3-32B-tuned"},
		{"somebody's folder", named("/home/somebody/checkpoints"), "our-qwen"},
		{"a relative folder", named("./out"), "our-qwen"},
		{"a byte order mark", "\ufeff \n" + string(qwen), "our-qwen"},
	} {
		dir := filepath.Join(t.TempDir(), "our-qwen")
		file := filepath.Join(dir, "config.json")
		if err := errors.Join(os.Mkdir(dir, 0o700), os.WriteFile(file, []byte(tt.text), 0o600)); err != nil {
			t.Fatal(err)
		}
		own, err := c.WithFile(file)
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		got, err := own.Model(tt.want)
		if err != nil || got.Layers != 64 || got.Hidden != 5120 || len(own.Models()) != len(c.Models())+1 || len(own.GPUs()) != len(c.GPUs()) {
			t.Errorf("%s: %+v, %v", tt.name, got, err)
		}
		if m, err := ReadHFFile(file); err != nil || m != got {
			t.Errorf("%s: %+v, %v", tt.name, m, err)
		}
	}
	if got, err := c.WithFile("gpus.csv"); err != nil || len(got.GPUs()) != len(c.GPUs()) {
		t.Errorf("rows: %v", err)
	}
}

func TestWithHFFileRefuses(t *testing.T) {
	c, err := Default()
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		`{"a": 1}`:                "no model's config.json: it has none of model_type, architectures and hidden_size",
		`{"hidden_size": 4096`:    "no model's config.json: bad JSON: the file ends within a value",
		`{"model_type": "mamba"}`: `model_type is "mamba": want one of deepseek_v3`,
		`{"model_type": "llama", "hidden_size": 4096}`:   "missing num_hidden_layers",
		`{"architectures": ["OwnForCausalLM"]}`:          `model_type is "" and architectures "OwnForCausalLM": want one of`,
		`{"architectures": ["LlamaForCausalLM"]}`:        "missing num_hidden_layers",
		`{"_name_or_path": 3, "model_type": "llama"}`:    "_name_or_path",
		strings.Repeat(" ", maxConfigBytes) + `{"a": 1}`: "larger than 16 MiB",
		`{"model_type": "llama", "hidden_size": "4096"}`: "hidden_size",
	} {
		file := filepath.Join(t.TempDir(), "config.json")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := c.WithFile(file); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), file) {
			t.Errorf("%.60s: %v, want %q", text, err, want)
		}
	}
	if _, err := ReadHFFile("nowhere/config.json"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v", err)
	}
}
