package command_test

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"plimsoll/engine"
	"plimsoll/engine/command"
	"plimsoll/engine/kvlog"
	"plimsoll/engine/llamacpp"
	"plimsoll/engine/sglang"
	"plimsoll/engine/trtllm"
	"plimsoll/engine/vllm"
)

// reader is what reads an engine's log.
type reader interface {
	KVTokens(cfg engine.Config, log io.Reader) (int, error)
}

func readers() map[string]reader {
	return map[string]reader{"vllm": vllm.Server{}, "sglang": sglang.Server{}, "trtllm": trtllm.Server{}, "llamacpp": llamacpp.Server{}}
}

func dp(n int) engine.Config { return engine.Config{Parallelism: engine.Parallelism{TP: 1, DP: n}} }

// What each engine's versions print, read by the engine of that name, and by a
// template without pattern, which knows all of them.
func TestLogsOfEngines(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range []struct {
		engine, file string
		dp, want     int
	}{
		{"vllm", "0.7.3.log", 1, 2042019}, // 2048 × 997.08
		{"vllm", "0.8.log", 1, 2042016},
		{"vllm", "0.9-workers.log", 1, 436144},
		{"vllm", "pipeline-workers.log", 1, 53040},
		{"vllm", "pipeline-workers-dp2.log", 2, 53040 + 60000},
		{"vllm", "cpu.log", 1, 131072},
		{"vllm", "0.11.log", 1, 436144},
		{"vllm", "0.11.log", 3, 3 * 436144},
		{"vllm", "0.11-dp2.log", 2, 866144},
		{"vllm", "0.19-hybrid.log", 1, 1082654},
		{"vllm", "2026-06.log", 1, 620944},
		{"vllm", "2026-09-dp2.log", 2, 128000},
		{"sglang", "2025-03.log", 1, 442750},
		{"sglang", "sglang-0.5.log", 1, 442331},
		{"sglang", "2026-06.log", 1, 2086558},
		{"sglang", "2026-09-draft.log", 1, 454112},
		{"sglang", "dp-attention.log", 2, 200064},
		{"sglang", "dp-attention-quiet.log", 2, 200000},
		{"sglang", "pipeline.log", 1, 210000},
		{"trtllm", "2025-02.log", 1, 220480},
		{"trtllm", "2025-12.log", 1, 3958272},
		{"trtllm", "1.0-estimate.log", 1, 229984},
		{"trtllm", "1.0-estimate.log", 4, 4 * 229984},
		{"llamacpp", "slots.log", 1, 32768},
		{"llamacpp", "unified.log", 1, 8192},
		{"llamacpp", "2025-04.log", 1, 16384},
		{"vllm", "README.md", 1, 0},
		{"sglang", "README.md", 1, 0},
		{"trtllm", "README.md", 1, 0},
		{"llamacpp", "README.md", 1, 0},
	} {
		path := filepath.Join("..", c.engine, "testdata", c.file)
		seen[path] = true
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		both := map[string]reader{c.engine: readers()[c.engine]}
		if c.file != "0.19-hybrid.log" { // only vLLM's own reader weighs its two lines
			both["command"] = command.Template{}
		}
		for name, r := range both {
			got, err := r.KVTokens(dp(c.dp), strings.NewReader(string(text)))
			if got != c.want || (c.want == 0) != errors.Is(err, kvlog.ErrSilent) {
				t.Errorf("%s by %s: got %d, %v, want %d", path, name, got, err, c.want)
			}
		}
	}
	for name := range readers() {
		files, err := filepath.Glob(filepath.Join("..", name, "testdata", "*.log"))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			if !seen[f] {
				t.Errorf("%s is read by no case", f)
			}
		}
	}
}

func FuzzLogsOfEngines(f *testing.F) {
	f.Add("(EngineCore_DP1 pid=1) GPU KV cache size: 436,144 tokens, Maximum concurrency for 4,096 tokens per request: 2.5x", 2)
	f.Add("[DP1 TP0] max_total_num_tokens=5\nKV Cache is allocated. dtype: a, #tokens: 7", 2)
	f.Add("max tokens in paged KV cache (5)\nn_slots = 8, n_ctx_slot = 4096, kv_unified = 'false'", 1)
	f.Fuzz(func(t *testing.T, log string, n int) {
		for name, r := range readers() {
			got, err := r.KVTokens(dp(n%100), strings.NewReader(log))
			if (err == nil) != (got > 0) {
				t.Fatalf("%s: %d tokens, %v", name, got, err)
			}
		}
	})
}
