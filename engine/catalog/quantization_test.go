package catalog

import (
	"cmp"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"plimsoll/engine"
)

// How checkpoints say that they are quantized; the first of each kind are as
// published with DeepSeek-V3, gpt-oss-120b and the AWQ, GPTQ, compressed-tensors
// and NVFP4 checkpoints of Llama-3.1 (2026; facts, fields left out).
func TestReadHFConfigQuantization(t *testing.T) {
	const rest = `"model_type":"qwen3_moe","hidden_size":64,"num_hidden_layers":4,"num_attention_heads":8,"num_experts":8,"num_experts_per_tok":1,"moe_intermediate_size":128,"intermediate_size":128,"vocab_size":100,"max_position_embeddings":512`
	for _, tt := range []struct {
		config, words string
		want          engine.DType
	}{
		{`{"quant_method":"fp8","fmt":"e4m3","weight_block_size":[128,128]}`, "fp8", engine.FP8},
		{`{"quant_method":"mxfp4","modules_to_not_convert":["lm_head"]}`, "mxfp4", engine.MXFP4},
		{`{"quant_method":"awq","bits":4,"group_size":128}`, "awq, 4-bit integers", engine.INT4},
		{`{"quant_method":"gptq","bits":8,"desc_act":true}`, "gptq, 8-bit integers", engine.FP8},
		{`{"quant_method":"gptq","bits":3}`, "gptq, 3-bit integers", ""},
		{`{"quant_method":"compressed-tensors","config_groups":{"group_0":{"weights":{"num_bits":8,"type":"float"}}}}`, "compressed-tensors, 8-bit floats", engine.FP8},
		{`{"quant_method":"compressed-tensors","config_groups":{"group_0":{"weights":{"num_bits":4,"type":"int"}}}}`, "compressed-tensors, 4-bit integers", engine.INT4},
		{`{"quant_method":"compressed-tensors","config_groups":{"a":{"targets":["re:.*self_attn.*"],"weights":{"num_bits":8}},"b":{"targets":["Linear"],"weights":{"num_bits":4}}}}`, "compressed-tensors, 8-bit integers, 4-bit integers", engine.INT4},
		{`{"quant_method":"compressed-tensors","config_groups":{"a":{"weights":{"num_bits":6,"type":"float"}}}}`, "compressed-tensors, 6-bit floats", ""},
		{`{"quant_method":"compressed-tensors","ignore":["re:(?!lm_head).*"],"config_groups":{"a":{"weights":{"num_bits":8}}}}`, "compressed-tensors, 8-bit integers, error parsing regexp: invalid or unsupported Perl syntax: `(?!`", ""},
		{`{"quant_method":"modelopt","quant_algo":"NVFP4"}`, "modelopt, NVFP4", engine.NVFP4},
		{`{"quant_method":"modelopt","quant_algo":"FP8"}`, "modelopt, FP8", engine.FP8},
		{`{"quant_method":"modelopt","quant_algo":"W4A16_AWQ"}`, "modelopt, W4A16_AWQ", engine.INT4},
		{`{"quant_method":"modelopt","quant_algo":"MIXED_PRECISION"}`, "modelopt, MIXED_PRECISION", ""},
		{`{"quant_method":"modelopt","quant_algo":"FP9"}`, "modelopt, FP9", ""},
		{`{"quant_method":"modelopt"}`, "modelopt", ""},
		{`{"quant_method":"bitsandbytes","load_in_4bit":true}`, "bitsandbytes, 4 bits", engine.INT4},
		{`{"quant_method":"bitsandbytes","load_in_8bit":true}`, "bitsandbytes, 8 bits", engine.FP8},
		{`{"quant_method":"quark","global_quant_config":{"weight":{"dtype":"fp4","qscheme":"per_group","group_size":32}}}`, "quark, 4-bit floats", engine.MXFP4},
		{`{"quant_method":"quark","global_quant_config":{"weight":[{"dtype":"fp8_e4m3"},{"dtype":"int4","qscheme":"per_channel"}]}}`, "quark, 4-bit integers", engine.INT4},
		{`{"quant_method":"auto-round","bits":4,"group_size":16,"data_type":"nv_fp"}`, "auto-round, 4-bit floats", engine.NVFP4},
		{`{"quant_method":"torchao","quant_type":{"default":{"_type":"Float8DynamicActivationFloat8WeightConfig"}}}`, "torchao", engine.FP8},
		{`{"quant_method":"torchao","quant_type":"int4_weight_only"}`, "torchao", engine.INT4},
		{`{"quant_method":"torchao"}`, "torchao", ""},
		{`{"quant_method":"aqlm"}`, "aqlm", ""},
		{`{"bits":4}`, "quantization_config without quant_method, 4-bit integers", engine.INT4},
		{`{"bits":"four"}`, "quantization_config that is not understood", ""},
		{`[]`, "quantization_config that is not understood", ""},
		{`null`, "", ""},
	} {
		for _, file := range []string{
			`{` + rest + `,"quantization_config":` + tt.config + `}`,
			`{` + rest + `,"compression_config":` + tt.config + `}`,
			`{"text_config":{` + rest + `},"quantization_config":` + tt.config + `}`,
		} {
			m, err := readHFConfig(strings.NewReader(file), "m")
			if err != nil || m.Weights != tt.want || m.Quantization != tt.words {
				t.Errorf("%s: %q, %q, %v; want %q, %q", file, m.Weights, m.Quantization, err, tt.want, tt.words)
			}
		}
	}
}

// A byte order mark is no part of a file's first line, whatever that is.
func TestWithFileByteOrderMark(t *testing.T) {
	c := defaults(t)
	const rows = "gpu,memory_bytes,hbm_gb_per_s,bf16_tflops,link_gb_per_s,source\nOURS,80000000000,1000,100,100,x\n"
	for name, text := range map[string]string{
		"header": rows, "comment": "# ours\n" + rows, "quoted": strings.Replace(rows, "gpu", `"gpu"`, 1),
	} {
		file := filepath.Join(t.TempDir(), "gpus.csv")
		got, err := Catalog{}, os.WriteFile(file, []byte("\ufeff"+text), 0o600)
		if err == nil {
			got, err = c.WithFile(file)
		}
		if err != nil || len(got.GPUs()) != len(c.GPUs())+1 {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// How long a run of weights shares a scale, by the methods' own words for it.
func TestReadHFConfigQuantizationBlocks(t *testing.T) {
	for config, want := range map[string]int{
		`{"quant_method":"fp8","weight_block_size":[128,128]}`:                                         128,
		`{"quant_method":"fp8","weight_block_size":null}`:                                              0,
		`{"quant_method":"awq","bits":4,"group_size":128}`:                                             128,
		`{"quant_method":"gptq","bits":4,"group_size":-1}`:                                             0,
		`{"quant_method":"mxfp4"}`:                                                                     0,
		`{"config_groups":{"a":{"weights":{"num_bits":4,"group_size":16}}}}`:                           16,
		`{"config_groups":{"a":{"weights":{"num_bits":8,"type":"float","block_structure":[128,64]}}}}`: 128,
		`{"config_groups":{"a":{"weights":{"num_bits":8,"type":"float","block_structure":"64x128"}}}}`: 128,
		`{"config_groups":{"a":{"weights":{"num_bits":8,"block_structure":null}}}}`:                    0,
		`{"config_groups":{"a":{"weights":{"num_bits":8,"block_structure":"odd"}}}}`:                   0,
	} {
		if m := quantized(t, dense, config); m.QuantBlock != want {
			t.Errorf("%s: blocks of %d, want %d", config, m.QuantBlock, want)
		}
	}
}

// Shapes whose parts are round: attention of 8 Mi weights, feed-forward parts or experts
// of 24 Mi, in two layers; embeddings and output layer of 1 Mi each.
const (
	dense   = `"model_type":"llama","hidden_size":1024,"num_hidden_layers":2,"num_attention_heads":8,"intermediate_size":4096,"vocab_size":1024,"max_position_embeddings":512`
	experts = `"model_type":"qwen3_moe","hidden_size":1024,"num_hidden_layers":2,"num_attention_heads":8,"num_experts":4,"num_experts_per_tok":1,"moe_intermediate_size":1024,"vocab_size":1024,"max_position_embeddings":512`
)

func quantized(t *testing.T, shape, config string) Model {
	t.Helper()
	m, err := readHFConfig(strings.NewReader(`{`+shape+`,"quantization_config":`+config+`}`), "m")
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// What a checkpoint takes is what each layer is stored in, scales included, and what it
// leaves in 16 bits. Bits are on average over both layers; 0 is 16.
func TestStoredBits(t *testing.T) {
	const fp8 = `"weights":{"num_bits":8,"type":"float","strategy":"channel","symmetric":true}`
	const int4 = `"weights":{"num_bits":4,"type":"int","strategy":"group","group_size":32,"symmetric":true}`
	for _, tt := range []struct {
		shape, config        string
		attention, ffn, head float64
		kv                   engine.DType
	}{
		// ModelOpt, as it is in config.json since 0.31, and in the file before.
		{dense, `{"quant_method":"modelopt","quant_algo":"FP8","ignore":["lm_head"],"kv_cache_scheme":{"dynamic":false,"num_bits":8,"type":"float"}}`, 8, 8, 0, engine.FP8},
		{dense, `{"quant_method":"modelopt","quant_algo":"NVFP4","ignore":["lm_head","model.layers.0.self_attn*"],"kv_cache_scheme":{"num_bits":4,"type":"float"}}`, 10.25, 4.5, 0, engine.NVFP4},
		{dense, `{"quantization":{"quant_algo":"NVFP4","group_size":16,"kv_cache_quant_algo":"FP8","exclude_modules":["model.layers.*.self_attn*"]}}`, 0, 4.5, 4.5, engine.FP8},
		{dense, `{"quantization":{"quant_algo":"FP8_PB_WO","exclude_modules":["*lm_head","*.mlp.down_proj"]}}`, 8 + 32./16384, (2*(8+32./16384) + 16) / 3, 0, ""},
		{dense, `{"quantization":{"quant_algo":null,"kv_cache_quant_algo":"FP8"}}`, 0, 0, 0, engine.FP8},
		{experts, `{"quantization":{"quant_algo":"W4A16_AWQ","group_size":128,"exclude_modules":["lm_head","*self_attn*"]}}`, 0, 4.125, 0, ""},
		{experts, `{"quantization":{"quant_algo":"MIXED_PRECISION","kv_cache_quant_algo":"FP8","quantized_layers":{
			"model.layers.0.self_attn.q_proj":{"quant_algo":"FP8"},"model.layers.0.self_attn.k_proj":{"quant_algo":"FP8"},"model.layers.0.self_attn.v_proj":{"quant_algo":"FP8"},"model.layers.0.self_attn.o_proj":{"quant_algo":"FP8"},
			"model.layers.0.mlp.experts":{"quant_algo":"NVFP4","group_size":16},"model.layers.1.mlp.experts.3.gate_proj":{"quant_algo":"NVFP4"},"model.layers.1.mlp.experts.3.up_proj":{"quant_algo":"NVFP4"},"model.layers.1.mlp.experts.3.down_proj":{"quant_algo":"NVFP4"},"model.layers.1.self_attn":{"quant_algo":"UNQUANTIZED"}}}}`, 12, 4.5, 0, engine.FP8},
		{dense, `{"quant_method":"modelopt","quant_algo":"MIXED_PRECISION","quantized_layers":{"model.language_model.layers.1.mlp.gate_proj":{"quant_algo":"MXFP8"},"lm_head":{"quant_algo":"FP8"}}}`, 0, (5*16 + 8.25) / 6, 8, ""},

		{dense, `{"quant_algo":"MIXED_PRECISION","quantized_layers":{"model.embed_tokens":{"quant_algo":"FP8"}}}`, 0, 0, 8, ""}, // as one of the two

		// compressed-tensors
		{dense, `{"quant_method":"compressed-tensors","config_groups":{},"kv_cache_scheme":{"num_bits":8,"type":"float","strategy":"tensor","symmetric":true}}`, 0, 0, 0, engine.FP8},
		{dense, `{"quant_method":"compressed-tensors","ignore":["lm_head","model.vision_tower.layers.0.self_attn.q_proj"],"kv_cache_scheme":{"num_bits":8,"type":"float","strategy":"tensor"},"config_groups":{"group_0":{"targets":["Linear"],` + fp8 + `}}}`, 8 + 32./1024, 8 + 2*(32./1024)/3 + (32./4096)/3, 0, engine.FP8},
		{experts, `{"quant_method":"compressed-tensors","format":"pack-quantized","ignore":["lm_head","re:.*self_attn.*","re:.*shared_experts.*"],"config_groups":{"group_0":{"targets":["Linear"],` + int4 + `}}}`, 0, 4.5, 0, ""},
		{experts, `{"quant_method":"compressed-tensors","config_groups":{"group_0":{"targets":["re:.*mlp.experts.*(gate|up|down)_proj$"],` + int4 + `}}}`, 0, 4.5, 0, ""},
		{dense, `{"quant_method":"compressed-tensors","config_groups":{"group_0":{"targets":["Linear"],"weights":{"num_bits":4,"type":"float","strategy":"tensor_group","group_size":16}},"group_1":{"targets":["re:.*down_proj"],` + int4 + `},"group_2":{"targets":["LlamaAttention"],"weights":null}}}`, 4.5, 4.5, 0, ""},

		// the others
		{dense, `{"quant_method":"awq","bits":4,"group_size":128,"zero_point":true,"modules_to_not_convert":["model.layers.0."]}`, (16 + 4.15625) / 2, (16 + 4.15625) / 2, 0, ""},
		{dense, `{"quant_method":"awq","bits":4,"group_size":128}`, 4.15625, 4.15625, 0, ""},
		{dense, `{"w_bit":4,"q_group_size":64,"zero_point":true}`, 4.3125, 4.3125, 0, ""},
		{dense, `{"quant_method":"gptq","bits":4,"group_size":128,"sym":true,"lm_head":true}`, 4.125, 4.125, 4.125, ""},
		{dense, `{"quant_method":"gptq","bits":4,"group_size":128,"sym":false,"dynamic":{"-:.*self_attn.*":{},"+:.*layers\\.1\\..*":{"bits":8}}}`, 0, (4.15625 + 8.1875) / 2, 0, ""},
		{dense, `{"quant_method":"gptq","bits":4,"group_size":128,"modules_in_block_to_quantize":[["mlp.up_proj"],["mlp.gate_proj","mlp.down_proj"]]}`, 0, 4.125, 0, ""},
		{dense, `{"quant_method":"auto-round","bits":4,"group_size":128,"sym":true,"block_name_to_quantize":"model.layers","extra_config":{"model.layers.0.self_attn.q_proj":{"bits":16},".*layers\\.1\\.mlp.*":{"bits":8}}}`, (16 + 7*4.125) / 8, (4.125 + 8.125) / 2, 0, ""},
		{experts, `{"quant_method":"mxfp4","modules_to_not_convert":["model.layers.*.self_attn","model.layers.*.mlp.router","lm_head"]}`, 0, 4.25, 0, ""},
		{dense, `{"quant_method":"fp8","weight_block_size":[128,128],"modules_to_not_convert":["model.layers.0.self_attn.o_proj","lm_head"]}`, (16 + 7*(8+32./16384)) / 8, 8 + 32./16384, 0, ""},
		{dense, `{"quant_method":"bitsandbytes","load_in_4bit":true,"llm_int8_skip_modules":["lm_head","model.layers.1.mlp"]}`, 4.5, (4.5 + 16) / 2, 0, ""},
		{dense, `{"quant_method":"bitsandbytes","load_in_4bit":true,"bnb_4bit_use_double_quant":true}`, 4 + 8.125/64, 4 + 8.125/64, 0, ""},
		{dense, `{"quant_method":"quark","exclude":["lm_head","re:.*down_proj"],"global_quant_config":{"weight":{"dtype":"fp8_e4m3","qscheme":"per_tensor"}},"layer_quant_config":{"*self_attn*":{"weight":{"dtype":"fp4","qscheme":"per_group","group_size":32}},"*k_proj":{"weight":null}}}`, 4.25, (2*8 + 16.) / 3, 0, ""},
	} {
		m := quantized(t, tt.shape, tt.config)
		bits := func(b float64) float64 { return cmp.Or(b, 16) / 8 * (1 << 20) }
		p := m.parts()
		want := 8*bits(tt.attention) + 24*bits(tt.ffn) + bits(tt.head) + bits(0) + 2*float64(p.norms+p.routers)
		if got := m.WeightBytes(m.Weights); math.Abs(got-want) > 1 || m.KV != tt.kv || m.KVQuantization != "" {
			t.Errorf("%s: %.0f bytes, KV %q %q; want %.0f, %q", tt.config, got, m.KV, m.KVQuantization, want, tt.kv)
		}
	}
}

// Every family's layers are walked: what is left in 16 bits all the way is two bytes a
// weight, and what is named as the family's checkpoints do is found.
func TestStoredByFamily(t *testing.T) {
	files, err := filepath.Glob("testdata/hf/*.json")
	if err != nil || len(files) < 33 {
		t.Fatal(files, err)
	}
	read := func(file, config string) Model {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		m, err := readHFConfig(strings.NewReader(strings.Replace(string(b), "{", `{"quantization_config":`+config+`,`, 1)), "m")
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	for _, file := range files {
		if m := read(file, `{"quantization":{"kv_cache_quant_algo":"FP8"}}`); m.Stored.Bytes != 2*m.Params || m.Weights != engine.BF16 {
			t.Errorf("%s: %d bytes, %s, of %d weights", file, m.Stored.Bytes, m.Weights, m.Params)
		}
	}
	for _, tt := range []struct {
		file, ignore   string
		attention, ffn engine.DType
	}{
		{"mixtral-8x7b", "re:model.layers.*block_sparse_moe.experts.*w[123]$", engine.FP8, engine.BF16},
		{"minimax-m2.7", "gate", engine.FP8, engine.FP8},
		{"llama-4-scout", "language_model.model.layers.*.feed_forward.experts*", engine.FP8, engine.BF16},
		{"nemotron-3-nano-30b", "backbone.layers.*.mixer.experts.*", engine.FP8, engine.BF16},
		{"nemotron-3-nano-30b", "re:.*mixer.(in|out)_proj", engine.BF16, engine.FP8},
		{"qwen3-next-80b-a3b", "re:.*linear_attn.*", engine.BF16, engine.FP8},
		{"qwen3-vl-4b", "model.language_model.layers.*.mlp", engine.FP8, engine.BF16},
		{"deepseek-v3", "model.layers.*.self_attn*", engine.BF16, engine.FP8},
		{"deepseek-v3", "self_attn.kv_b_proj", engine.FP8, engine.FP8},
		{"phi-4", "re:.*qkv_proj", engine.BF16, engine.FP8},
		{"qwen3-32b", "re:.*self_attn.o_proj", engine.FP8, engine.FP8},
		{"kimi-k2-instruct", "mtp.layers.0.mlp", engine.FP8, engine.FP8},
	} {
		m := read("testdata/hf/"+tt.file+".json", `{"quant_method":"modelopt","quant_algo":"FP8","ignore":["`+tt.ignore+`"]}`)
		if a, f := m.WeightTypes(m.Weights); a != tt.attention || f != tt.ffn {
			t.Errorf("%s without %s: %s, %s; want %s, %s", tt.file, tt.ignore, a, f, tt.attention, tt.ffn)
		}
	}
}

// Kimi-K2's experts in INT4 with a scale in BF16 for each 32, as its checkpoint says it.
func TestStoredKimi(t *testing.T) {
	b, err := os.ReadFile("testdata/hf/kimi-k2.5.json")
	if err != nil {
		t.Fatal(err)
	}
	const config = `{"quantization_config":{"quant_method":"compressed-tensors","format":"pack-quantized","ignore":["lm_head","re:.*self_attn.*","re:.*shared_experts.*","re:.*mlp\\.(gate|up|gate_up|down)_proj.*"],
		"config_groups":{"group_0":{"targets":["Linear"],"weights":{"num_bits":4,"type":"int","strategy":"group","group_size":32,"symmetric":true,"actorder":null}}}},`
	m, err := readHFConfig(strings.NewReader(strings.Replace(string(b), "{", config, 1)), "m")
	if err != nil {
		t.Fatal(err)
	}
	row, err := defaults(t).Model("kimi-k2.5")
	if err != nil || m.WeightBytes("int4") != row.WeightBytes("int4") || m.QuantBlock != row.QuantBlock || math.Abs(m.WeightBytes("int4")/1e9-594.2) > 0.1 {
		t.Errorf("%.1f GB, blocks of %d; the row %.1f, %d, %v", m.WeightBytes("int4")/1e9, m.QuantBlock, row.WeightBytes("int4")/1e9, row.QuantBlock, err)
	}
}

// Quantization beside config.json counts where that says nothing, and what is not
// understood is kept in words.
func TestQuantizationBeside(t *testing.T) {
	for _, tt := range []struct {
		name, text, own string
		weights, kv     engine.DType
		words, kvWords  string
	}{
		{"hf_quant_config.json", `{"producer":{"name":"modelopt"},"quantization":{"quant_algo":"FP8","kv_cache_quant_algo":"FP8"}}`, "", engine.FP8, engine.FP8, "modelopt, FP8", ""},
		{"hf_quant_config.json", `{"quantization":{"quant_algo":"FP8","kv_cache_quant_algo":"INT8"}}`, "null", engine.FP8, "", "modelopt, FP8", "INT8"},
		{"hf_quant_config.json", `{"quantization":{"quant_algo":"NVFP4"}}`, `{"quant_method":"fp8"}`, engine.FP8, "", "fp8", ""},
		{"hf_quant_config.json", `{"quantization":{"quant_algo":"MIXED_PRECISION","quantized_layers":{"model.layers":{"quant_algo":"FP8"}}}}`, `{"quant_method":"modelopt","quant_algo":"MIXED_PRECISION"}`, engine.FP8, "", "modelopt, MIXED_PRECISION", ""},
		{"hf_quant_config.json", `{"quantization":`, "", "", "", "quantization_config that is not understood", "quantization_config that is not understood"},
		{"quantize_config.json", `{"bits":4,"group_size":128,"sym":true}`, "", engine.INT4, "", "quantization_config without quant_method, 4-bit integers", ""},
		{"quant_config.json", `{"w_bit":4,"q_group_size":128,"zero_point":true,"version":"GEMM"}`, "", engine.INT4, "", "awq, 4-bit integers", ""},
		{"generation_config.json", `{"bits":4}`, "", "", "", "", ""},
	} {
		dir := t.TempDir()
		config := `{` + dense + `}`
		if tt.own != "" {
			config = `{` + dense + `,"quantization_config":` + tt.own + `}`
		}
		if err := errors.Join(os.WriteFile(filepath.Join(dir, "config.json"), []byte(config), 0o600), os.WriteFile(filepath.Join(dir, tt.name), []byte(tt.text), 0o600)); err != nil {
			t.Fatal(err)
		}
		for _, path := range []string{dir, filepath.Join(dir, "config.json")} {
			m, err := Catalog{}.ModelOrFile(path)
			if err != nil || m.Weights != tt.weights || m.KV != tt.kv || m.Quantization != tt.words || m.KVQuantization != tt.kvWords {
				t.Errorf("%s %s: %q, %q, %q, %q, %v", tt.name, tt.text, m.Weights, m.KV, m.Quantization, m.KVQuantization, err)
			}
		}
	}
}
