package main

import (
	"io"
	"path/filepath"
	"strings"
	"testing"
)

// BenchmarkEstimate is a whole estimated profile, files and pictures included.
func BenchmarkEstimate(b *testing.B) {
	for _, osl := range []string{"150", "500"} {
		b.Run("osl"+osl, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				args := []string{
					"plimsoll", "profile-sla", "--engine", "estimate", "--model", "llama-3.1-8b", "--gpu", "h100-sxm",
					"--isl", "3000", "--osl", osl, "--ttft", "200", "--itl", "20", "--output-dir", filepath.Join(b.TempDir(), "results"),
				}
				var errs strings.Builder
				if code := run(b.Context(), args, streams{strings.NewReader(""), io.Discard, &errs}); code != exitDone {
					b.Fatalf("exit code %d: %s", code, &errs)
				}
			}
		})
	}
}
