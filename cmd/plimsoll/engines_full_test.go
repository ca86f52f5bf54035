//go:build full

package main

import (
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// An engine that ignores TERM: the first Ctrl-C waits for it, the second does
// not, and even then nothing is left.
func TestSecondInterrupt(t *testing.T) {
	t.Parallel()
	needProc(t)
	dir := filepath.Join(t.TempDir(), "results")
	p := start(t, nil, commanded(dir, "badengine {{.TP}} {{.Port}} {{.PrefixCaching}} 1=stubborn", "--gpu-count", "1")...)
	poll(t, "the first point", func() bool { return len(pointIDs(t, dir)) > 0 })
	p.signal(t, syscall.SIGINT)
	time.Sleep(300 * time.Millisecond) // the first is being heeded
	if len(p.family(t)) == 0 {
		t.Error("the stubborn engine has ended at once")
	}
	began := time.Now()
	p.signal(t, syscall.SIGINT)
	if code := p.wait(t); code != exitInterrupted {
		t.Errorf("exit code %d", code)
	}
	if waited := time.Since(began); waited > 5*time.Second {
		t.Errorf("the second Ctrl-C took %v", waited)
	}
	p.noOrphans(t)
	if len(pointIDs(t, dir)) == 0 {
		t.Error("what was measured is lost")
	}
}
