//go:build full

package main

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"plimsoll/profile"
	"plimsoll/profile/store"
)

// The time allowed is too short for anything, then for everything: what is known
// by then is kept, or even recommended, and a resumed run goes on.
func TestMaxTime(t *testing.T) {
	long(t)
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "results")
	p := ran(t, exitFailed, small(dir, "--max-time", "1ms")...)
	if want := "plimsoll: error: the time allowed was used up: "; !strings.Contains(p.errout.String(), want) {
		t.Errorf("stderr lacks %q:\n%s", want, &p.errout)
	}
	// How far a second gets depends on the machine: more of it each time, until
	// there is something to recommend, which is long before all is measured.
	var done bool
	for allowed := time.Second; !done && allowed < patience; allowed += allowed / 4 {
		p := start(t, nil, small(dir, "--resume", "--max-time", allowed.String())...)
		code := p.wait(t)
		if done = code == exitDone; !done && code != exitFailed {
			t.Fatalf("exit code %d within %v\n%s", code, allowed, &p.errout)
		}
	}
	run, rec := results(t, dir)
	partial := func(w profile.Warning) bool { return w.Code == "partial" }
	if run.Complete || !slices.ContainsFunc(rec.Warnings, partial) {
		t.Errorf("complete %v, warnings %v", run.Complete, rec.Warnings)
	}
	ran(t, exitDone, small(dir, "--resume", "--quiet")...)
	if run, err := store.ReadRun(dir); err != nil || !run.Complete {
		t.Errorf("after a run without a bound: complete %v, %v", run.Complete, err)
	}
}
