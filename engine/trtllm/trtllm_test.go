package trtllm_test

import (
	"errors"
	"os"
	"strings"
	"testing"

	"plimsoll/engine"
	"plimsoll/engine/kvlog"
	"plimsoll/engine/trtllm"
)

func dp(n int) engine.Config { return engine.Config{Parallelism: engine.Parallelism{TP: 1, DP: n}} }

func TestKVTokens(t *testing.T) {
	for _, c := range []struct {
		file     string
		dp, want int
	}{
		{"2025-02.log", 1, 220480},
		{"2025-12.log", 1, 3958272},
		{"1.0-estimate.log", 1, 229984},
		{"1.0-estimate.log", 4, 4 * 229984},
		{"README.md", 1, 0},
	} {
		f, err := os.Open("testdata/" + c.file)
		if err != nil {
			t.Fatal(err)
		}
		got, err := trtllm.Server{}.KVTokens(dp(c.dp), f)
		if got != c.want || (c.want == 0) != errors.Is(err, kvlog.ErrSilent) {
			t.Errorf("%s: got %d, %v, want %d", c.file, got, err, c.want)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// Upstream took the first line, which is of a trial run with little memory, and
// sized everything by it.
func TestKVTokensLastLineHolds_Dynamo6905(t *testing.T) {
	log := "[MemUsageChange] Allocated 0.53 GiB for max tokens in paged KV cache (8,224).\n" +
		"[MemUsageChange] Allocated 110.17 GiB for max tokens in paged KV cache (1,650,400).\n"
	if got, err := (trtllm.Server{}).KVTokens(dp(1), strings.NewReader(log)); err != nil || got != 1650400 {
		t.Errorf("got %d, %v", got, err)
	}
}

// Where no line states it, upstream's profiler goes on with 100000 tokens
// (config_modifiers/trtllm.py); here it is not known.
func TestKVTokensOfSilentLog_DynamoAssumes100000(t *testing.T) {
	got, err := trtllm.Server{}.KVTokens(dp(1), strings.NewReader("[TRT-LLM] [I] get signal from executor worker\n"))
	if got != 0 || !errors.Is(err, kvlog.ErrSilent) {
		t.Errorf("got %d, %v", got, err)
	}
}

// Prefill and decode have files of their own, and nothing of one is in the other.
func TestConfigOfItsOwn(t *testing.T) {
	at := engine.Launch{Port: 1, LogPath: "engines/decode_tp1.log"}
	decode, err := trtllm.Server{}.Spec(engine.Config{Model: "m", PrefixCaching: true, MemoryFraction: 0.8}, at)
	if err != nil || len(decode.Files) != 1 || decode.Files[0].Path != "engines/decode_tp1.yaml" {
		t.Fatalf("%v: %+v", err, decode.Files)
	}
	at.LogPath, at.Dir = "", "/work"
	prefill, err := trtllm.Server{}.Spec(engine.Config{Model: "m"}, at)
	if err != nil || len(prefill.Files) != 1 || prefill.Files[0].Path != "/work/trtllm.yaml" || strings.Contains(prefill.Files[0].Text, "fraction") {
		t.Fatalf("%v: %+v", err, prefill.Files)
	}
	if _, err := (trtllm.Server{}).Spec(engine.Config{Model: "m"}, engine.Launch{Port: 1}); err == nil {
		t.Error("a launch without any folder has a file")
	}
}

func FuzzKVTokens(f *testing.F) {
	f.Add("max tokens in paged KV cache (5)", 2)
	f.Fuzz(func(t *testing.T, log string, n int) {
		got, err := trtllm.Server{}.KVTokens(dp(n%100), strings.NewReader(log))
		if (err == nil) != (got > 0) {
			t.Fatalf("%d tokens, %v", got, err)
		}
	})
}
