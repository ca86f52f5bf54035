//go:build full

package tensorboard

import (
	"os/exec"
	"testing"
)

// Where Python's protobuf is at hand the independent reader reads the file again.
func TestIndependentReader(t *testing.T) {
	if err := exec.CommandContext(t.Context(), "/usr/bin/python3", "-c", "import google.protobuf, crc32c").Run(); err != nil {
		t.Skip("NOT RUN: /usr/bin/python3 has no protobuf and crc32c; TestBytes holds what it read")
	}
	out, err := exec.CommandContext(t.Context(), "/usr/bin/python3", "testdata/read.py", written(t)).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	want := "version brain.Event:2\n1700000001.000 1 num_gpu 6\n1700000001.000 1 average_kv_load 0.5\n1700000003.000 3 num_gpu 8\n"
	if got := string(out); got != want {
		t.Errorf("%s, want\n%s", got, want)
	}
}
