//go:build full

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// The tables give the curves that ship.
func TestRefit(t *testing.T) {
	root := os.Getenv("PLIMSOLL_DATA")
	if root == "" {
		t.Skip("NOT RUN: PLIMSOLL_DATA names no folder with kernels/gemm.csv.gz")
	}
	made := filepath.Join(t.TempDir(), "curves.json")
	if err := run(filepath.Join(root, "kernels"), made); err != nil {
		t.Fatal(err)
	}
	a, err := os.ReadFile(made)
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile("../curves.json")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(a, b) {
		t.Error("engine/operator/curves.json differs: make fit writes it again")
	}
}
