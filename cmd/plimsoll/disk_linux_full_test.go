//go:build full && linux

package main

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// On a disk that is really full: a file system of 48 KiB, where this user may have
// one.
func TestProfileOnAFullDisk(t *testing.T) {
	disk := t.TempDir()
	if err := syscall.Mount("none", disk, "tmpfs", 0, "size=48k"); err != nil {
		t.Skipf("NOT RUN: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(disk, 0) })
	dir := filepath.Join(disk, "results")
	args := func(more ...string) []string {
		return append([]string{"profile-sla", "--engine", "estimate", "--model", "llama-3.1-8b", "--gpu", "h100-sxm", "--tp", "1", "--ttft", "200", "--itl", "20", "--quiet", "--verify", "never", "--output-dir", dir}, more...)
	}
	r := ran(t, exitFailed, args()...)
	if said := r.errout.String(); !strings.Contains(said, "no space left on device") || !strings.Contains(said, "hint: free space on the disk of "+dir+", then run the same command with --resume") {
		t.Errorf("stderr:\n%s", said)
	}
	if _, err := os.Stat(filepath.Join(dir, "recommendation.json")); err == nil {
		t.Error("something is recommended")
	}
	known := len(pointIDs(t, dir))
	if err := syscall.Mount("none", disk, "tmpfs", syscall.MS_REMOUNT, "size=64m"); err != nil {
		t.Fatal(err)
	}
	ran(t, exitDone, args("--resume")...)
	if n := len(pointIDs(t, dir)); known == 0 || n <= known {
		t.Errorf("%d points when the disk was full, %d in the end", known, n)
	}
}
