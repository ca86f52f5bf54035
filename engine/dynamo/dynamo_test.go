package dynamo_test

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"plimsoll/engine"
	"plimsoll/engine/dynamo"
	"plimsoll/engine/enginetest"
)

// Engine, model and arguments are the decode worker's; what Dynamo or a profile
// says to the engine is left out, and what the prefill worker says otherwise is kept.
func TestRead(t *testing.T) {
	const blocks = "--block-size"
	for name, want := range map[string]dynamo.Worker{
		"agg": {
			Kind: engine.KindVLLM, Model: "example-org/Chat-8B", Args: []string{blocks, "64", "--max-model-len", "16384", "--enforce-eager", "--max-num-batched-tokens", "16384"},
			LeftOut: []string{"--enable-prefix-caching"},
		},
		"disagg": {
			Kind: engine.KindVLLM, Model: "example-org/Chat-8B", Args: []string{blocks, "64", "--max-model-len", "16384"},
			LeftOut: []string{
				"--kv-transfer-config", `{"kv_connector":"DynamoNixlConnector"}`, "--remote-prefill", "--conditional-disagg", "--max-local-prefill-length", "10",
				"--max-prefill-queue-size", "2",
			},
			Prefill: []string{blocks, "64", "--max-model-len", "16384", "--max-num-batched-tokens", "16384"},
		},
		"disagg_router": {
			Kind: engine.KindVLLM, Model: "example-org/Chat-8B", Args: []string{blocks, "64", "--max-model-len", "8192", "--max-num-batched-tokens", "16384"},
			LeftOut: []string{"--router", "kv", "--tensor-parallel-size", "2", "--pipeline-parallel-size", "2", "--remote-prefill", "--conditional-disagg", "--enable-prefix-caching"},
		},
		"multinode": {
			Kind: engine.KindVLLM, Model: "example-org/Big-405B-FP8",
			Args:    []string{"--max-model-len", "8192", "--max-num-seqs", "16", "--gpu-memory-utilization", "0.95", "--quantization", "modelopt"},
			LeftOut: []string{"--remote-prefill", "--conditional-disagg", "--tensor-parallel-size", "8", "--pipeline-parallel-size", "2", "--router", "kv", "--enable-prefix-caching"},
			Prefill: []string{"--max-model-len", "4096", "--gpu-memory-utilization", "0.95", "--quantization", "modelopt"},
		},
		"v1": {
			Kind: engine.KindVLLM, Model: "example-org/Chat-0.6B", Args: []string{"--enforce-eager"},
			LeftOut: []string{"--kv-transfer-config", `{"kv_connector":"NixlConnector","kv_role":"kv_both"}`},
		},
		"odd": {
			Kind: engine.KindVLLM, Model: "example-org/Odd",
			LeftOut: []string{"--tensor-parallel-size", "2", "--enable-prefix-caching", "--enable-prefix-caching"},
			Prefill: []string{"--max-num-seqs", "7"},
		},
		"v1alpha1": { // whose attention replicas share the limits
			Kind: engine.KindSGLang, Model: "example-org/Chat-8B",
			Args: []string{"--page-size", "16", "--context-length", "8192", "--mem-fraction-static", "0.85", "--max-running-requests", "64", "--trust-remote-code"},
			LeftOut: []string{
				"--served-model-name", "chat", "--tp", "2", "--dp", "2", "--enable-dp-attention", "--skip-tokenizer-init", "--disaggregation-mode", "decode",
				"--disaggregation-transfer-backend", "nixl", "--host", "0.0.0.0",
			},
			Prefill: []string{"--page-size", "16", "--trust-remote-code", "--chunked-prefill-size", "16384"},
		},
		"v1beta1": {
			Kind: engine.KindVLLM, Model: "example-org/Chat-8B",
			Args:    []string{"--max-num-seqs", "64", "--gpu-memory-utilization", "0.9", "--hf-overrides", `{"rope_theta": 10000}`, "--seed", "-1"},
			LeftOut: []string{"-tp", "2", "--is-decode-worker"},
		},
		"trtllm": { // whose server has no arguments for its file
			Kind: engine.KindTRTLLM, Model: "example-org/Chat-8B",
			Args: []string{
				"--max_batch_size", "32", "--max_num_tokens", "4096", "--trust_remote_code", "--max_beam_width", "1",
				"--kv_cache_config.free_gpu_memory_fraction", "0.8", "--kv_cache_config.dtype", "fp8",
			},
			LeftOut: []string{"--extra-engine-args", "engine.yaml", "--tensor_parallel_size", "2", "--cuda_graph_config.max_batch_size", "32", "--enable_iter_perf_stats", "true", "--kv_cache_config.enable_block_reuse", "true"},
		},
	} {
		text, err := os.ReadFile(filepath.Join("testdata", name+".yaml"))
		if err != nil {
			t.Fatal(err)
		}
		got, err := dynamo.Read(text)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %v\ngot  %+v\nwant %+v", name, err, got, want)
		}
	}
}

func TestReadRefuses(t *testing.T) {
	const deployment = "kind: DynamoGraphDeployment\nspec:\n  services:\n"
	service := func(name, command string) string {
		return "    " + name + ": {extraPodSpec: {mainContainer: {command: " + command + "}}}\n"
	}
	for name, c := range map[string]struct{ text, want string }{
		"empty":          {"", dynamo.ErrOther.Error()},
		"a list":         {"[1]", dynamo.ErrOther.Error()},
		"other mappings": {"Frontend: {port: 8000}", dynamo.ErrOther.Error()},
		"two documents":  {"a: {}\n---\nb: {}", "it holds more than one document"},
		"no YAML":        {"a: [", "[1:4]"},
		"other kinds":    {"kind: Deployment", "it is a manifest of kind Deployment: want a DynamoGraphDeployment"},
		"no model":       {"VllmWorker: {block-size: 64}", "component VllmWorker names no model"},
		"no engine":      {deployment + service("Frontend", "[python3, -m, dynamo.frontend]"), "no container of it runs dynamo.vllm, dynamo.sglang or dynamo.trtllm"},
		"no name":        {deployment + service("w", "[python3, -m, dynamo.vllm]"), "the arguments of w name no model"},
		"open quote":     {deployment + service("w", `[sh, -c, "python3 -m dynamo.vllm '"]`), "the command of w: a ' is not closed"},
		"two workers":    {deployment + service("a", "[dynamo.vllm]") + service("b", "[dynamo.sglang]"), "it has several workers, a, b: want the one"},
	} {
		if _, err := dynamo.Read([]byte(c.text)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	if _, err := dynamo.Read(nil); !errors.Is(err, dynamo.ErrOther) {
		t.Error(err)
	}
}

// Any text is read or refused.
func TestReadAny(t *testing.T) {
	enginetest.Check(t, func(t *rapid.T) {
		words := rapid.SliceOf(rapid.SampledFrom([]string{
			"kind: DynamoGraphDeployment\n", "spec:\n", "  services:\n", "  components: [", "    w: ", "{extraPodSpec: ", "{mainContainer: ", "{args: ", "[dynamo.vllm, ", "--model, m", "]", "}",
			"VllmWorker:\n", "  model: m\n", "  common-configs: [model]\n", "Common: 1\n", "x", "\"\\0 dynamo.vllm\"", "-", "--a=b, ", "~",
		})).Draw(t, "text")
		if w, err := dynamo.Read([]byte(strings.Join(words, ""))); err == nil && w.Model == "" {
			t.Fatalf("no model: %+v", w)
		}
	})
}
