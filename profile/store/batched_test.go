package store

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"plimsoll/engine/enginetest"
	"plimsoll/profile"
)

func TestBatchedRoundTrip(t *testing.T) {
	dir := t.TempDir()
	enginetest.Check(t, func(t *rapid.T) {
		b := profile.BatchedPrefill{
			MaxBatchedTokens: rapid.IntRange(1, 1<<40).Draw(t, "budget"), Provenance: profile.Provenance(rapid.IntRange(0, 3).Draw(t, "provenance")),
		}
		isl := 0
		for range rapid.IntRange(1, 6).Draw(t, "samples") {
			isl += rapid.IntRange(1, 10_000).Draw(t, "isl")
			b.Samples = append(b.Samples, profile.BatchedSample{
				ISL: isl, K: rapid.IntRange(2, 5000).Draw(t, "k"), TTFT: time.Duration(rapid.Int64Range(1, int64(maxLatency)).Draw(t, "ttft")),
				ThroughputPerGPU: rapid.Float64Range(1e-6, 1e9).Draw(t, "rate"),
			})
		}
		if err := WriteBatched(dir, b); err != nil {
			t.Fatal(err)
		}
		if got, err := LoadBatched(dir); err != nil || !reflect.DeepEqual(got, b) {
			t.Fatalf("%+v, %v, wrote %+v", got, err, b)
		}
	})
	// One without samples takes away what an earlier run left.
	if err := WriteBatched(dir, profile.BatchedPrefill{}); err != nil {
		t.Fatal(err)
	}
	if _, err := LoadBatched(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("still there: %v", err)
	}
	if err := WriteBatched(dir, profile.BatchedPrefill{}); err != nil {
		t.Errorf("nothing to remove: %v", err)
	}
	if err := WriteBatched(dir, profile.BatchedPrefill{Samples: []profile.BatchedSample{{ISL: 1}}}); err == nil || !strings.Contains(err.Error(), "batched prefill: ") {
		t.Errorf("written: %v", err)
	}
}

const batchedText = `{"schema":1,"provenance":"measured","max_num_batched_tokens":8192,"isl":[100,500],"k":[81,16],"ttft_ms":[157.5,156],"throughput_per_gpu":[51435,51114]}`

func TestRefusesBadBatched(t *testing.T) {
	file := filepath.Join(t.TempDir(), BatchedFile)
	for _, tc := range []struct{ from, to, want string }{
		{"", "", ""},
		{`"schema":1`, `"schema":2`, "schema 2, this version reads 1"},
		{`"schema":1,`, ``, `no "schema" key`},
		{`"k":[81,16]`, `"k":[81]`, "k has 1 values where isl has 2"},
		{`"ttft_ms":[157.5,156],`, ``, "ttft_ms has 0 values where isl has 2"},
		{`[100,500]`, `[500,100]`, "isl[1] is 100 after 500: want rising"},
		{`[81,16]`, `[81,1]`, "k[1] is 1: want 2"},
		{`157.5`, `-1`, "ttft_ms[0] is 0s"},
		{`157.5`, `1e300`, "ttft_ms[0] is 48h0m0s"},
		{`51435`, `0`, "throughput_per_gpu[0] is 0"},
		{`8192`, `0`, "max_num_batched_tokens is 0"},
		{`measured`, `guessed`, "guessed"},
		{`"isl"`, `"ils"`, `unknown field "ils"`},
		{`}`, `}{}`, "invalid character"},
	} {
		text := strings.Replace(batchedText, tc.from, tc.to, 1)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := LoadBatched(filepath.Dir(file))
		switch {
		case tc.want == "" && err != nil:
			t.Error(err)
		case tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), file)):
			t.Errorf("%s: error %v, want %q", text, err, tc.want)
		}
	}
}

func FuzzBatched(f *testing.F) {
	f.Add([]byte(batchedText))
	f.Add([]byte(`{"schema":1,"isl":[1],"k":[2],"ttft_ms":[1e999]}`))
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, raw []byte) {
		b, err := parseBatched(raw)
		if err != nil {
			return
		}
		if err := WriteBatched(dir, b); err != nil {
			t.Fatalf("read but not writable: %v", err)
		}
		if again, err := LoadBatched(dir); err != nil || !reflect.DeepEqual(again, b) {
			t.Fatalf("%+v, %v, wrote %+v", again, err, b)
		}
	})
}
