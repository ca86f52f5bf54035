package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"plimsoll/engine/process"
	"plimsoll/engine/scrape"
)

// standIn is a program that stands in for an engine's: it takes the flags that
// the engine has, refuses others, prints the engine's line about its KV cache,
// and serves the embedded engine behind the engine's own endpoints.
type standIn struct {
	program string
	first   []string // words before the model, which is a flag's value where the last begins with -
	values  []string // flags with a value
	bare    []string // flags without
	log     func(kvTokens int) string
	version string // as recommendation.json has it

	// Paths of its own, and how its metrics state running and waiting requests.
	ready   string
	info    map[string]string
	metrics string
}

// standInBlocks of 16 tokens are every stand-in's KV cache.
const standInBlocks = 1000

func standIns() map[string]standIn {
	return map[string]standIn{
		"vllm": {
			program: "vllm", first: []string{"serve"}, version: "0.11.0", ready: "/health",
			values: []string{"--host", "--port", "--tensor-parallel-size", "--max-num-seqs", "--max-model-len", "--gpu-memory-utilization", "--quantization"},
			bare:   []string{"--enable-prefix-caching", "--no-enable-prefix-caching", "--enable-prompt-tokens-details"},
			log: func(n int) string {
				return fmt.Sprintf("(EngineCore_DP0 pid=7) INFO [kv_cache_utils.py:1087] GPU KV cache size: %d tokens", n)
			},
			info:    map[string]string{"/version": `{"version":"0.11.0"}`},
			metrics: "vllm:num_requests_running %g\nvllm:num_requests_waiting %g\n",
		},
		"sglang": {
			program: "sglang", first: []string{"serve", "--model-path"}, version: "0.5.3", ready: "/health_generate",
			values: []string{"--host", "--port", "--tp-size", "--max-running-requests", "--context-length", "--mem-fraction-static", "--quantization"},
			bare:   []string{"--disable-radix-cache", "--enable-metrics", "--enable-cache-report"},
			log: func(n int) string {
				return fmt.Sprintf("[2026-11-21 10:00:00] max_total_num_tokens=%d, chunked_prefill_size=8192", n)
			},
			info:    map[string]string{"/get_server_info": `{"version":"0.5.3","dp_size":1,"max_total_num_tokens":16000}`},
			metrics: "sglang:num_running_reqs %g\nsglang:num_queue_reqs %g\n",
		},
		"trtllm": {
			program: "trtllm-serve", first: []string{}, version: "1.1.0", ready: "/health",
			values: []string{"--host", "--port", "--backend", "--tp_size", "--max_batch_size", "--max_seq_len", "--extra_llm_api_options", "--quantization"},
			log: func(n int) string {
				return fmt.Sprintf("Allocated 0.53 GiB for max tokens in paged KV cache (8224).\nAllocated 9.1 GiB for max tokens in paged KV cache (%d).", n)
			},
			info:    map[string]string{"/version": `{"version":"1.1.0"}`},
			metrics: `[{"numActiveRequests":%g,"numQueuedRequests":%g}]`,
		},
		"llamacpp": {
			program: "llama-server", first: []string{"-m"}, version: "llama.cpp b1", ready: "/health",
			values: []string{"--host", "--port", "-t", "-tb", "-np", "-c", "-cram", "--quantization"},
			bare:   []string{"--offline", "--metrics", "--no-webui", "--no-cache-prompt"},
			log: func(n int) string {
				return fmt.Sprintf("initializing, n_slots = 8, n_ctx_slot = %d, kv_unified = 'false'", n/8)
			},
			info:    map[string]string{"/props": `{"total_slots":8,"default_generation_settings":{"n_ctx":2000},"build_info":"b1"}`},
			metrics: "llamacpp:requests_processing %g\nllamacpp:requests_deferred %g\n",
		},
	}
}

// standInMain is the program `standin KIND ARG…`.
func standInMain() {
	s := standIns()[os.Args[1]]
	flags, err := s.parse(os.Args[2:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "unrecognized arguments:", err)
		os.Exit(2)
	}
	free, err := process.FreePort()
	if err != nil {
		panic(err)
	}
	fmt.Println(s.log(standInBlocks * 16))
	tp := firstOf(flags, "--tensor-parallel-size", "--tp-size", "--tp_size", "-t")
	go run(context.Background(), []string{
		"plimsoll", "engine", "serve", "--gpu", unhurried, "--tp", tp, "--port", itoa(free), "--kv-blocks", itoa(standInBlocks),
		"--max-num-seqs", "8", "--max-model-len", "2000", "--enable-prefix-caching",
	}, streams{os.Stdin, os.Stdout, os.Stderr})
	inner := fmt.Sprintf("http://127.0.0.1:%d", free)
	srv := &http.Server{Addr: flags["--host"] + ":" + flags["--port"], Handler: s.handler(inner), ReadHeaderTimeout: patience}
	panic(srv.ListenAndServe())
}

// parse takes the command line as the engine would.
func (s standIn) parse(args []string) (map[string]string, error) {
	if len(args) <= len(s.first) || !slices.Equal(args[:len(s.first)], s.first) {
		return nil, fmt.Errorf("%q does not begin with %q and a model", args, s.first)
	}
	flags := map[string]string{"model": args[len(s.first)]}
	for rest := args[len(s.first)+1:]; len(rest) > 0; rest = rest[1:] {
		switch {
		case slices.Contains(s.values, rest[0]) && len(rest) > 1:
			flags[rest[0]] = rest[1]
			rest = rest[1:]
		case slices.Contains(s.bare, rest[0]):
			flags[rest[0]] = ""
		default:
			return nil, fmt.Errorf("%q", rest[0])
		}
	}
	if file, ok := flags["--extra_llm_api_options"]; ok {
		if text, err := os.ReadFile(file); err != nil || !strings.Contains(string(text), "enable_block_reuse: ") {
			return nil, fmt.Errorf("configuration %s: %w: %s", file, err, text)
		}
	}
	return flags, nil
}

func firstOf(flags map[string]string, names ...string) string {
	for _, n := range names {
		if v, ok := flags[n]; ok {
			return v
		}
	}
	panic(fmt.Sprint("none of ", names, " in ", flags))
}

// handler is the embedded engine with the engine's own answers in front.
func (s standIn) handler(inner string) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", forward(inner))
	mux.HandleFunc("/metrics", func(w http.ResponseWriter, r *http.Request) {
		now, err := scrape.Read(r.Context(), http.DefaultClient, inner+"/metrics")
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		reply(w, fmt.Sprintf(s.metrics, now.Running.V, now.Waiting.V))
	})
	for path, answer := range s.info {
		mux.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) { reply(w, answer) })
	}
	for _, path := range []string{"/health", "/health_generate"} {
		if path != s.ready {
			mux.HandleFunc(path, http.NotFound)
			continue
		}
		mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
			req, err := http.NewRequestWithContext(r.Context(), http.MethodGet, inner+"/health", nil)
			if err != nil {
				panic(err)
			}
			resp, err := http.DefaultClient.Do(req)
			if err != nil || resp.StatusCode != http.StatusOK {
				w.WriteHeader(http.StatusServiceUnavailable) // as llama-server's while it loads
				return
			}
			_ = resp.Body.Close()
		})
	}
	return mux
}

// withStandIns is the environment in which the engines' programs are stand-ins.
func withStandIns(t *testing.T) []string {
	t.Helper()
	bin := t.TempDir()
	for kind, s := range standIns() {
		script := "#!/bin/sh\nexec standin " + kind + " \"$@\"\n"
		if err := os.WriteFile(filepath.Join(bin, s.program), []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return []string{"PATH=" + bin + ":" + os.Getenv("PATH")}
}

// named asks for a small profile of an engine known by name.
func named(dir, kind string, more ...string) []string {
	return append([]string{
		"profile-sla", "--engine", kind, "--model", "models/m.gguf", "--gpu-count", "2", "--tp", "2", "--isl", "200", "--osl", "20", "--ttft", "1000", "--itl", "100",
		"--prefill-interpolation-granularity", "2", "--decode-interpolation-granularity", "2", "--max-context-length", "500", "--max-num-seqs", "8", "--verify", "never", "--output-dir", dir,
	}, more...)
}

// A layout or an address that is said to the engine a second time is refused: 4
// GPUs would be measured as TP:1, or another port waited for.
func TestExtraArgumentsThatBelie(t *testing.T) {
	t.Parallel()
	env := withStandIns(t)
	for kind, words := range map[string]string{
		"vllm": "--tensor-parallel-size=4", "sglang": "--tp", "trtllm": "--extra_llm_api_options", "llamacpp": "--threads",
	} {
		p := start(t, env, named("results", kind, "--dry-run", "--", "--quantization", "fp8", words, "4")...)
		name, _, _ := strings.Cut(words, "=")
		if want := "plimsoll: error: " + name + " after --: "; p.wait(t) != exitUsage || !strings.HasPrefix(p.errout.String(), want) {
			t.Errorf("%s:\n%s", kind, &p.errout)
		}
	}
}

// Arguments after -- go nowhere but to an engine known by name.
func TestExtraArguments(t *testing.T) {
	t.Parallel()
	for want, args := range map[string][]string{
		`"--x" after -- has no effect with --engine sim: it goes with --engine vllm|sglang|trtllm|llamacpp`: {"--engine", "sim", "--", "--x"},
		`"--x" after -- has no effect with --command: it goes with --engine vllm|sglang|trtllm|llamacpp`:    {"--gpu-count", "1", "--command", "e {{.TP}} {{.Port}}", "--", "--x"},
		`unexpected argument "x"`: {"--engine", "sim", "x", "--", "--x"},
	} {
		p := ran(t, exitUsage, append([]string{"profile-sla", "--dry-run"}, args...)...)
		if !strings.HasPrefix(p.errout.String(), "plimsoll: error: "+want+"\n") {
			t.Errorf("%q:\n%s", args, &p.errout)
		}
	}
	out := ran(t, exitUsage, "gpus", "--", "x")
	if !strings.Contains(out.errout.String(), `unexpected argument "x"`) {
		t.Errorf("gpus:\n%s", &out.errout)
	}
}

// The stand-ins' answers are JSON where the engines' are.
func TestStandIns(t *testing.T) {
	for kind, s := range standIns() {
		for path, answer := range s.info {
			if !json.Valid([]byte(answer)) {
				t.Errorf("%s %s: %s", kind, path, answer)
			}
		}
	}
}
