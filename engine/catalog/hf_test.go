package catalog

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A published config.json gives the row of the table.
func TestReadHFConfigEqualsTable(t *testing.T) {
	c := defaults(t)
	files, err := filepath.Glob("testdata/hf/*.json")
	if err != nil || len(files) < 9 {
		t.Fatalf("%d fixtures, %v", len(files), err)
	}
	for _, path := range files {
		name := strings.TrimSuffix(filepath.Base(path), ".json")
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		got, err := readHFConfig(f, name)
		_ = f.Close()
		if err != nil {
			t.Error(err)
			continue
		}
		want, err := c.Model(name)
		if err != nil {
			t.Fatal(err)
		}
		got.Name, got.Source = want.Name, want.Source
		got.QuantBlock, got.Weights = want.QuantBlock, want.Weights // these files leave quantization_config and torch_dtype out
		if want.MoE() && !want.MLA() {
			got.FFN = want.FFN // says nothing where every layer has experts
		}
		if got != want {
			t.Errorf("%s:\ngot  %+v\nwant %+v", path, got, want)
		}
	}
}

func TestReadHFConfigDefaults(t *testing.T) {
	const rest = `"hidden_size":64,"num_hidden_layers":4,"num_attention_heads":8,"intermediate_size":128,"vocab_size":100,"max_position_embeddings":512`
	read := func(text string) Model {
		t.Helper()
		m, err := readHFConfig(strings.NewReader(text), "m")
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	if m := read(`{"model_type":"llama",` + rest + `}`); m.KVHeads != 8 || m.HeadDim != 8 || m.TiedEmbeddings || m.FullAttentionLayers != 4 {
		t.Errorf("llama without kv heads and head_dim: %+v", m)
	}
	if m := read(`{"model_type":"mistral","sliding_window":128,` + rest + `}`); m.SlidingWindow != 128 || m.FullAttentionLayers != 0 {
		t.Errorf("mistral with a window on all layers: %+v", m)
	}
	if m := read(`{"model_type":"qwen2","sliding_window":128,"use_sliding_window":true,"max_window_layers":3,` + rest + `}`); m.SlidingWindow != 128 || m.FullAttentionLayers != 3 {
		t.Errorf("qwen2 with a window: %+v", m)
	}
}

func TestReadHFConfigRefuses(t *testing.T) {
	const rest = `"hidden_size":64,"num_hidden_layers":4,"num_attention_heads":8,"intermediate_size":128,"vocab_size":100,"max_position_embeddings":512`
	for name, tc := range map[string]struct{ text, want string }{
		"not json":    {"hello", "config.json of m: bad JSON: invalid character"},
		"empty":       {"", "config.json of m: bad JSON: the file ends within a value"},
		"list":        {"[]", "config.json of m: the file: got a list, want an object"},
		"no family":   {"{}", `config.json of m: model_type is "": want one of deepseek_v3, gemma3, `},
		"family":      {`{"model_type":"mamba"}`, `config.json of m: model_type is "mamba"`},
		"missing":     {`{"model_type":"llama","hidden_size":64}`, "config.json of m: missing num_hidden_layers, num_attention_heads, intermediate_size, vocab_size, max_position_embeddings"},
		"experts":     {`{"model_type":"mixtral",` + rest + `}`, "config.json of m: missing the number of experts, num_experts_per_tok"},
		"absurd":      {`{"model_type":"llama",` + strings.Replace(rest, "64", "-64", 1) + `}`, "config.json of m: hidden_size is -64: want 1 to 200000"},
		"heads":       {`{"model_type":"llama","num_key_value_heads":3,` + rest + `}`, "config.json of m: num_attention_heads 8 is not a multiple of num_key_value_heads 3"},
		"fraction":    {`{"model_type":"llama","hidden_size":1.5}`, "config.json of m: hidden_size: got number 1.5, want a whole number"},
		"interleaved": {`{"model_type":"qwen3_moe","num_experts":8,"num_experts_per_tok":2,"moe_intermediate_size":8,"decoder_sparse_step":2,` + rest + `}`, "config.json of m: decoder_sparse_step is 2: only 1 is understood"},
		"layer types": {`{"model_type":"llama","sliding_window":8,"layer_types":["full_attention"],` + rest + `}`, "config.json of m: layer_types names 1 layers, num_hidden_layers 4"},
		"too large":   {strings.Repeat(" ", maxConfigBytes+1), "config.json of m: larger than 16 MiB"},
	} {
		_, err := readHFConfig(strings.NewReader(tc.text), "m")
		if err == nil || !strings.HasPrefix(err.Error(), tc.want) {
			t.Errorf("%s: got %v\nwant %s", name, err, tc.want)
		}
	}
}

func FuzzReadHFConfig(f *testing.F) {
	files, err := filepath.Glob("testdata/hf/*.json")
	if err != nil {
		f.Fatal(err)
	}
	for _, path := range files {
		b, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := readHFConfig(strings.NewReader(string(b)), "m")
		if err == nil && (m.Params <= 0 || m.ActiveParams <= 0 || m.ActiveParams > m.Params || m.KVBytesPerToken("") <= 0) {
			t.Errorf("absurd model was taken: %+v", m)
		}
	})
}
