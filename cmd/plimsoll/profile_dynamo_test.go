package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
)

// graphConfig is a configuration as dynamo serve reads it.
type graphConfig map[string]map[string]any

// args are the flags that a component is started with, as Dynamo makes them of the
// configuration: those of Common that it subscribed to and does not have itself,
// then its own; true is a flag alone, false none.
func (g graphConfig) args(name string) []string {
	var out []string
	add := func(key string, value any) {
		switch v := value.(type) {
		case bool:
			if v {
				out = append(out, "--"+key)
			} else if key == "enable-prefix-caching" {
				out = append(out, "--no-"+key)
			}
		default:
			out = append(out, "--"+key, fmt.Sprint(v))
		}
	}
	own := g[name]
	keys, _ := own["common-configs"].([]any)
	for _, k := range keys {
		if v, ok := g["Common"][fmt.Sprint(k)]; ok && own[fmt.Sprint(k)] == nil {
			add(fmt.Sprint(k), v)
		}
	}
	for key, value := range own {
		if key != "common-configs" && key != "ServiceArgs" {
			add(key, value)
		}
	}
	return out
}

// valueOf is the value of a flag; "" where it is not there or has none.
func valueOf(args []string, name string) string {
	if i := slices.Index(args, "--"+name); i >= 0 && i+1 < len(args) {
		return args[i+1]
	}
	return ""
}

// complaints are what would not be one aggregated worker of the size that its GPUs say.
func (g graphConfig) complaints() []string {
	var out []string
	if g["PrefillWorker"] != nil {
		out = append(out, "a PrefillWorker is left")
	}
	args := g.args("VllmWorker")
	service, _ := g["VllmWorker"]["ServiceArgs"].(map[string]any)
	resources, _ := service["resources"].(map[string]any)
	if fmt.Sprint(service["workers"]) != "1" || fmt.Sprint(resources["gpu"]) != valueOf(args, "tensor-parallel-size") {
		out = append(out, fmt.Sprintf("%v for workers of TP %s", service, valueOf(args, "tensor-parallel-size")))
	}
	for _, f := range []string{"--remote-prefill", "--conditional-disagg"} {
		if slices.Contains(args, f) {
			out = append(out, f)
		}
	}
	if pp := valueOf(args, "pipeline-parallel-size"); pp != "" && pp != "1" {
		out = append(out, "PP "+pp)
	}
	if r := valueOf(g.args("Processor"), "router"); r != "round-robin" {
		out = append(out, "router "+r)
	}
	if valueOf(args, "router") == "kv" {
		out = append(out, "the worker would turn prefix caching on")
	}
	if g["Planner"]["no-operation"] != true {
		out = append(out, "the planner plans")
	}
	return out
}

// dynamoStandIn stands in for `dynamo serve graphs.agg:Frontend -f FILE`: it reads
// FILE as Dynamo does, refuses what is no aggregated graph with one worker, starts
// the embedded engine as that worker, in a session of its own, and a frontend that
// lists the model before the worker is there and serves nothing else itself.
func dynamoStandIn() {
	if err := standInForDynamo(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(65)
	}
}

func standInForDynamo(args []string) error {
	if len(args) != 4 || strings.Join(args[:3], " ") != "serve graphs.agg:Frontend -f" {
		return fmt.Errorf("asked %q", args)
	}
	if _, err := os.Stat("graphs/agg.py"); err != nil {
		return fmt.Errorf("no module named graphs: %w", err)
	}
	text, err := os.ReadFile(args[3])
	if err != nil {
		return err
	}
	var g graphConfig
	if err := yaml.Unmarshal(text, &g); err != nil {
		return err
	}
	if wrong := g.complaints(); len(wrong) > 0 {
		return errors.New(strings.Join(wrong, "; "))
	}
	worker, err := g.startWorker()
	if err != nil {
		return err
	}
	return g.serve(worker)
}

// What the stand-in's worker says of its KV cache, in tokens and as it is told.
const (
	graphKVTokens = 32768
	graphKVLine   = "\x1b[2m2025-06-12T10:31:52.481Z\x1b[0m \x1b[32m INFO\x1b[0m executor_base.initialize_cache: Maximum concurrency for 8192 tokens per request: 4.00x\x1b[0m"
)

// startWorker runs the embedded engine with the worker's flags, a while after the frontend.
func (g graphConfig) startWorker() (*url.URL, error) {
	held, err := net.Listen("tcp", "127.0.0.1:0") // until the worker starts, so that no other test takes it
	if err != nil {
		return nil, err
	}
	at := held.Addr().String()
	_, port, _ := strings.Cut(at, ":")
	args := g.args("VllmWorker")
	argv := []string{
		"engine", "serve", "--model", valueOf(args, "model"), "--gpu", "l40s", "--tp", valueOf(args, "tensor-parallel-size"), "--port", port,
		"--kv-blocks", strconv.Itoa(graphKVTokens / 16), "--max-model-len", valueOf(args, "max-model-len"),
	}
	if slices.Contains(args, "--enable-prefix-caching") {
		argv = append(argv, "--enable-prefix-caching")
	}
	cmd := exec.CommandContext(context.Background(), "plimsoll", argv...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	go func() {
		time.Sleep(300 * time.Millisecond) // the weights are loaded
		fmt.Println(graphKVLine)
		if err := errors.Join(held.Close(), cmd.Run()); err != nil {
			fmt.Println(err)
		}
	}()
	return url.Parse("http://" + at)
}

// serve is the frontend.
func (g graphConfig) serve(worker *url.URL) error {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/models", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprintf(w, `{"object":"list","data":[{"id":%q,"object":"object","created":1,"owned_by":"nvidia"}]}`, g["Frontend"]["served_model_name"])
	})
	mux.Handle("POST /v1/chat/completions", forward(worker.String())) // 502 while there is no worker
	s := &http.Server{Addr: fmt.Sprint("127.0.0.1:", g["Frontend"]["port"]), Handler: mux, ReadHeaderTimeout: time.Minute}
	return s.ListenAndServe()
}

// logs are those of a run's engines.
func logs(t *testing.T, dir string) string {
	t.Helper()
	files, _ := filepath.Glob(filepath.Join(dir, "engines", "*")) // none: an empty text
	var b strings.Builder
	for _, f := range files {
		text, err := os.ReadFile(f)
		fmt.Fprintf(&b, "== %s %v\n%s\n", filepath.Base(f), err, text)
	}
	return b.String()
}
