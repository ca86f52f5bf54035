package sglang_test

import (
	"errors"
	"os"
	"strings"
	"testing"

	"plimsoll/engine"
	"plimsoll/engine/kvlog"
	"plimsoll/engine/sglang"
)

func dp(n int) engine.Config { return engine.Config{Parallelism: engine.Parallelism{TP: 1, DP: n}} }

func TestKVTokens(t *testing.T) {
	for _, c := range []struct {
		file     string
		dp, want int
	}{
		{"2025-03.log", 1, 442750},
		{"sglang-0.5.log", 1, 442331},
		{"2026-06.log", 1, 2086558},
		{"2026-09-draft.log", 1, 454112},
		{"dp-attention.log", 2, 200064},
		{"dp-attention-quiet.log", 2, 200000},
		{"README.md", 1, 0},
	} {
		f, err := os.Open("testdata/" + c.file)
		if err != nil {
			t.Fatal(err)
		}
		got, err := sglang.Server{}.KVTokens(dp(c.dp), f)
		if got != c.want || (c.want == 0) != errors.Is(err, kvlog.ErrSilent) {
			t.Errorf("%s: got %d, %v, want %d", c.file, got, err, c.want)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func FuzzKVTokens(f *testing.F) {
	f.Add("[DP1 TP0] max_total_num_tokens=5\nKV Cache is allocated. dtype: a, #tokens: 7", 2)
	f.Fuzz(func(t *testing.T, log string, n int) {
		got, err := sglang.Server{}.KVTokens(dp(n%100), strings.NewReader(log))
		if (err == nil) != (got > 0) {
			t.Fatalf("%d tokens, %v", got, err)
		}
	})
}
