//go:build full

package main

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"plimsoll/capacity"
)

// For each workload of testdata the plan takes at most one engine more than the best chunk,
// where every chunk is sized by itself.
func TestPlansAreNearTheBestOfAllChunks(t *testing.T) {
	files, err := filepath.Glob("../../testdata/workloads/*.yaml")
	if err != nil || len(files) < 8 {
		t.Fatalf("%d workloads, %v", len(files), err)
	}
	type plan struct {
		Layout  string `json:"layout"`
		Engines int    `json:"groups"`
		Pools   []struct {
			Engine string `json:"engine"`
		} `json:"pools"`
		Gap float64 `json:"estimated_gap_p99_ms"`
	}
	first := func(t *testing.T, file string, more ...string) (plan, bool) {
		t.Helper()
		var out struct{ Plans []plan }
		args := append([]string{"plimsoll", "capacity", "plan", "--workload", file, "--strategy", "aggregated", "--format", "json"}, more...)
		var printed, said bytes.Buffer
		code := run(t.Context(), args, streams{strings.NewReader(""), &printed, &said})
		if err := json.Unmarshal(printed.Bytes(), &out); err != nil || (code == exitDone) != (len(out.Plans) > 0) {
			t.Fatalf("%v: exit code %d, %d plans, %v: %s", args, code, len(out.Plans), err, &said)
		}
		if len(out.Plans) == 0 {
			return plan{}, false
		}
		return out.Plans[0], true
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			got, holds := first(t, file)
			if !holds {
				t.Fatal("no plan holds")
			}
			layout, least := got.Pools[0].Engine, got.Engines
			for _, tokens := range capacity.Chunks() {
				if one, holds := first(t, file, "--parallelism", layout, "--max-num-batched-tokens", strconv.Itoa(tokens)); holds {
					t.Logf("%s at %d: %d engines, p99 gap %.1f ms", layout, tokens, one.Engines, one.Gap)
					least = min(least, one.Engines)
				}
			}
			if got.Engines > least+1 {
				t.Errorf("%s takes %d engines, the best of all chunks %d", got.Layout, got.Engines, least)
			}
			t.Logf("%s: %d engines, p99 gap %.1f ms; best of all %d", got.Layout, got.Engines, got.Gap, least)
		})
	}
}
