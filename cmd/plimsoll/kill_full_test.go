//go:build full

package main

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"plimsoll/profile/store"
)

// Killed in the middle of each stage, the program leaves no process, a journal
// that can be read, and a folder that --resume completes to the same points
// and the same picks as a run that nothing disturbed.
func TestKilledInEachStage(t *testing.T) {
	t.Parallel()
	whole := filepath.Join(t.TempDir(), "results")
	executed(t, exitDone, small(whole)...)
	want := slices.Sorted(slices.Values(pointIDs(t, whole)))
	picked, err := store.ReadRecommendation(whole)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name, stage string
		n           int
	}{
		{"decode sweep", "sweep/decode/", 2},
		{"before the first point", "", 0},
		{"prefill sweep", "sweep/prefill/", 1},
		{"prefill surface", "surface/prefill/", 1},
		{"decode surface", "surface/decode/", 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "results")
			p := interrupt(t, dir, tt.stage, tt.n, syscall.SIGKILL, false)
			if code := p.wait(t); code != -1 {
				t.Fatalf("it had ended by itself with %d\n%s", code, &p.errout)
			}
			p.noOrphans(t)
			known := pointIDs(t, dir)
			if len(known) >= len(want) {
				t.Fatalf("all %d points were known: not the middle of a stage", len(known))
			}
			if _, err := os.Stat(filepath.Join(dir, store.RecommendationFile)); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("an unfinished run recommends something: %v", err)
			}
			again := []string{}
			if _, err := os.Stat(filepath.Join(dir, store.JournalFile)); err == nil {
				again = append(again, "--resume") // else there is nothing to resume, and nothing in the way
			}
			r := executed(t, exitDone, small(dir, again...)...)
			r.noOrphans(t)
			if ids := pointIDs(t, dir); !slices.Equal(ids[:len(known)], known) {
				t.Errorf("what was known, %v, is now %v", known, ids)
			}
			checkCompleted(t, dir, want, picked)
		})
	}
}

func checkCompleted(t *testing.T, dir string, want []string, picked store.Recommendation) {
	t.Helper()
	// What the search does next hangs on what it measured, and with it what it
	// leaves out: only the beginning is the same in every run.
	first := want[slices.IndexFunc(want, func(id string) bool { return strings.HasPrefix(id, "sweep/prefill/") })]
	if ids := pointIDs(t, dir); !slices.Contains(ids, first) || len(slices.Compact(slices.Sorted(slices.Values(ids)))) != len(ids) {
		t.Errorf("points\n%v\nof the undisturbed run\n%v", ids, want)
	}
	rec, err := store.ReadRecommendation(dir)
	if err != nil {
		t.Fatal(err)
	}
	// Under the race detector latencies are the processor's, not the engine's.
	if !raceDetector && (rec.Prefill.TP != picked.Prefill.TP || rec.Decode.TP != picked.Decode.TP || !rec.Feasible) {
		t.Errorf("picked TP %d and %d, the undisturbed run %d and %d", rec.Prefill.TP, rec.Decode.TP, picked.Prefill.TP, picked.Decode.TP)
	}
	checkFiles(t, dir, rec)
}

// A service manager's stop is as Ctrl-C.
func TestTerminated(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "results")
	checkInterrupted(t, interrupt(t, dir, "sweep/decode/", 2, syscall.SIGTERM, false), dir)
}
