//go:build full

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// The rows give the fits that ship and the page that users read.
func TestRefit(t *testing.T) {
	root := os.Getenv("PLIMSOLL_DATA")
	if root == "" {
		t.Skip("NOT RUN: PLIMSOLL_DATA names no folder with measured/silicon-closed-loop.csv.gz")
	}
	dir := t.TempDir()
	fits, page := filepath.Join(dir, "fits.json"), filepath.Join(dir, "accuracy.md")
	if err := run(root, "../../../testdata/npz", fits, page); err != nil {
		t.Fatal(err)
	}
	for made, shipped := range map[string]string{fits: "../../latency/fits.json", page: "../../../docs/accuracy.md"} {
		a, err := os.ReadFile(made)
		if err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(shipped)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(a, b) {
			t.Errorf("%s differs: make accuracy writes it again", shipped)
		}
	}
}
