package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"plimsoll/profile/store"
)

// A folder that another run writes is left to it, however it is asked for.
func TestFolderOfARunThatLives(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "results")
	d, err := store.Create(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = d.Close() }()
	if err := os.WriteFile(filepath.Join(dir, store.JournalFile), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, how := range []string{"--resume", "--force"} {
		p := ran(t, exitUsage, "profile-sla", "--engine", "sim", "--quiet", how, "--output-dir", dir)
		for _, want := range []string{"another plimsoll is writing the folder\n", "hint: wait until that run has ended, or name another folder\n"} {
			if !strings.Contains(p.errout.String(), want) {
				t.Errorf("%s: stderr lacks %q:\n%s", how, want, &p.errout)
			}
		}
	}
}
