package serve

import (
	"os"
	"path/filepath"
	"testing"
)

// A state file that others might read is the user's own once it is written.
func TestMemoryIsTheUsersOwn(t *testing.T) {
	path := filepath.Join(t.TempDir(), "m.json")
	if err := os.WriteFile(path, []byte("{}"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := replace(path, []byte("{ }")); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if b, err := os.ReadFile(path); err != nil || string(b) != "{ }" {
		t.Errorf("%q, %v", b, err)
	}
}
