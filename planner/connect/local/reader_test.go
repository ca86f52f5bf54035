package local

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"plimsoll/engine"
	"plimsoll/planner"
)

// A reader counts the workers of a state file by role and phase. Without a file, or with
// none of its workers in it, what runs is not known. It refuses what is no such file, and
// never scales.
func TestReader(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ns.json")
	r := Reader{Path: path, Roles: []engine.Role{engine.RolePrefill, engine.RoleDecode}}
	counts := func() (prefill, decode planner.PoolState) {
		t.Helper()
		s, err := r.State(t.Context())
		if err != nil || len(s.Pools) != 2 {
			t.Fatalf("%+v, %v", s, err)
		}
		return s.Pools[0], s.Pools[1]
	}
	unknown := func(name string) {
		t.Helper()
		if s, err := r.State(t.Context()); err != nil || len(s.Pools) != 0 {
			t.Errorf("%s: %+v, %v", name, s, err)
		}
	}
	unknown("without a file")
	if err := os.WriteFile(path, []byte(`{"components":{"ns_P":{"watcher_name":"p"}}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	unknown("with another program's workers")
	text := `{"components":{"ns_P":{"role":"prefill","state":"ready","pid":7,"port":9,"url":"http://h:9","log":"/l/x.log","start_ticks":1,"boot_id":"b"},"ns_D":{"role":"decode","state":"starting","pid":8,"port":9,"url":"http://h:9","log":"/l/x.log","start_ticks":1,"boot_id":"b"},
		"ns_D_1":{"role":"decode","state":"draining","pid":9,"port":9,"url":"http://h:9","log":"/l/x.log","start_ticks":1,"boot_id":"b"},"ns_D_2":{"role":"decode","state":"ready","pid":10,"port":9,"url":"http://h:9","log":"/l/x.log","start_ticks":1,"boot_id":"b"},"ns_A":{"role":"aggregated","state":"ready","pid":11,"port":9,"url":"http://h:9","log":"/l/x.log","start_ticks":1,"boot_id":"b"}}}`
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if p, d := counts(); p.Ready != 1 || d.Ready != 1 || d.Starting != 1 || d.Draining != 1 {
		t.Errorf("%+v, %+v", p, d)
	}
	if err := r.Scale(t.Context(), planner.Replicas{Prefill: 2}, "x"); !errors.Is(err, ErrReadOnly) {
		t.Errorf("scaling: %v", err)
	}
	if err := os.WriteFile(path, []byte("no JSON"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := r.State(t.Context()); err == nil {
		t.Error("what is no state file is read")
	}
}
