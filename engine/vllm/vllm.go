// Package vllm starts vLLM's own server and reads what its log tells. It takes an
// engine.Config and what is particular to one launch; it gives an engine.Spec.
// Everything here is pure.
package vllm

import (
	"cmp"
	"errors"
	"io"
	"strconv"
	"strings"
	"time"

	"plimsoll/engine"
	"plimsoll/engine/command"
)

// Server is vLLM's server, by the flags of its releases since 0.8
// (https://docs.vllm.ai/en/latest/cli/serve.html).
type Server struct {
	Program      string        // empty: vllm, on PATH
	Extra        []string      // arguments after all others
	ReadyTimeout time.Duration // zero: as engine/process decides
}

// Spec is the process that runs cfg.
func (s Server) Spec(cfg engine.Config, l engine.Launch) (engine.Spec, error) {
	if cfg.Model == "" {
		return engine.Spec{}, errors.New("vllm: no model is given: name one that it can load")
	}
	argv := []string{cmp.Or(s.Program, "vllm"), "serve", cfg.Model, "--host", cmp.Or(l.Host, "127.0.0.1"), "--port", strconv.Itoa(l.Port)}
	return engine.Spec{
		Name: strings.TrimSpace(string(cfg.Role) + " " + cfg.Parallelism.Slug()),
		Argv: append(append(argv, flags(cfg)...), s.Extra...), Port: l.Port, GPUs: l.GPUs,
		ReadyPath: "/health", ReadyTimeout: s.ReadyTimeout, LogPath: l.LogPath, Dir: l.Dir,
	}, nil
}

// flags of the configuration; what is zero is left to vLLM.
func flags(cfg engine.Config) []string {
	p := cfg.Parallelism.Normal()
	args := []string{"--tensor-parallel-size", strconv.Itoa(p.TP)}
	number := func(flag string, n, least int) {
		if n >= least {
			args = append(args, flag, strconv.Itoa(n))
		}
	}
	number("--pipeline-parallel-size", p.PP, 2)
	number("--data-parallel-size", p.DP, 2)
	if p.EP > 1 {
		args = append(args, "--enable-expert-parallel")
	}
	if cfg.PrefixCaching {
		args = append(args, "--enable-prefix-caching")
	} else {
		args = append(args, "--no-enable-prefix-caching")
	}
	number("--max-num-seqs", cfg.Limits.MaxNumSeqs, 1)
	number("--max-num-batched-tokens", cfg.Limits.MaxNumBatchedTokens, 1)
	number("--max-model-len", cfg.Limits.MaxModelLen, 1)
	number("--block-size", cfg.Limits.BlockSize, 1)
	if cfg.KV == engine.FP8 {
		args = append(args, "--kv-cache-dtype", "fp8")
	}
	if f := cfg.MemoryFraction; f > 0 {
		args = append(args, "--gpu-memory-utilization", strconv.FormatFloat(f, 'g', -1, 64))
	}
	return args
}

// KVTokens reads vLLM's log for its KV capacity in tokens, over all its
// data-parallel ranks.
func (Server) KVTokens(log io.Reader) (int, error) { return command.KVTokensFromLog(log, nil) }
