package catalog

import (
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
	const rest = `"model_type":"llama","hidden_size":64,"num_hidden_layers":4,"num_attention_heads":8,"intermediate_size":128,"vocab_size":100,"max_position_embeddings":512`
	for _, tt := range []struct {
		config, words string
		want          engine.DType
	}{
		{`{"quant_method":"fp8","fmt":"e4m3","weight_block_size":[128,128]}`, "fp8", engine.FP8},
		{`{"quant_method":"mxfp4","modules_to_not_convert":["lm_head"]}`, "mxfp4", engine.FP4},
		{`{"quant_method":"awq","bits":4,"group_size":128}`, "awq, 4-bit integers", engine.FP4},
		{`{"quant_method":"gptq","bits":8,"desc_act":true}`, "gptq, 8-bit integers", engine.FP8},
		{`{"quant_method":"gptq","bits":3}`, "gptq, 3-bit integers", ""},
		{`{"quant_method":"compressed-tensors","config_groups":{"group_0":{"weights":{"num_bits":8,"type":"float"}}}}`, "compressed-tensors, 8-bit floats", engine.FP8},
		{`{"quant_method":"compressed-tensors","config_groups":{"group_0":{"weights":{"num_bits":4,"type":"int"}}}}`, "compressed-tensors, 4-bit integers", engine.FP4},
		{`{"quant_method":"compressed-tensors","config_groups":{"a":{"weights":{"num_bits":4}},"b":{"weights":{"num_bits":8}}}}`, "compressed-tensors", ""},
		{`{"quant_method":"modelopt","quant_algo":"NVFP4"}`, "modelopt, NVFP4", engine.FP4},
		{`{"quant_method":"modelopt","quant_algo":"FP8"}`, "modelopt, FP8", engine.FP8},
		{`{"quant_method":"modelopt","quant_algo":"W4A16_AWQ"}`, "modelopt, W4A16_AWQ", engine.FP4},
		{`{"quant_method":"modelopt","quant_algo":"MIXED_PRECISION"}`, "modelopt, MIXED_PRECISION", ""},
		{`{"quant_method":"bitsandbytes","load_in_4bit":true}`, "bitsandbytes, 4 bits", engine.FP4},
		{`{"quant_method":"bitsandbytes","load_in_8bit":true}`, "bitsandbytes, 8 bits", engine.FP8},
		{`{"quant_method":"aqlm"}`, "aqlm", ""},
		{`{"bits":4}`, "quantization_config without quant_method, 4-bit integers", engine.FP4},
		{`{"bits":"four"}`, "quantization_config that is not understood", ""},
		{`[]`, "quantization_config that is not understood", ""},
		{`null`, "", ""},
	} {
		for _, file := range []string{
			`{` + rest + `,"quantization_config":` + tt.config + `}`,
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
		`{"quant_method":"fp8","weight_block_size":[128,128]}`:                          128,
		`{"quant_method":"fp8","weight_block_size":null}`:                               0,
		`{"quant_method":"awq","bits":4,"group_size":128}`:                              128,
		`{"quant_method":"gptq","bits":4,"group_size":-1}`:                              0,
		`{"quant_method":"mxfp4"}`:                                                      0,
		`{"config_groups":{"a":{"weights":{"num_bits":4,"group_size":16}}}}`:            16,
		`{"config_groups":{"a":{"weights":{"num_bits":8,"block_structure":[128,64]}}}}`: 128,
		`{"config_groups":{"a":{"weights":{"num_bits":8,"block_structure":"64x128"}}}}`: 128,
		`{"config_groups":{"a":{"weights":{"num_bits":8,"block_structure":null}}}}`:     0,
		`{"config_groups":{"a":{"weights":{"num_bits":8,"block_structure":"odd"}}}}`:    0,
	} {
		if _, _, got := readQuantization([]byte(config)); got != want {
			t.Errorf("%s: blocks of %d, want %d", config, got, want)
		}
	}
}
