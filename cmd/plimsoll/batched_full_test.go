//go:build full

package main

import (
	"math"
	"path/filepath"
	"testing"

	"plimsoll/engine"
	"plimsoll/profile/store"
)

// Prompts of 100 tokens are profiled several at once, several times faster than
// one at a time, as the simulated engine's own steps have them.
func TestBatchedPrefillOfAnEstimate(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "results")
	ran(t, exitDone, "profile-sla", "--engine", "estimate", "--model", "llama-3.1-8b", "--gpu", "h100-sxm", "--tp", "1",
		"--isl", "100", "--osl", "100", "--ttft", "200", "--itl", "20", "--max-context-length", "8192", "--quiet", "--output-dir", dir)
	b, err := store.LoadBatched(dir)
	if err != nil {
		t.Fatal(err)
	}
	run, _ := results(t, dir)
	m := modelOf(t, run.Points[0].Config)
	steps := func(isl, k int) float64 {
		var all engine.Batch
		for range k {
			all.AddChunk(isl, 0)
		}
		return m.StepTime(all).Seconds()
	}
	first := b.Samples[0]
	if cycle := steps(first.ISL, first.K) + m.Overhead().Seconds(); first.ISL != 100 || math.Abs(first.ThroughputPerGPU*cycle/float64(100*first.K)-1) > 0.01 {
		t.Errorf("%+v: a step of them takes %.4g s", first, cycle)
	}
	if alone := 100 / m.TTFT(100, 0).Seconds(); first.ThroughputPerGPU < 3*alone {
		t.Errorf("%g tokens/s/GPU at once, %g one at a time", first.ThroughputPerGPU, alone)
	}
}
