package main

import (
	"cmp"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strings"

	"plimsoll/engine"
	"plimsoll/engine/argv"
	"plimsoll/engine/field"
	"plimsoll/engine/kvlog"
	"plimsoll/engine/llamacpp"
	"plimsoll/engine/sglang"
	"plimsoll/engine/trtllm"
	"plimsoll/engine/vllm"
)

// server is an engine's program: how one configuration of it is started, and
// what its log tells.
type server interface {
	Spec(cfg engine.Config, at engine.Launch) (engine.Spec, error)
	// KVTokens is the capacity of the KV cache of cfg, over all ranks, in tokens.
	KVTokens(cfg engine.Config, log io.Reader) (int, error)
}

// realEngine is a kind of engine that the program knows by name.
type realEngine struct {
	kind      engine.Kind
	program   string                        // looked for on PATH
	install   string                        // what to do where it is not there
	asked     bool                          // taken only where it is asked for
	example   string                        // arguments that it takes
	arguments func(d deployment) argv.Table // what its arguments mean
	server    func(o profileOptions, d deployment) server
}

// realEngines are those engines, the ones that auto prefers first.
func realEngines() []realEngine {
	return []realEngine{
		{
			kind: engine.KindVLLM, program: "vllm", install: "pip install vllm, or run inside its container image vllm/vllm-openai",
			example:   "--max-model-len 4096",
			arguments: func(deployment) argv.Table { return vllm.Arguments() },
			server: func(o profileOptions, _ deployment) server {
				return vllm.Server{Extra: o.extra, ReadyTimeout: o.readyAfter}
			},
		},
		{
			kind: engine.KindSGLang, program: "sglang",
			install:   "pip install sglang, or run inside its container image lmsysorg/sglang; one without the program sglang goes with --command 'python3 -m sglang.launch_server …'",
			example:   "--context-length 4096",
			arguments: func(deployment) argv.Table { return sglang.Arguments() },
			server: func(o profileOptions, _ deployment) server {
				return sglang.Server{Extra: o.extra, ReadyTimeout: o.readyAfter}
			},
		},
		{
			kind: engine.KindTRTLLM, program: "trtllm-serve", install: "run inside NVIDIA's container image nvcr.io/nvidia/tensorrt-llm/release, or pip install tensorrt_llm",
			example:   "--max_seq_len 4096",
			arguments: func(deployment) argv.Table { return trtllm.Arguments() },
			server: func(o profileOptions, _ deployment) server {
				return trtllm.Server{Extra: o.extra, ReadyTimeout: o.readyAfter}
			},
		},
		{
			// It serves GGUF files: a model that is named for the others is none that it could load.
			kind: engine.KindLlamaCpp, program: "llama-server", asked: true, install: "install llama.cpp, as by apt-get install llama.cpp-tools or brew install llama.cpp",
			example:   "--ctx-size 32768",
			arguments: func(d deployment) argv.Table { return llamacpp.Server{CPU: d.cpu}.Arguments() },
			server: func(o profileOptions, d deployment) server {
				return llamacpp.Server{CPU: d.cpu, Extra: o.extra, ReadyTimeout: o.readyAfter}
			},
		},
	}
}

// engineKinds are the words of --engine.
func engineKinds() []string {
	words := []string{"auto", "estimate", "sim"}
	for _, e := range realEngines() {
		words = append(words, string(e.kind))
	}
	return append(words, string(engine.KindCommand), string(engine.KindEndpoint))
}

// realEngineOf is the engine of that kind; false for kinds that are none.
func realEngineOf(k engine.Kind) (realEngine, bool) {
	all := realEngines()
	i := slices.IndexFunc(all, func(e realEngine) bool { return e.kind == k })
	if i < 0 {
		return realEngine{}, false
	}
	return all[i], true
}

// isReal reports whether a word of --engine names one of those engines.
func isReal(word string) bool {
	_, ok := realEngineOf(engine.Kind(word))
	return ok
}

// present says what to do where the engine's program is not on PATH.
func (e realEngine) present() error {
	if _, err := exec.LookPath(e.program); err != nil {
		return field.WithHint(fmt.Errorf("--engine %s: %s is not on PATH", e.kind, e.program), "%s", e.install)
	}
	return nil
}

// installed is the first engine that is on PATH, of those that need not be asked for.
func installed() (realEngine, error) {
	var names []string
	for _, e := range realEngines() {
		if e.asked {
			continue
		}
		if e.present() == nil {
			return e, nil
		}
		names = append(names, e.program)
	}
	return realEngine{}, fmt.Errorf("none of %s is on PATH", strings.Join(names, ", "))
}

// simulator is this program as the embedded engine.
type simulator struct {
	opts profileOptions
	self string // this program
}

// Spec implements server.
func (s simulator) Spec(cfg engine.Config, at engine.Launch) (engine.Spec, error) {
	o := s.opts
	argv := []string{
		s.self, "engine", "serve", "--model", cmp.Or(o.model, cfg.Model), "--gpu", cfg.GPU, "--port", itoa(at.Port),
		"--weights", string(cfg.Weights), "--max-num-seqs", itoa(cfg.Limits.MaxNumSeqs), "--max-num-batched-tokens", itoa(cfg.Limits.MaxNumBatchedTokens),
		"--max-model-len", itoa(cfg.Limits.MaxModelLen),
		"--noise", fmt.Sprint(o.noise), "--seed", fmt.Sprint(o.seed),
	}
	argv = append(argv, layoutArgs(cfg.Parallelism)...)
	if cfg.KV != "" {
		argv = append(argv, "--kv-dtype", string(cfg.KV))
	}
	if f := cfg.MemoryFraction; f > 0 {
		argv = append(argv, "--memory-fraction", fmt.Sprint(f))
	}
	if n := o.kvBlocks(cfg.Limits.BlockSize); n > 0 {
		argv = append(argv, "--kv-blocks", itoa(n))
	}
	if cfg.PrefixCaching {
		argv = append(argv, "--enable-prefix-caching")
	}
	if o.fit != "" {
		argv = append(argv, "--fit", o.fit)
	}
	if o.perNode > 0 {
		argv = append(argv, "--gpus-per-node", itoa(o.perNode))
	}
	if o.catalog != "" {
		argv = append(argv, "--catalog", o.catalog)
	}
	return engine.Spec{Argv: argv, Port: at.Port, LogPath: at.LogPath, ReadyPath: "/health", ReadyTimeout: simReady, Grace: stopGrace}, nil
}

// KVTokens implements server: its metrics tell.
func (simulator) KVTokens(engine.Config, io.Reader) (int, error) {
	return 0, kvlog.ErrSilent
}
