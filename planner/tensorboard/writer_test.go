package tensorboard

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// written is an event file with two steps.
func written(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "new", "logs")
	w, err := Create(dir, time.Unix(1_700_000_000, 250_000_000))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Create(dir, time.Unix(1_700_000_000, 0)); err == nil {
		t.Error("a second writer takes the same file")
	}
	for _, err := range []error{
		w.Add(time.Unix(1_700_000_001, 0), 1, Scalar{"num_gpu", 6}, Scalar{"average_kv_load", 0.5}, Scalar{"missing", math.NaN()}),
		w.Add(time.Unix(1_700_000_002, 0), 2, Scalar{"missing", math.Inf(1)}),
		w.Add(time.Unix(1_700_000_003, 0), 3, Scalar{"num_gpu", 8}),
		w.Close(),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	files, err := filepath.Glob(filepath.Join(dir, "events.out.tfevents.*"))
	if err != nil || len(files) != 1 {
		t.Fatalf("%v, %v", files, err)
	}
	return files[0]
}

// The bytes of the file are those of a file that testdata/read.py, which decodes
// with the protobuf library and checks every checksum, read as
//
//	version brain.Event:2
//	1700000001.000 1 num_gpu 6
//	1700000001.000 1 average_kv_load 0.5
//	1700000003.000 3 num_gpu 8
func TestBytes(t *testing.T) {
	got, err := os.ReadFile(written(t))
	if err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile("testdata/events.golden")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("% x, want\n% x", got, want)
	}
}

func TestCreateFails(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Create(file, time.Now()); err == nil || !strings.Contains(err.Error(), "TensorBoard folder") {
		t.Errorf("%v", err)
	}
}
