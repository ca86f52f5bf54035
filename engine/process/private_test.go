package process_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"plimsoll/engine"
)

// An engine prints what it was given: its log and its files are for nobody else, even
// where they were for everybody before, and no error repeats a credential of them.
func TestLogsAndFilesAreTheUsersOwn(t *testing.T) {
	s := spec(t, "describe")
	s.Argv = append(s.Argv, "--api-key", "Conf1dential-1", "plain")
	s.Env = append(s.Env, "GREETING=x", "MY_TOKEN=Conf1dential-2")
	folder := filepath.Dir(s.LogPath)
	file := filepath.Join(folder, "new", "engine.yaml")
	s.Files = []engine.File{{Path: file, Text: "token: Conf1dential-3\n"}}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(s.LogPath, []byte("before\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	p := start(t, s)
	if err := p.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]os.FileMode{s.LogPath: 0o600, file: 0o600, filepath.Dir(file): 0o700} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, %v: want %v", path, info.Mode(), err, want)
		}
	}
	if text := logOf(t, p); !strings.Contains(text, "args --api-key|Conf1dential-1|plain\n") {
		t.Fatalf("the engine did not print what it was given:\n%s", text)
	}
	if tail := strings.Join(p.Tail(1000), "\n"); strings.Contains(tail, "Conf1dential") || !strings.Contains(tail, "|plain") {
		t.Errorf("the end of its log shows\n%s", tail)
	}
}
