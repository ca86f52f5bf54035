// Package trtllm starts TensorRT-LLM's server, trtllm-serve, and reads what its
// log tells. It takes an engine.Config and what is particular to one launch; it
// gives an engine.Spec whose only file is the server's configuration. It refuses
// layouts that TensorRT-LLM does not have. Everything here is pure.
package trtllm

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"plimsoll/engine"
	"plimsoll/engine/argv"
	"plimsoll/engine/field"
	"plimsoll/engine/kvlog"
)

// Server is trtllm-serve with its PyTorch backend, by the flags of releases since
// 0.20 (tensorrt_llm/commands/serve.py up to 1.4, read in November 2026).
type Server struct {
	Program      string        // empty: trtllm-serve, on PATH
	Extra        []string      // arguments after all others
	ReadyTimeout time.Duration // zero: as engine/process decides
}

// Spec is the process that runs cfg. Its configuration file is written beside the
// log.
func (s Server) Spec(cfg engine.Config, l engine.Launch) (engine.Spec, error) {
	if err := check(cfg); err != nil {
		return engine.Spec{}, fmt.Errorf("trtllm: %w", err)
	}
	file, err := configPath(l)
	if err != nil {
		return engine.Spec{}, fmt.Errorf("trtllm: %w", err)
	}
	line := argv.Line{cmp.Or(s.Program, "trtllm-serve"), cfg.Model}
	line.Address(l)
	flags(&line, cfg)
	// Its newer name is --config; every release takes this one.
	line.Words("--extra_llm_api_options", file)
	line.Words(s.Extra...)
	spec := line.Spec(cfg, l, "/health", s.ReadyTimeout)
	spec.Files = []engine.File{{Path: file, Text: config(cfg)}}
	return spec, nil
}

// Arguments are what trtllm-serve's mean, and what Dynamo's workers take for it: the
// same with hyphens, and keys of the configuration file. What is in that file is said
// there alone.
func Arguments() argv.Table {
	return argv.Table{
		{Names: "--model --model-path", Of: field.Model},
		{Names: "--tp-size --tensor-parallel-size", Of: field.TP},
		{Names: "--pp-size --pipeline-parallel-size --ep-size --expert-parallel-size --moe-expert-parallel-size --cluster-size --moe-cluster-parallel-size " +
			"--cp-size --context-parallel-size --enable-attention-dp --gpus-per-node", Of: field.Parallelism},
		{Names: "--host --port --extra-llm-api-options --config --served-model-name --kv-cache-config.enable-block-reuse", Of: argv.Profile},
		{Names: "--max-batch-size", Of: field.MaxNumSeqs},
		{Names: "--max-num-tokens", Of: field.MaxNumBatchedTokens},
		{Names: "--max-seq-len", Of: field.MaxContextLength},
		{Names: "--kv-block-size --kv-cache-config.tokens-per-block", Of: argv.BlockSize},
		{Names: "--free-gpu-memory-fraction --kv-cache-free-gpu-memory-fraction --kv-cache-config.free-gpu-memory-fraction", Of: field.MemoryFraction},
		{Names: "--kv-cache-dtype --kv-cache-config.dtype", Of: field.KVDType},
		{Names: argv.Common + "--backend=pytorch --max-beam-width=1 --enable-chunked-prefill --num-postprocess-workers --fail-fast-on-attention-window-too-large " +
			"--hf-revision --max-file-size-mb --guided-decoding-backend", Of: argv.Harmless},
	}
}

func configPath(l engine.Launch) (string, error) {
	if l.LogPath == "" {
		return "", errors.New("no log file is given, beside which its configuration is written")
	}
	return strings.TrimSuffix(l.LogPath, filepath.Ext(l.LogPath)) + ".yaml", nil
}

func check(cfg engine.Config) error {
	p := cfg.Parallelism.Normal()
	switch {
	case cfg.Model == "":
		return errors.New("no model is given: name one that it can load")
	case p.DP > 1 && p.TP > 1:
		return fmt.Errorf("its attention data parallelism is over all ranks of a stage: want TP 1 with DP %d", p.TP*p.DP)
	case (p.TP*p.DP)%p.EP != 0:
		return fmt.Errorf("%d expert-parallel ranks do not divide %d tensor-parallel ones", p.EP, p.TP*p.DP)
	}
	return nil
}

// flags of the configuration; what is zero is left to TensorRT-LLM. The backend
// is named because releases before 1.0 have another default.
func flags(line *argv.Line, cfg engine.Config) {
	p := cfg.Parallelism.Normal()
	line.Words("--backend", "pytorch")
	line.Number("--tp_size", p.TP*p.DP)
	line.Ranks("--pp_size", p.PP)
	line.Ranks("--ep_size", p.EP)
	line.Number("--max_batch_size", cfg.Limits.MaxNumSeqs)
	line.Number("--max_num_tokens", cfg.Limits.MaxNumBatchedTokens)
	line.Number("--max_seq_len", cfg.Limits.MaxModelLen)
}

// config is the file, which wins over flags. Its kv_cache_config replaces the one
// that flags make (before 1.1 whole), so the memory fraction is in the file, too.
// Without chunked prefill a prompt beyond --max_num_tokens is refused; without
// iteration statistics /metrics is empty.
func config(cfg engine.Config) string {
	var b strings.Builder
	fmt.Fprintf(&b, "enable_chunked_prefill: true\nenable_iter_perf_stats: true\n")
	if cfg.Parallelism.Normal().DP > 1 {
		fmt.Fprintf(&b, "enable_attention_dp: true\n")
	}
	fmt.Fprintf(&b, "kv_cache_config:\n  enable_block_reuse: %t\n", cfg.PrefixCaching)
	// Of the memory that is free once weights and buffers are there, for KV alone.
	if f := cfg.MemoryFraction; f > 0 {
		fmt.Fprintf(&b, "  free_gpu_memory_fraction: %s\n", argv.Fraction(f))
	}
	if word := map[engine.DType]string{engine.FP8: "fp8", engine.FP4: "nvfp4"}[cfg.KV.Width()]; word != "" {
		fmt.Fprintf(&b, "  dtype: %s\n", word)
	}
	if n := cfg.Limits.BlockSize; n > 0 {
		fmt.Fprintf(&b, "  tokens_per_block: %d\n", n)
	}
	return b.String()
}

// KVLines are the lines in which TensorRT-LLM states its KV capacity
// (cpp/tensorrt_llm/batch_manager/kvCacheManager.cpp). The first is of a trial run
// with little memory, so the last holds. Its Python cache manager, an option since
// 1.3, prints none.
func KVLines() []kvlog.Line {
	return []kvlog.Line{{Pattern: paged}}
}

var paged = regexp.MustCompile(`max tokens in paged KV cache \(([0-9,]+)\)`)

// KVTokens reads TensorRT-LLM's log for its KV capacity in tokens, over all its
// attention replicas, of which each has as much.
func (Server) KVTokens(cfg engine.Config, log io.Reader) (int, error) {
	return kvlog.Tokens(log, KVLines(), cfg.Parallelism.Normal().DP)
}
