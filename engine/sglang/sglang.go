// Package sglang starts SGLang's server and reads what its log tells. It takes an
// engine.Config and what is particular to one launch; it gives an engine.Spec. It
// refuses layouts that SGLang does not have. Everything here is pure.
package sglang

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"regexp"
	"time"

	"plimsoll/engine"
	"plimsoll/engine/argv"
	"plimsoll/engine/field"
	"plimsoll/engine/kvlog"
)

// Server is SGLang's server, by the flags of its releases since 0.5
// (https://docs.sglang.io/docs/advanced_features/server_arguments and
// python/sglang/srt/arg_groups/fields, read in November 2026).
type Server struct {
	Program      string        // empty: sglang, on PATH
	Extra        []string      // arguments after all others
	ReadyTimeout time.Duration // zero: as engine/process decides
}

// Spec is the process that runs cfg. It is ready when it has generated a token:
// /health answers before the first forward pass in some versions.
func (s Server) Spec(cfg engine.Config, l engine.Launch) (engine.Spec, error) {
	if argv.Says(s.Extra, "--kv-cache-dtype") {
		cfg.KV = ""
	}
	if err := check(cfg); err != nil {
		return engine.Spec{}, fmt.Errorf("sglang: %w", err)
	}
	line := argv.Line{cmp.Or(s.Program, "sglang"), "serve", "--model-path", cfg.Model}
	line.Address(l)
	flags(&line, cfg)
	line.Words(s.Extra...)
	return line.Spec(cfg, l, "/health_generate", s.ReadyTimeout), nil
}

// Arguments are what SGLang's mean (sglang/srt/arg_groups/fields of 0.5.23, read in
// November 2026).
func Arguments() argv.Table {
	return argv.Table{
		{Names: "--model --model-path", Of: field.Model},
		{Names: "--tp-size --tensor-parallel-size --tp", Of: field.TP},
		{Names: "--pp-size --pipeline-parallel-size --pp --dp-size --data-parallel-size --dp --attn-dp-size --attention-data-parallel-size --enable-dp-attention " +
			"--ep-size --expert-parallel-size --ep --enable-ep-moe --moe-dp-size --moe-data-parallel-size --nnodes --node-rank --dist-init-addr --nccl-init-addr", Of: field.Parallelism},
		{Names: "--host --port --config --base-gpu-id --gpu-id-step --served-model-name --disable-radix-cache", Of: argv.Profile},
		{Names: "--max-running-requests", Of: field.MaxNumSeqs},
		{Names: "--chunked-prefill-size=-1"}, // prompts are not cut
		{Names: "--chunked-prefill-size", Of: field.MaxNumBatchedTokens},
		{Names: "--context-length", Of: field.MaxContextLength},
		{Names: "--page-size", Of: argv.BlockSize},
		{Names: "--mem-fraction-static", Of: field.MemoryFraction},
		{Names: "--kv-cache-dtype", Of: field.KVDType, Stays: true},
		{Names: "--quantization --torchao-config --modelopt-quant", Of: field.Weights, Stays: true},
		{Names: argv.Common + "--weight-loader-* --weight-version --hf-chat-template-name --completion-template --file-storage-path --admin-api-key --fastapi-root-path --enable-metrics* " +
			"--enable-cache-report --collect-tokens-histogram --bucket-* --prompt-tokens-buckets --generation-tokens-buckets --tokenizer-metrics-* --extra-metric-labels " +
			"--decode-log-interval --enable-request-time-stats-logging --crash-dump-folder --show-time-cost --watchdog-timeout --soft-watchdog-timeout --dist-timeout " +
			"--nccl-port --warmups --skip-server-warmup --grammar-backend --constrained-json-* --sampling-defaults --preferred-sampling-params", Of: argv.Harmless},
	}
}

func check(cfg engine.Config) error {
	p := cfg.Parallelism.Normal()
	switch {
	case cfg.Model == "":
		return errors.New("no model is given: name one that it can load")
	case world(p)%p.EP != 0:
		return fmt.Errorf("%d expert-parallel ranks do not divide %d tensor-parallel ones", p.EP, world(p))
	case cfg.KV.Width() == engine.FP4:
		return errors.New("an fp4 KV cache is not driven here: give --kv-cache-dtype fp4_e2m1 as an argument of its own")
	}
	return nil
}

// world is SGLang's tensor-parallel size. Where experts are spread it spans the
// attention replicas, which share it (enable_dp_attention: "data parallelism for
// attention and tensor parallelism for FFN"); replicas of whole models do not.
func world(p engine.Parallelism) int {
	if p.EP > 1 {
		return p.TP * p.DP
	}
	return p.TP
}

// flags of the configuration; what is zero is left to SGLang.
func flags(line *argv.Line, cfg engine.Config) {
	p := cfg.Parallelism.Normal()
	line.Number("--tp-size", world(p))
	line.Ranks("--pp-size", p.PP)
	line.Ranks("--dp-size", p.DP)
	ranks := 1
	if p.DP > 1 && p.EP > 1 {
		line.Words("--enable-dp-attention")
		ranks = p.DP // attention replicas divide limits among them (scheduler.py), replicas of whole models do not
	}
	line.Ranks("--ep-size", p.EP)
	if !cfg.PrefixCaching {
		line.Words("--disable-radix-cache")
	}
	// Without the first there is no /metrics, without the second a stream's usage
	// does not say how many prompt tokens were cached.
	line.Words("--enable-metrics", "--enable-cache-report")
	line.Number("--max-running-requests", cfg.Limits.MaxNumSeqs*ranks)
	line.Number("--chunked-prefill-size", cfg.Limits.MaxNumBatchedTokens*ranks)
	line.Number("--context-length", cfg.Limits.MaxModelLen)
	line.Number("--page-size", cfg.Limits.BlockSize)
	switch cfg.KV { //nolint:exhaustive // check refuses the others
	case engine.FP8:
		line.Words("--kv-cache-dtype", "fp8_e4m3")
	case engine.BF16: // of a checkpoint that names another, too
		line.Words("--kv-cache-dtype", "bf16")
	}
	// Of a GPU's memory, for weights and KV; activations and graphs come on top.
	line.Share("--mem-fraction-static", cfg.MemoryFraction)
}

// KVLines are the lines in which SGLang states its KV capacity: its first
// tensor-parallel rank alone (scheduler.py, "if tp_rank == 0"), and all ranks as
// they allocate, since mid-2026 with the cache's type in front.
func KVLines() []kvlog.Line {
	return []kvlog.Line{{Pattern: total}, {Pattern: allocated}}
}

var (
	total     = regexp.MustCompile(`max_total_num_tokens=([0-9]+)`)
	allocated = regexp.MustCompile(`KV Cache is allocated\.(?: dtype: [^,]*,)? #tokens: ([0-9]+)`)
)

// KVTokens reads SGLang's log for its KV capacity in tokens, over all its
// data-parallel ranks.
func (Server) KVTokens(cfg engine.Config, log io.Reader) (int, error) {
	return kvlog.Tokens(log, KVLines(), cfg.Parallelism.Normal().DP)
}
