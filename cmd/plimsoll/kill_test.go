package main

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"plimsoll/engine/enginetest"
	"plimsoll/profile/store"
)

// reached reports whether a journal holds n points whose ids begin so.
func reached(t *testing.T, dir, prefix string, n int) bool {
	t.Helper()
	for _, id := range pointIDs(t, dir) {
		if strings.HasPrefix(id, prefix) {
			n--
		}
	}
	return n <= 0
}

// interrupt starts a small profile into dir and signals it, by its process
// group if asked, as soon as n points of a stage are known.
func interrupt(t *testing.T, dir, stage string, n int, s syscall.Signal, group bool, more ...string) *program {
	t.Helper()
	p := start(t, nil, small(dir, more...)...)
	if n > 0 {
		enginetest.Eventually(t, "an engine", func() bool { return len(p.family(t)) > 0 })
	}
	enginetest.Eventually(t, "stage "+stage, func() bool { return reached(t, dir, stage, n) })
	if group {
		if err := syscall.Kill(-p.cmd.Process.Pid, s); err != nil {
			t.Fatal(err)
		}
	} else {
		p.signal(t, s)
	}
	return p
}

// Stopped by Ctrl-C, which a terminal sends to the whole process group, the program
// stops the engines, keeps what was measured and says how to go on. Killed after that,
// it leaves no process, a journal that can be read and no recommendation, and --resume
// completes it.
func TestInterruptedKilledAndResumed(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "results")
	p := interrupt(t, dir, "sweep/decode/", 2, syscall.SIGINT, true)
	checkInterrupted(t, p, dir)
	stopped := pointIDs(t, dir)

	p = interrupt(t, dir, "surface/decode/", 1, syscall.SIGKILL, false, "--resume")
	if code := p.wait(t); code != -1 {
		t.Fatalf("it had ended by itself with %d\n%s", code, &p.errout)
	}
	p.noOrphans(t)
	known := pointIDs(t, dir)
	if !slices.Equal(known[:len(stopped)], stopped) {
		t.Errorf("what was known, %v, is now %v", stopped, known)
	}
	if _, err := os.Stat(filepath.Join(dir, store.RecommendationFile)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("an unfinished run recommends something: %v", err)
	}

	executed(t, exitDone, small(dir, "--resume", "--quiet")...).noOrphans(t)
	if ids := pointIDs(t, dir); !slices.Equal(ids[:len(known)], known) || len(slices.Compact(slices.Sorted(slices.Values(ids)))) != len(ids) {
		t.Errorf("what was known, %v, is now %v", known, ids)
	}
	rec, err := store.ReadRecommendation(dir)
	if err != nil {
		t.Fatal(err)
	}
	checkFiles(t, dir, rec)
}

func checkInterrupted(t *testing.T, p *program, dir string) {
	t.Helper()
	if code := p.wait(t); code != exitInterrupted {
		t.Errorf("exit code %d, want %d\n%s", code, exitInterrupted, &p.errout)
	}
	p.noOrphans(t)
	stderr := p.errout.String()
	if !strings.Contains(stderr, "plimsoll: error: interrupted: stopped after ") ||
		!strings.HasSuffix(stderr, "plimsoll: hint: the same command with --resume continues from there\n") {
		t.Errorf("stderr:\n%s", stderr)
	}
	if p.out.String() != "" {
		t.Errorf("stdout:\n%s", &p.out)
	}
	run, err := store.ReadRun(dir)
	if err != nil || run.Complete {
		t.Errorf("run.json: complete %v, %v", run.Complete, err)
	}
	if n := len(pointIDs(t, dir)); n < 3 || n != len(run.Points) { // a prefill's, and two of decode
		t.Errorf("%d points in the journal, %d in run.json", n, len(run.Points))
	}
}
