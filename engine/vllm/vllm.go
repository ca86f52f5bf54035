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
	if err := check(cfg); err != nil {
		return engine.Spec{}, fmt.Errorf("vllm: %w", err)
	}
	line := argv.Line{cmp.Or(s.Program, "vllm"), "serve", cfg.Model}
	line.Address(l)
	flags(&line, cfg)
	line.Words(s.Extra...)
	return line.Spec(cfg, l, "/health", s.ReadyTimeout), nil
}

// Owned are the flags, by all their names, that say where vLLM listens, its layout,
// and whether it reuses prefixes: given a second time they would belie what is
// measured.
func Owned() []string {
	return []string{
		"--host", "--port", "--tensor-parallel-size", "-tp", "--pipeline-parallel-size", "-pp", "--data-parallel-size", "-dp",
		"--prefill-context-parallel-size", "-pcp", "--enable-expert-parallel", "--no-enable-expert-parallel", "-ep",
		"--enable-prefix-caching", "--no-enable-prefix-caching",
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
