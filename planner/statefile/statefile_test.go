package statefile_test

import (
	"os"
	"path/filepath"
	"testing"

	"plimsoll/planner/statefile"
)

// A file that others might read is the user's own once it is written.
func TestReplaceIsTheUsersOwn(t *testing.T) {
	path := filepath.Join(t.TempDir(), "m.json")
	if err := os.WriteFile(path, []byte("{}"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := statefile.Replace(path, []byte("{ }")); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if b, err := os.ReadFile(path); err != nil || string(b) != "{ }" {
		t.Errorf("%q, %v", b, err)
	}
}

// No damaged file takes the place of an earlier one.
func TestSetAsideKeepsEarlierOnes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "m.json")
	for _, c := range []struct{ text, to string }{{"first", ".damaged"}, {"second", ".damaged.2"}, {"third", ".damaged.3"}} {
		if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		if to, err := statefile.SetAside(path); err != nil || to != path+c.to {
			t.Errorf("it is moved to %s, %v", to, err)
		}
		if b, err := os.ReadFile(path + c.to); err != nil || string(b) != c.text {
			t.Errorf("%s holds %q, %v", c.to, b, err)
		}
	}
	if b, err := os.ReadFile(path + ".damaged"); err != nil || string(b) != "first" {
		t.Errorf("the first one is %q, %v", b, err)
	}
	if _, err := statefile.SetAside(path); err == nil {
		t.Error("a file that is not there is set aside")
	}
}
