package dynamo

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"plimsoll/engine"
	"plimsoll/engine/vllm"
)

// grace is for the orderly end of a graph: its server ends the workers one by one
// and takes its entries out of etcd, where the next graph would find them.
const grace = 30 * time.Second

// Server is dynamo serve over one graph.
type Server struct {
	Graph        Graph
	Program      string        // empty: dynamo, on PATH
	Dir          string        // folder from which Python finds graphs.agg; empty: the program's own
	Extra        []string      // arguments after all others, such as --VllmWorker.enforce-eager=true
	ReadyTimeout time.Duration // zero: as engine/process decides
}

// Spec is the process that runs cfg. Its file is the variant of the graph, beside
// the log, whose path has to be absolute where Dir is not the program's own.
//
// It is ready when it completes one token: until v0.3.0 the frontend lists a
// model once it has itself registered the name (components/frontend.py), whether
// or not a worker is there.
func (s Server) Spec(cfg engine.Config, l engine.Launch) (engine.Spec, error) {
	if l.Host != "" && l.Host != "127.0.0.1" {
		return engine.Spec{}, fmt.Errorf("dynamo: address %s: a graph runs on this machine alone", l.Host)
	}
	if l.LogPath == "" {
		return engine.Spec{}, errors.New("dynamo: no log file is given, beside which the configuration is written")
	}
	if err := s.clash(); err != nil {
		return engine.Spec{}, err
	}
	text, err := s.Graph.Variant(cfg, l.Port)
	if err != nil {
		return engine.Spec{}, fmt.Errorf("dynamo: %w", err)
	}
	ready, err := json.Marshal(map[string]any{
		"model": s.Graph.Model(), "max_tokens": 1,
		"messages": []map[string]string{{"role": "user", "content": "Hello"}},
	})
	if err != nil {
		return engine.Spec{}, fmt.Errorf("dynamo: %w", err)
	}
	base := strings.TrimSuffix(l.LogPath, filepath.Ext(l.LogPath))
	argv := []string{cmp.Or(s.Program, "dynamo"), "serve", "graphs.agg:Frontend", "-f", base + ".yaml"}
	return engine.Spec{
		Name: strings.TrimSpace(string(cfg.Role) + " " + cfg.Slug()),
		Argv: append(argv, s.Extra...), Env: environment(base, l), Dir: cmp.Or(s.Dir, l.Dir),
		Port: l.Port, GPUs: l.GPUs, LogPath: l.LogPath,
		Files:     []engine.File{{Path: base + ".yaml", Text: text}},
		ReadyPath: "/v1/chat/completions", ReadyBody: string(ready), ReadyTimeout: s.ReadyTimeout, Grace: grace,
	}, nil
}

// clash refuses an extra argument that would undo what a variant sets: those of
// the form --Component.key=value hold over the file (cli/utils.py).
func (s Server) clash() error {
	worker := s.Graph.workers.decode
	for _, arg := range s.Extra {
		name, _, _ := strings.Cut(arg, "=")
		of, key, _ := strings.Cut(strings.TrimLeft(name, "-"), ".")
		key, _, _ = strings.Cut(key, ".")
		key = strings.ReplaceAll(key, "_", "-")
		set := name == "-f" || name == "--config-file" ||
			of == frontend && key == "port" || of == planner && key == "no-operation" ||
			of == worker && slices.Contains([]string{
				service, "enable-prefix-caching", "tensor-parallel-size", "pipeline-parallel-size", "remote-prefill", "conditional-disagg", "router",
			}, key)
		if set {
			return fmt.Errorf("dynamo: argument %s: each engine that is measured has its own", arg)
		}
	}
	return nil
}

// environment keeps the graph within its launch. Its state is a folder that dynamo
// serve removes whole when it ends (cli/serving.py): by default one in the home
// folder that other graphs share. Its allocator would number GPUs from 0, over the
// ones that it was given (cli/allocator.py).
func environment(base string, l engine.Launch) []string {
	env := []string{"DYN_LOCAL_STATE_DIR=" + base + ".state"}
	if l.GPUs != nil {
		env = append(env, "DYN_DISABLE_AUTO_GPU_ALLOCATION=1")
	}
	return env
}

// Diverting are the variables of the environment under which dynamo serve would
// not run the configuration that it is given, or not write its log where it is
// read, with what each does (cli/utils.py, cli/serve.py, cli/circus.py).
func Diverting() map[string]string {
	return map[string]string{
		"DYN_DEPLOYMENT_CONFIG": "replaces the configuration",
		"DYNAMO_SERVICE_NAME":   "starts one component alone",
		"DYN_CIRCUS_LOG_DIR":    "sends the workers' log elsewhere",
	}
}

// KVTokens reads the graph's log for the KV capacity of its worker, in tokens:
// vLLM's lines, with what the worker puts in front of them.
func (Server) KVTokens(cfg engine.Config, log io.Reader) (int, error) {
	return vllm.Server{}.KVTokens(cfg, log)
}
