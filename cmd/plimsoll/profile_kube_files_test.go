package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"plimsoll/engine"
	"plimsoll/engine/trtllm"
)

// The command that a pod gets writes what the engine reads, byte for byte, and
// becomes the engine.
func TestInPod(t *testing.T) {
	s, err := trtllm.Server{Program: "cat"}.Spec(engine.Config{Model: "m"}, engine.Launch{Port: 1, LogPath: "results/engines/test_in_pod.log"})
	if err != nil {
		t.Fatal(err)
	}
	text := s.Files[0].Text + `"quoted" '$HOME' \n %s` + "\n"
	s.Files[0].Text = text
	s.Argv = []string{"cat", s.Files[0].Path} // the program reads the file that it is given
	got := inPod(s)
	written := "/tmp/test_in_pod.yaml"
	t.Cleanup(func() { _ = os.Remove(written) })
	out, err := exec.CommandContext(t.Context(), got.Argv[0], got.Argv[1:]...).Output()
	if err != nil || string(out) != text || len(got.Files) != 0 {
		t.Errorf("%v: %q", err, out)
	}
	if s.Argv[1] != filepath.Join("results", "engines", "test_in_pod.yaml") {
		t.Errorf("the spec that was given has changed: %q", s.Argv)
	}
	if plain := inPod(engine.Spec{Argv: []string{"vllm"}}); len(plain.Argv) != 1 {
		t.Errorf("a command without files: %q", plain.Argv)
	}
}
