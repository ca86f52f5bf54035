// Package vllm starts vLLM's own server and reads what its log tells. It takes an
// engine.Config and what is particular to one launch; it gives an engine.Spec. It
// refuses layouts that vLLM does not have. Everything here is pure.
package vllm

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"plimsoll/engine"
	"plimsoll/engine/argv"
	"plimsoll/engine/field"
)

// Server is vLLM's server, by the flags of its releases since 0.8
// (https://docs.vllm.ai/en/latest/cli/serve.html, read in November 2026).
type Server struct {
	Program      string        // empty: vllm, on PATH
	Extra        []string      // arguments after all others
	ReadyTimeout time.Duration // zero: as engine/process decides
}

// Spec is the process that runs cfg.
func (s Server) Spec(cfg engine.Config, l engine.Launch) (engine.Spec, error) {
	if argv.Says(s.Extra, "--kv-cache-dtype") {
		cfg.KV = ""
	}
	if err := check(cfg); err != nil {
		return engine.Spec{}, fmt.Errorf("vllm: %w", err)
	}
	line := argv.Line{cmp.Or(s.Program, "vllm"), "serve", cfg.Model}
	line.Address(l)
	flags(&line, cfg)
	line.Words(s.Extra...)
	return line.Spec(cfg, l, "/health", s.ReadyTimeout), nil
}

// Arguments are what vLLM's mean (vllm/engine/arg_utils.py and
// vllm/entrypoints/openai/cli_args.py of 0.32, read in November 2026).
func Arguments() argv.Table {
	return argv.Table{
		{Names: "--model --model-tag", Of: field.Model},
		{Names: "--tensor-parallel-size -tp", Of: field.TP},
		{Names: "--pipeline-parallel-size -pp --data-parallel-* -dp -dpn -dpr -dpl -dpa -dpp -dpb -dph -dpe -dpm --enable-expert-parallel --no-enable-expert-parallel -ep " +
			"--prefill-context-parallel-size -pcp --nnodes -n --node-rank -r --master-addr --master-port --headless", Of: field.Parallelism},
		{Names: "--host --port --uds --config --device-ids --served-model-name --enable-prefix-caching --no-enable-prefix-caching", Of: argv.Profile},
		{Names: "--max-num-seqs", Of: field.MaxNumSeqs},
		{Names: "--max-num-batched-tokens", Of: field.MaxNumBatchedTokens},
		{Names: "--max-model-len", Of: field.MaxContextLength},
		{Names: "--block-size", Of: argv.BlockSize},
		{Names: "--gpu-memory-utilization --device-memory-utilization", Of: field.MemoryFraction},
		{Names: "--kv-cache-dtype", Of: field.KVDType, Stays: true},
		{Names: "--quantization -q", Of: field.Weights, Stays: true},
		{Names: argv.Common + "--code-revision --hf-config-path --hf-token --config-format --safetensors-* --ignore-patterns --use-tqdm-on-load --pt-load-map-location " +
			"--enable-ep-weight-filter --language-model-only --generation-config --override-generation-config --max-logprobs --logprobs-mode --runner --convert --task --enable-chunked-prefill " +
			"--default-chat-template-kwargs --response-role --enable-auto-tool-choice --exclude-tools-when-tool-choice-none --enable-reasoning --structured-outputs-config " +
			"--guided-decoding-* --return-tokens-as-token-ids --max-log-len --disable-log-* --enable-log-* --no-enable-log-* --aggregate-engine-logging --uvicorn-* " +
			"--disable-uvicorn-* --disable-fastapi-docs --api-server-count --root-path --middleware --h11-* --enable-request-id-headers --enable-server-load-tracking " +
			"--enable-force-include-usage --enable-prompt-tokens-details --collect-detailed-traces --show-hidden-metrics-for-version --kv-cache-metrics* " +
			"--custom-histogram-buckets --cudagraph-metrics --enable-mfu-metrics --prefix-caching-hash-algo --distributed-executor-backend " +
			"--distributed-timeout-seconds --max-parallel-loading-workers --shutdown-timeout", Of: argv.Harmless},
	}
}

func check(cfg engine.Config) error {
	p := cfg.Parallelism.Normal()
	switch {
	case cfg.Model == "":
		return errors.New("no model is given: name one that it can load")
	case p.EP > 1 && p.EP != p.TP*p.DP:
		return fmt.Errorf("it spreads experts over all TP·DP GPUs, here %d, or not at all", p.TP*p.DP)
	case cfg.KV.Width() == engine.FP4 && cfg.KV != engine.NVFP4:
		return fmt.Errorf("it has no %s KV cache: want bf16, fp8 or nvfp4", cfg.KV)
	}
	return nil
}

// flags of the configuration; what is zero is left to vLLM.
func flags(line *argv.Line, cfg engine.Config) {
	p := cfg.Parallelism.Normal()
	line.Number("--tensor-parallel-size", p.TP)
	line.Ranks("--pipeline-parallel-size", p.PP)
	line.Ranks("--data-parallel-size", p.DP)
	if p.EP > 1 {
		line.Words("--enable-expert-parallel")
	}
	if cfg.PrefixCaching {
		line.Words("--enable-prefix-caching")
	} else {
		line.Words("--no-enable-prefix-caching")
	}
	// Without it a stream's usage does not say how many prompt tokens were cached.
	line.Words("--enable-prompt-tokens-details")
	line.Number("--max-num-seqs", cfg.Limits.MaxNumSeqs)
	line.Number("--max-num-batched-tokens", cfg.Limits.MaxNumBatchedTokens)
	line.Number("--max-model-len", cfg.Limits.MaxModelLen)
	line.Number("--block-size", cfg.Limits.BlockSize)
	switch cfg.KV {
	case engine.FP8, engine.NVFP4:
		line.Words("--kv-cache-dtype", string(cfg.KV))
	case engine.BF16: // of a checkpoint that names another, too
		line.Words("--kv-cache-dtype", "bfloat16")
	case engine.FP4, engine.MXFP4, engine.INT4:
	}
	// Of a GPU's whole memory, for weights, activations and KV together.
	line.Share("--gpu-memory-utilization", cfg.MemoryFraction)
}

// Buckets are the flag for the bounds, in seconds, of vLLM's histograms of TTFT and of the
// time between tokens, and whether a version is known to take it: from 0.32.0 on
// (vllm/config/observability.py); older ones end with it.
func Buckets(version string, ttft, itl []float64) (words []string, takes bool) {
	value, _ := json.Marshal(map[string][]float64{"time_to_first_token": ttft, "inter_token_latency": itl}) //nolint:errchkjson // finite numbers
	major, minor := 0, 0
	_, _ = fmt.Sscanf(strings.TrimPrefix(version, "v"), "%d.%d", &major, &minor) // "" is no version
	return []string{"--custom-histogram-buckets", string(value)}, major > 0 || minor >= 32
}

// KVTokens reads vLLM's log for its KV capacity in tokens, over all its
// data-parallel ranks.
func (Server) KVTokens(cfg engine.Config, log io.Reader) (int, error) {
	return kvTokens(cfg, log)
}
