package llamacpp_test

import (
	"errors"
	"os"
	"strings"
	"testing"

	"plimsoll/engine"
	"plimsoll/engine/kvlog"
	"plimsoll/engine/llamacpp"
)

func dp(n int) engine.Config { return engine.Config{Parallelism: engine.Parallelism{TP: 1, DP: n}} }

func TestKVTokens(t *testing.T) {
	for _, c := range []struct {
		file     string
		dp, want int
	}{
		{"slots.log", 1, 32768},
		{"unified.log", 1, 8192},
		{"2025-04.log", 1, 16384},
		{"README.md", 1, 0},
	} {
		f, err := os.Open("testdata/" + c.file)
		if err != nil {
			t.Fatal(err)
		}
		got, err := llamacpp.Server{}.KVTokens(dp(c.dp), f)
		if got != c.want || (c.want == 0) != errors.Is(err, kvlog.ErrSilent) {
			t.Errorf("%s: got %d, %v, want %d", c.file, got, err, c.want)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestModels(t *testing.T) {
	for name, want := range map[string]string{
		"m.gguf": "-m m.gguf --offline", "/models/m": "-m /models/m --offline", "./m": "-m ./m --offline", "m": "-m m --offline",
		"org/m-GGUF": "-hf org/m-GGUF", "org/m-GGUF:Q8_0": "-hf org/m-GGUF:Q8_0", "models/m.GGUF": "-m models/m.GGUF --offline",
	} {
		s, err := llamacpp.Server{}.Spec(engine.Config{Model: name}, engine.Launch{Port: 1})
		if got := strings.Join(s.Argv, " "); err != nil || !strings.HasPrefix(got, "llama-server "+want+" --host ") {
			t.Errorf("%s: %v: %q", name, err, got)
		}
	}
}

func FuzzKVTokens(f *testing.F) {
	f.Add("n_slots = 8, n_ctx_slot = 4096, kv_unified = 'false'", 2)
	f.Fuzz(func(t *testing.T, log string, n int) {
		got, err := llamacpp.Server{}.KVTokens(dp(n%100), strings.NewReader(log))
		if (err == nil) != (got > 0) {
			t.Fatalf("%d tokens, %v", got, err)
		}
	})
}
