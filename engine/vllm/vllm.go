// Package vllm starts vLLM's own server and reads what its log tells. It takes an
// engine.Config and what is particular to one launch; it gives an engine.Spec. It
// refuses layouts that vLLM does not have. Everything here is pure.
package vllm

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"plimsoll/engine"
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
	argv := []string{cmp.Or(s.Program, "vllm"), "serve", cfg.Model, "--host", cmp.Or(l.Host, "127.0.0.1"), "--port", strconv.Itoa(l.Port)}
	return engine.Spec{
		Name: strings.TrimSpace(string(cfg.Role) + " " + cfg.Parallelism.Slug()),
		Argv: append(append(argv, flags(cfg)...), s.Extra...), Port: l.Port, GPUs: l.GPUs,
		ReadyPath: "/health", ReadyTimeout: s.ReadyTimeout, LogPath: l.LogPath, Dir: l.Dir,
	}, nil
}

func check(cfg engine.Config) error {
	p := cfg.Parallelism.Normal()
	switch {
	case cfg.Model == "":
		return errors.New("no model is given: name one that it can load")
	case p.EP > 1 && p.EP != p.TP*p.DP:
		return fmt.Errorf("%s: it spreads experts over all TP·DP GPUs, here %d, or not at all", p.Label(), p.TP*p.DP)
	case cfg.KV == engine.FP4:
		return errors.New("it has no fp4 KV cache: want bf16 or fp8")
	}
	return nil
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
	// Without it a stream's usage does not say how many prompt tokens were cached.
	args = append(args, "--enable-prompt-tokens-details")
	number("--max-num-seqs", cfg.Limits.MaxNumSeqs, 1)
	number("--max-num-batched-tokens", cfg.Limits.MaxNumBatchedTokens, 1)
	number("--max-model-len", cfg.Limits.MaxModelLen, 1)
	number("--block-size", cfg.Limits.BlockSize, 1)
	if cfg.KV == engine.FP8 {
		args = append(args, "--kv-cache-dtype", "fp8")
	}
	// Of a GPU's whole memory, for weights, activations and KV together.
	if f := cfg.MemoryFraction; f > 0 {
		args = append(args, "--gpu-memory-utilization", strconv.FormatFloat(f, 'g', -1, 64))
	}
	return args
}

// KVTokens reads vLLM's log for its KV capacity in tokens, over all its
// data-parallel ranks.
func (Server) KVTokens(cfg engine.Config, log io.Reader) (int, error) {
	return kvTokens(cfg, log)
}
