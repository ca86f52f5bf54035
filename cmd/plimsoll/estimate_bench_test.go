package main

import (
	"io"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"plimsoll/engine/enginetest/cputime"
	"plimsoll/profile/store"
)

// BenchmarkEstimate is a whole estimated profile, files and pictures included.
func BenchmarkEstimate(b *testing.B) {
	for name, osl := range map[string]string{"osl150": "150", "osl500": "500"} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			defer cputime.Report(b)()
			for b.Loop() {
				dir := filepath.Join(b.TempDir(), "results")
				args := []string{
					"plimsoll", "profile-sla", "--engine", "estimate", "--model", "llama-3.1-8b", "--gpu", "h100-sxm",
					"--isl", "3000", "--osl", osl, "--ttft", "200", "--itl", "20", "--output-dir", dir,
				}
				var errs strings.Builder
				if code := run(b.Context(), args, streams{strings.NewReader(""), io.Discard, &errs}); code != exitDone {
					b.Fatalf("exit code %d: %s", code, &errs)
				}
				r, err := store.ReadRun(dir)
				if err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(r.Cost.EngineSeconds*float64(time.Second), "engine-ns/op") // in virtual time
			}
		})
	}
}
