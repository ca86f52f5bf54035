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
	if err != nil || len(files) < 33 {
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
		if want.MoE() && want.DenseLayers == 0 {
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
	if m := read(`{"model_type":"phi3","sliding_window":512,` + rest + `}`); m.SlidingWindow != 0 || m.FullAttentionLayers != 4 {
		t.Errorf("phi3 with a window as long as its context: %+v", m)
	}
	const experts = `"num_experts":8,"num_experts_per_tok":2,"moe_intermediate_size":8,`
	for fields, dense := range map[string]int{
		``: 0, `"decoder_sparse_step":2,`: 2, `"mlp_only_layers":[0,2,3],`: 3, `"first_k_dense_replace":1,"moe_layer_freq":2,`: 3, `"mlp_layer_types":["dense","sparse","sparse","sparse"],`: 1,
	} {
		if m := read(`{"model_type":"qwen3_moe",` + experts + fields + rest + `}`); m.DenseLayers != dense || m.MoELayers() != 4-dense {
			t.Errorf("%s: %d layers without experts, %d with, want %d and %d", fields, m.DenseLayers, m.MoELayers(), dense, 4-dense)
		}
	}
	const llama4 = `"model_type":"llama4_text","num_local_experts":8,"num_experts_per_tok":1,"intermediate_size_mlp":256,"attention_chunk_size":64,`
	for fields, want := range map[string][2]int{ // dense, full
		``: {0, 1}, `"interleave_moe_layer_step":2,`: {2, 1}, `"moe_layers":[3],`: {3, 1}, `"no_rope_layers":[1,0,1,0],`: {0, 2}, `"no_rope_layer_interval":2,`: {0, 2},
		`"layer_types":["chunked_attention","chunked_attention","chunked_attention","full_attention"],`: {0, 1},
	} {
		m := read(`{` + llama4 + fields + rest + `}`)
		if got := [2]int{m.DenseLayers, m.FullAttentionLayers}; got != want || m.SlidingWindow != 64 || m.MoEFFN != 128 || m.DenseLayers > 0 && m.FFN != 256 {
			t.Errorf("llama4 with %s: %+v, want %v", fields, m, want)
		}
	}
	const nemotron = `"n_groups":2,"mamba_num_heads":4,"mamba_head_dim":16,"ssm_state_size":32,`
	for _, layers := range []string{`"hybrid_override_pattern":"M-*-"`, `"layers_block_type":["mamba","mlp","attention","mlp"]`, `"layer_types":["linear_attention","mlp","full_attention","mlp"]`} {
		for _, counted := range []string{rest, strings.Replace(rest, `"num_hidden_layers":4,`, "", 1)} {
			m := read(`{"model_type":"nemotron_h",` + nemotron + layers + "," + counted + `}`)
			if m.Layers != 4 || m.LinearLayers != 1 || m.KVLayers() != 1 || m.FFNLayers() != 2 || m.MoE() || m.LinearKeyDim() != 32 {
				t.Errorf("nemotron_h with %s: %+v", layers, m)
			}
		}
	}
}

// Engines choose by architectures, and so does the reader; a text_config says more of
// the text than what is around it.
func TestFamilyOf(t *testing.T) {
	for _, tc := range []struct {
		file, text hfNames
		want       string // the family's first architecture, "" = none
	}{
		{hfNames{"kimi_k9", []string{"DeepseekV3ForCausalLM"}}, hfNames{}, "DeepseekV3ForCausalLM"},
		{hfNames{"llama", []string{"Qwen3ForCausalLM"}}, hfNames{}, "Qwen3ForCausalLM"},
		{hfNames{"llama", []string{"OwnForCausalLM"}}, hfNames{}, "LlamaForCausalLM"},
		{hfNames{"own", []string{"OwnForCausalLM"}}, hfNames{}, ""},
		{hfNames{"kimi_k25", []string{"KimiK25ForConditionalGeneration"}}, hfNames{"kimi_k2", []string{"DeepseekV3ForCausalLM"}}, "DeepseekV3ForCausalLM"},
		{hfNames{"mistral3", []string{"Mistral3ForConditionalGeneration"}}, hfNames{"mistral", nil}, "MistralForCausalLM"},
		{hfNames{"gemma3", []string{"Gemma3ForConditionalGeneration"}}, hfNames{"", []string{"NoneForCausalLM"}}, "Gemma3ForConditionalGeneration"},
		{hfNames{"gemma3", []string{"Gemma3ForConditionalGeneration"}}, hfNames{"gemma9_text", nil}, ""},
	} {
		text := &tc.text
		if tc.text.ModelType == "" && tc.text.Architectures == nil {
			text = nil
		}
		f, err := familyOf(tc.file, text)
		if (err == nil) != (tc.want != "") || err == nil && f.architectures[0] != tc.want {
			t.Errorf("%+v: %v, %v", tc, f.architectures, err)
		}
	}
}

func TestReadHFConfigRefuses(t *testing.T) {
	const nemotron = `"n_groups":2,"mamba_num_heads":4,"mamba_head_dim":16,"ssm_state_size":32,`
	const mla = `"n_routed_experts":8,"num_experts_per_tok":2,"moe_intermediate_size":8,"kv_lora_rank":8,"qk_rope_head_dim":8,"qk_nope_head_dim":8,"index_topk":64,"index_n_heads":2,"index_head_dim":8,`
	const rest = `"hidden_size":64,"num_hidden_layers":4,"num_attention_heads":8,"intermediate_size":128,"vocab_size":100,"max_position_embeddings":512`
	for name, tc := range map[string]struct{ text, want string }{
		"not json":    {"hello", "config.json of m: bad JSON: invalid character"},
		"empty":       {"", "config.json of m: bad JSON: the file ends within a value"},
		"list":        {"[]", "config.json of m: the file: got a list, want an object"},
		"no family":   {"{}", `config.json of m: model_type is "": want one of deepseek_v3, deepseek_v32, gemma3, `},
		"family":      {`{"model_type":"mamba"}`, `config.json of m: model_type is "mamba"`},
		"missing":     {`{"model_type":"llama","hidden_size":64}`, "config.json of m: missing num_hidden_layers, num_attention_heads, vocab_size, max_position_embeddings, intermediate_size"},
		"experts":     {`{"model_type":"mixtral",` + rest + `}`, "config.json of m: missing the number of experts, num_experts_per_tok"},
		"absurd":      {`{"model_type":"llama",` + strings.Replace(rest, "64", "-64", 1) + `}`, "config.json of m: hidden_size is -64: want 1 to 200000"},
		"heads":       {`{"model_type":"llama","num_key_value_heads":3,` + rest + `}`, "config.json of m: num_attention_heads 8 is not a multiple of num_key_value_heads 3"},
		"fraction":    {`{"model_type":"llama","hidden_size":1.5}`, "config.json of m: hidden_size: got number 1.5, want a whole number"},
		"kind":        {`{"model_type":"llama","layer_types":["full_attention","full_attention","linear_attention","full_attention"],` + rest + `}`, `config.json of m: layer_types has "linear_attention": LlamaForCausalLM is not understood to have such layers`},
		"lightning":   {`{"model_type":"minimax_m2","num_local_experts":8,"num_experts_per_tok":2,"attn_type_list":[1,0,1,1],` + rest + `}`, "config.json of m: attn_type_list has layers without full attention"},
		"values":      {`{"model_type":"llama","v_head_dim":16,` + rest + `}`, "config.json of m: v_head_dim is 16: only head_dim, 8, is understood"},
		"sparse":      {`{"model_type":"llama","index_topk":2048,` + rest + `}`, "config.json of m: index_topk is 2048: sparse attention is understood beside MLA only"},
		"shared":      {`{"model_type":"qwen3_moe","num_experts":8,"num_experts_per_tok":2,"moe_intermediate_size":8,"shared_expert_intermediate_size":12,` + rest + `}`, "config.json of m: the shared experts are 12 wide: want a multiple of the width of one expert, 8"},
		"indexers":    {`{"model_type":"glm_moe_dsa",` + mla + `"index_topk_freq":4,` + rest + `}`, "config.json of m: index_topk_freq is 4 without indexer_types"},
		"indexer":     {`{"model_type":"glm_moe_dsa",` + mla + `"indexer_types":["full","half","full","full"],` + rest + `}`, `config.json of m: indexer_types has "half": want full or shared`},
		"pattern":     {`{"model_type":"nemotron_h","hybrid_override_pattern":"M*-X",` + nemotron + rest + `}`, `config.json of m: hybrid_override_pattern is "M*-X": want M, *, - and E only`},
		"no KV":       {`{"model_type":"nemotron_h","hybrid_override_pattern":"M-M-",` + nemotron + rest + `}`, "config.json of m: the number of layers with linear attention or Mamba is 2: want 0 to 1"},
		"no ffn":      {`{"model_type":"nemotron_h","hybrid_override_pattern":"M*M*",` + nemotron + rest + `}`, `config.json of m: hybrid_override_pattern is "M*M*": layers without any feed-forward part`},
		"short":       {`{"model_type":"nemotron_h","hybrid_override_pattern":"M*-",` + nemotron + rest + `}`, "config.json of m: hybrid_override_pattern or layers_block_type names 3 layers, num_hidden_layers 4"},
		"delta":       {`{"model_type":"qwen3_5",` + rest + `}`, "config.json of m: missing linear_num_key_heads, linear_num_value_heads, linear_value_head_dim, linear_key_head_dim"},
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
