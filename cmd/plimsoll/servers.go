package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strings"

	"plimsoll/engine"
	"plimsoll/engine/dynamo"
	"plimsoll/engine/vllm"
)

// server is an engine's program: how one configuration of it is started, and
// what its log tells.
type server interface {
	Spec(cfg engine.Config, at engine.Launch) (engine.Spec, error)
	// KVTokens is the capacity of the KV cache, over all ranks, in tokens.
	KVTokens(log io.Reader) (int, error)
}

// realEngine is a kind of engine that the program knows by name.
type realEngine struct {
	kind    engine.Kind
	program string // looked for on PATH
	install string // what to do where it is not there
	server  func(o profileOptions) server
}

// realEngines are those engines, the ones that auto prefers first.
func realEngines() []realEngine {
	return []realEngine{
		{
			engine.KindVLLM, "vllm", "pip install vllm, or run inside its container image vllm/vllm-openai",
			func(o profileOptions) server { return vllm.Server{ReadyTimeout: o.readyAfter} },
		},
		{
			engine.KindDynamo, "dynamo", dynamoInstall,
			func(o profileOptions) server {
				return graphServer{dynamo.Server{Graph: o.graph, Dir: o.graphDir, ReadyTimeout: o.readyAfter}}
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
		return withHint(fmt.Errorf("--engine %s: %s is not on PATH", e.kind, e.program), "%s", e.install)
	}
	return nil
}

// installed is the first engine that is on PATH.
func installed() (realEngine, error) {
	var names []string
	for _, e := range realEngines() {
		if e.kind == engine.KindDynamo {
			continue // it is asked for by its graph
		}
		if e.present() == nil {
			return e, nil
		}
		names = append(names, e.program)
	}
	return realEngine{}, fmt.Errorf("%s not on PATH", strings.Join(names, ", "))
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
	if at.Host != "" {
		argv = append(argv, "--host", at.Host)
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
	if o.catalog != "" {
		argv = append(argv, "--catalog", o.catalog)
	}
	return engine.Spec{Argv: argv, Port: at.Port, LogPath: at.LogPath, ReadyPath: "/health", ReadyTimeout: simReady, Grace: stopGrace}, nil
}

// KVTokens implements server: its metrics tell.
func (simulator) KVTokens(io.Reader) (int, error) {
	return 0, errors.New("the embedded engine's log does not state its KV capacity")
}
