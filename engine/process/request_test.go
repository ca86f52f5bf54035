package process_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"plimsoll/engine"
	"plimsoll/engine/process"
)

// frontend is ready the third time that it is asked, if its file holds what it should.
func frontend() {
	var asked atomic.Int32
	h := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		text, err := os.ReadFile(os.Getenv(fileVar))
		fmt.Println("asked", asked.Add(1))
		switch {
		case asked.Load() < 3:
			http.Error(w, "no worker", http.StatusServiceUnavailable)
		case err != nil || string(text) != "this one":
			http.Error(w, fmt.Sprintf("%q", text), http.StatusBadRequest)
		}
	})
	go func() {
		fmt.Println(http.ListenAndServe("127.0.0.1:"+os.Getenv(portVar), h)) //nolint:gosec // a test's, on this machine alone
		os.Exit(98)
	}()
}

// An engine is ready when it says so; its file is there before it starts, in place of
// an older one.
func TestReadyWithItsFile(t *testing.T) {
	s := spec(t, "frontend")
	path := filepath.Join(t.TempDir(), "folder", "file.json")
	s.Env = append(s.Env, fileVar+"="+path)
	s.Files = []engine.File{{Path: path, Text: "an older one"}}
	if p := start(t, s); p.Stop(canceled()) != nil {
		t.Fatal("it does not end")
	}
	s.Files = []engine.File{{Path: path, Text: "this one"}}
	p := start(t, s)
	if err := p.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	if tail := strings.Join(p.Tail(10), "\n"); !strings.Contains(tail, "asked 3") {
		t.Errorf("ready after:\n%s", tail)
	}
}

func TestFileThatCannotBeWritten(t *testing.T) {
	s := spec(t, "ready")
	taken := filepath.Join(t.TempDir(), "taken")
	if err := os.WriteFile(taken, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{filepath.Join(taken, "file"), filepath.Dir(taken)} {
		s.Files = []engine.File{{Path: path}}
		if _, err := process.Start(t.Context(), s); err == nil || !strings.Contains(err.Error(), "configuration") {
			t.Errorf("%s: %v", path, err)
		}
	}
}
