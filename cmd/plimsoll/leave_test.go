package main

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"plimsoll/profile"
	"plimsoll/profile/store"
	"plimsoll/sweep"
)

// A folder never has a recommendation that is not of its run.json: a run that is
// resumed and stopped leaves both as they were, and one that ends in an error leaves
// its run.json alone. The recommendation is the last thing that is written.
func TestRecommendationIsOfItsRun(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "results")
	ran(t, exitDone, estimated(dir, "--verify", "never", "--quiet")...)
	whole, _ := results(t, dir)
	wroteLast(t, dir)

	forgetLast(t, filepath.Join(dir, store.JournalFile))
	ctx, stop := context.WithCancel(t.Context())
	stop()
	args := append([]string{"plimsoll"}, estimated(dir, "--verify", "never", "--quiet", "--resume")...)
	if code := run(ctx, args, streams{strings.NewReader(""), io.Discard, io.Discard}); code != exitInterrupted {
		t.Fatalf("exit code %d of a run that was stopped before its next point", code)
	}
	if got, _ := results(t, dir); !got.Complete || len(got.Points) != len(whole.Points) {
		t.Errorf("stopped: complete %v, %d of %d points", got.Complete, len(got.Points), len(whole.Points))
	}

	d, err := store.Resume(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = d.Close() }() // only read
	if err := (&job{dir: d}).leave(sweep.Result{Points: whole.Points[:1], Warnings: []profile.Warning{{Code: "void"}}}, false); err != nil {
		t.Fatal(err)
	}
	left, err := store.ReadRun(dir)
	if err != nil || left.Complete || len(left.Points) != 1 || len(left.Warnings) != 1 || left.Warnings[0].Code != "void" {
		t.Errorf("failed: complete %v, %d points, warnings %v, %v", left.Complete, len(left.Points), left.Warnings, err)
	}
	if _, err := store.ReadRecommendation(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("failed: it recommends what is not of its run: %v", err)
	}
}

// A damaged line of a journal keeps nobody from going on: its point is measured again.
func TestDamagedJournal(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "results")
	args := estimated(dir, "--verify", "never", "--quiet", "--itl", "20", "--gpu-count", "1")
	ran(t, exitDone, args...)
	journal, want := filepath.Join(dir, store.JournalFile), slices.Sorted(slices.Values(pointIDs(t, dir)))
	lines := strings.SplitAfter(readFile(t, journal), "\n")
	n := slices.IndexFunc(lines, func(l string) bool { return strings.Contains(l, `"type":"point"`) })
	lines[n] = lines[n][:30] + "\n"
	if err := os.WriteFile(journal, []byte(strings.Join(lines, "")), 0o600); err != nil {
		t.Fatal(err)
	}
	p := ran(t, exitDone, append(args, "--resume")...)
	if said := "plimsoll: warning: " + journal + ":" + itoa(n+1) + " is damaged and will be measured again\n"; !strings.Contains(p.errout.String(), said) {
		t.Errorf("stderr lacks %q:\n%s", said, &p.errout)
	}
	if got := slices.Sorted(slices.Values(pointIDs(t, dir))); !slices.Equal(got, want) {
		t.Errorf("points %v, want %v", got, want)
	}
}

// wroteLast wants no picture, surface or run.json that is younger than the
// recommendation.
func wroteLast(t *testing.T, dir string) {
	t.Helper()
	at := func(name string) time.Time {
		info, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		return info.ModTime()
	}
	rec := at(filepath.Join(dir, store.RecommendationFile))
	names := []string{store.RunFile, reportFileName, "prefill_performance.png", "decode_throughput_interpolation.svg"}
	for _, name := range names {
		if at(filepath.Join(dir, name)).After(rec) {
			t.Errorf("%s was written after the recommendation", name)
		}
	}
}

// forgetLast takes the last line out of a journal, so that a run has a point to go on
// with.
func forgetLast(t *testing.T, journal string) {
	t.Helper()
	lines := strings.SplitAfter(strings.TrimSuffix(readFile(t, journal), "\n"), "\n")
	if err := os.WriteFile(journal, []byte(strings.Join(lines[:len(lines)-1], "")), 0o600); err != nil {
		t.Fatal(err)
	}
}
