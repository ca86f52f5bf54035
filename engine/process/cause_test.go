package process

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"plimsoll/engine/redact"
)

// The reason why an engine did not start, and what is left of its last lines.
func TestCauseOfLogs(t *testing.T) {
	for _, c := range []struct{ log, cause, tail string }{
		{"vllm-no-weights", "RuntimeError: Cannot find any model weights with `/models/m`", ""},
		{
			"vllm-unknown-model",
			"pydantic_core._pydantic_core.ValidationError: 1 validation error for ModelConfig Value error, The checkpoint you are trying to load has model type `llamax` but Transformers does not recognize this architecture. …",
			"(APIServer pid=18410) ERROR 11-28 11:31:25 [repo_utils.py:124] You can update …|You can update Transformers with the command `pip install --upgrade transformers`. …",
		},
		{
			"vllm-context",
			"ValueError: To serve at least one request with the model's max seq len (900000), (6.87 GiB KV cache is needed, which is larger than the available KV cache memory (1.0 GiB). Based on the available memory, the estimated maximum model length is 130944. …",
			"/lib/python3.11/multiprocessing/resource_tracker.py:254: UserWarning: …|warnings.warn(…",
		},
		{"vllm-port", "OSError: [Errno 98] Address already in use", "Triton is installed, …|(APIServer pid=18454) INFO …"},
		{
			"vllm-unknown-flag", "vllm: error: unrecognized arguments: --no-such-flag",
			"Triton is installed, …|usage: vllm [-h] [-v]|{chat,complete,serve,…|...",
		},
		{
			"vllm-memory",
			"ValueError: Available memory on node 0 (8.52/14.09 GiB) on kv cache allocation is less than requested memory for kv (10000.0 GiB). Decrease --kv-cache-memory-bytes, VLLM_CPU_KVCACHE_SPACE, or reduce CPU memory used by other processes.",
			"(EngineCore pid=20133) INFO …|(EngineCore pid=20133) INFO …",
		},
		{"sglang-memory", "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static.", "[2026-03-03 03:53:34 TP0] …|[2026-03-03 03:53:36 TP0] …|[2026-03-03 03:53:36 TP1] …"},
		{"trtllm-memory", "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 40.00 MiB. GPU 0 has a total capacity of 22.07 GiB of which 20.62 MiB is free.", ""},
		{
			"llamacpp-architecture", "llama_model_load: error loading model: error loading model architecture: unknown model architecture: 'pangu-embedded'",
			"load_backend: …|main: …|srv …|llama_model_loader: …|llama_model_load_from_file_impl: …|…|…|…|main: exiting due to model loading error",
		},
		{
			"llamacpp-levels", "llama_model_load: error loading model: error loading model architecture: unknown model architecture: 'pangu-embedded'",
			"…|…|…|0.00.120.132 E llama_model_load_from_file_impl: failed to load model|…|…",
		},
	} {
		t.Run(c.log, func(t *testing.T) {
			path := filepath.Join("testdata", c.log+".log")
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			got := cause(strings.NewReader(string(text)), redact.Values{})
			if !begins(got, c.cause) {
				t.Errorf("cause\n%s\nwant\n%s", got, c.cause)
			}
			lines, want := lastLines(string(text), errorLines, got, redact.Values{}), strings.Split(c.tail, "|")
			if c.tail == "" {
				want = nil
			}
			if len(lines) != len(want) {
				t.Fatalf("tail of %d lines, want %d:\n%s", len(lines), len(want), strings.Join(lines, "\n"))
			}
			for i := range want {
				if !begins(lines[i], want[i]) {
					t.Errorf("line %q, want %q", lines[i], want[i])
				}
			}
		})
	}
}

// begins reports whether s equals want, or begins with it if want ends in an ellipsis.
func begins(s, want string) bool {
	beginning, cut := strings.CutSuffix(want, "…")
	return s == want || cut && strings.HasPrefix(s, beginning)
}

func TestCause(t *testing.T) {
	const frames = "  File \"x.py\", line 1, in f\n    f()\n    ^^^\n"
	traceback := func(then string) string { return "Traceback (most recent call last):\n" + frames + then + "\n" }
	for _, c := range []struct{ name, log, want string }{
		{"nothing", "loading\nready\n", ""},
		{"empty", "", ""},
		{"warnings only", "(APIServer pid=1) WARNING 11-28 11:30:18 [a.py:1] limits cause errors like `OSError: too many`\n", ""},
		{"llama-server's flag", "error: invalid argument: --x\n", "error: invalid argument: --x"},
		{"uvicorn", "INFO:     Started server\nERROR:    [Errno 98] error while attempting to bind on address ('0.0.0.0', 8000): address already in use\n", "[Errno 98] error while attempting to bind on address ('0.0.0.0', 8000): address already in use"},
		{"logging", "2026-11-28 11:30:37,123 - engine.load - ERROR - no such tensor\n", "no such tensor"},
		{"CUDA", "ggml_backend_cuda_buffer_type_alloc_buffer: allocating 9000.00 MiB on device 0: cudaMalloc failed: out of memory\n", "ggml_backend_cuda_buffer_type_alloc_buffer: allocating 9000.00 MiB on device 0: cudaMalloc failed: out of memory"},
		{"no colon", traceback("AssertionError"), "AssertionError"},
		{"torch's ranks", "[rank1]: Traceback (most recent call last):\n[rank1]:   File \"x.py\", line 1, in f\n[rank0]: something else\n[rank1]: ValueError: odd\n", "ValueError: odd"},
		{"a traceback beats an earlier error", "(A pid=1) ERROR 11-28 11:30:18 [fa.py:57] Cannot use FA version 3\n" + traceback("ValueError: odd"), "ValueError: odd"},
		{"the first traceback", traceback("ValueError: odd") + traceback("KeyError: 'later'"), "ValueError: odd"},
		{"one that points elsewhere", traceback("RuntimeError: Engine core initialization failed. See root cause above.") + "E1 error: none\nerror: no disk\n", "error: no disk"},
		{"only one that points elsewhere", traceback("RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {'EngineCore': -9}"), "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {'EngineCore': -9}"},
		{"a chain", traceback("OSError: no disk") + "\nThe above exception was the direct cause of the following exception:\n\n" + traceback("ValueError: cannot load m"), "OSError: no disk; then ValueError: cannot load m"},
		{"a chain that repeats itself", traceback("KeyError: 'llamax'") + "\nDuring handling of the above exception, another exception occurred:\n\n" + traceback("ValueError: no type `llamax`"), "ValueError: no type `llamax`"},
		{"one that ends nothing", "Exception ignored in: <function f>\n" + traceback("TypeError: none") + traceback("ValueError: odd"), "ValueError: odd"},
		{"a warning's", "(A pid=1) WARNING 11-28 11:30:18 [a.py:1] Traceback (most recent call last):\n(A pid=1) WARNING 11-28 11:30:18 [a.py:1]   File \"x.py\"\n(A pid=1) WARNING 11-28 11:30:18 [a.py:1] ImportError: none\n" + traceback("ValueError: odd"), "ValueError: odd"},
		{"colours", "\x1b[0;36m(A pid=1)\x1b[0;0m ERROR 11-28 11:30:18 [a.py:1] \x1b[31mno room\x1b[0m\n", "no room"},
		{"an incomplete traceback", "fatal: no GPU\nTraceback (most recent call last):\n" + frames, "fatal: no GPU"},
		{"a long line", "error: " + strings.Repeat("x", 100_000) + "\n", "error: " + strings.Repeat("x", lineRunes-7) + "…"},
		{"far up", "error: no disk\n" + strings.Repeat("INFO: waiting\n", 100_000), "error: no disk"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := cause(strings.NewReader(c.log), redact.Values{}); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// A credential that a long line's end cut in two was shown in part.
func TestDefectHalfACredentialWasShown(t *testing.T) {
	const secret = "Conf1dential-part-two"
	line := "error: " + strings.Repeat("x", lineRunes-20) + " " + secret
	known := redact.Of(secret)
	for _, got := range []string{cause(strings.NewReader(line), known), lastLines(line, 1, "", known)[0]} {
		if strings.Contains(got, "Conf1") {
			t.Errorf("shown: …%s", got[lineRunes-30:])
		}
	}
}

func FuzzCause(f *testing.F) {
	logs, _ := filepath.Glob("testdata/*.log")
	for _, path := range logs {
		text, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(text))
	}
	f.Fuzz(func(t *testing.T, text string) {
		got := cause(strings.NewReader(text), redact.Values{})
		if n := len([]rune(got)); n > 3*lineRunes || strings.ContainsRune(got, '\n') {
			t.Fatalf("%d runes: %q", n, got)
		}
		lastLines(text, errorLines, got, redact.Values{})
	})
}
