package process_test

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"plimsoll/engine"
	"plimsoll/engine/process"
)

// frontend serves as one whose workers come later: whatever is got is there from
// the beginning; what is posted fails at first, then only the content of a file is
// taken.
func frontend() {
	var posts atomic.Int32
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		want, err := os.ReadFile(os.Getenv(fileVar))
		switch {
		case r.Method == http.MethodGet:
		case posts.Add(1) < 3:
			http.Error(w, "no worker", http.StatusServiceUnavailable)
		case err != nil || string(body) != string(want) || r.Header.Get("Content-Type") != "application/json":
			http.Error(w, fmt.Sprintf("%q", body), http.StatusBadRequest)
		}
		if r.Method == http.MethodPost {
			fmt.Println("post", posts.Load())
		}
	})
	go func() {
		fmt.Println(http.ListenAndServe("127.0.0.1:"+os.Getenv(portVar), h)) //nolint:gosec // a test's, on this machine alone
		os.Exit(98)
	}()
}

// A frontend that answers before its workers are there is ready when it answers a
// request; a file is there before the engine starts, in place of an older one.
func TestReadyByRequest(t *testing.T) {
	s := spec(t, "frontend")
	s.ReadyPath, s.ReadyBody = "/v1/chat/completions", `{"max_tokens":1}`
	path := filepath.Join(t.TempDir(), "folder", "file.json")
	s.Env = append(s.Env, fileVar+"="+path)
	s.Files = []engine.File{{Path: path, Text: "an older one"}}
	if p := start(t, s); p.Stop(canceled()) != nil {
		t.Fatal("it does not end")
	}
	s.Files = []engine.File{{Path: path, Text: s.ReadyBody}}
	p := start(t, s)
	if err := p.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	if tail := strings.Join(p.Tail(10), "\n"); !strings.Contains(tail, "post 3") {
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
