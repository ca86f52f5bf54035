//go:build full

package main

import (
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"plimsoll/profile/store"
)

const (
	// firstNoise is how far a real-time sweep's rate may be off the estimate's: a step
	// takes a few percent more over HTTP, and a search ends up to 2.5 % below the SLA.
	firstNoise = 0.06
	firstGPUs  = "4" // of the embedded engine's machine
)

// The README's first command runs engines in real time, and gives the answer of the
// same command with --engine estimate: both picks, and what they carry within noise.
// It prints what it took, which depends on what else the machine does.
func TestFirstCommandGivesTheEstimate(t *testing.T) {
	timed(t)
	command := []string{"profile-sla", "--isl", "3000", "--osl", "150", "--ttft", "200", "--itl", "20", "--quiet", "--output-dir"}
	answer := func(args ...string) store.Recommendation {
		dir := filepath.Join(t.TempDir(), "results")
		if p := start(t, nil, slices.Concat(command, []string{dir}, args)...); p.wait(t) != exitDone {
			t.Fatal(&p.errout)
		}
		_, rec := results(t, dir)
		return rec
	}
	want := answer("--engine", "estimate", "--model", "llama-3.1-8b", "--gpu", "h100-sxm", "--gpu-count", firstGPUs)
	once(t, func() (complaints []string) { // other processes disturb the machine
		began := time.Now()
		got := answer()
		t.Logf("%.0f s", time.Since(began).Seconds())
		for phase, picks := range map[string][2]*store.Pick{"prefill": {got.Prefill, want.Prefill}, "decode": {got.Decode, want.Decode}} {
			g, w := picks[0], picks[1]
			if g.Label != w.Label {
				complaints = append(complaints, fmt.Sprintf("%s: %s picked, by the estimate %s", phase, g.Label, w.Label))
			}
			for what, v := range map[string][2]float64{"tokens/s/GPU": {g.ThroughputPerGPU, w.ThroughputPerGPU}, "requests/s sustained": {g.SustainedRPS, w.SustainedRPS}} {
				if math.Abs(v[0]/v[1]-1) > firstNoise {
					complaints = append(complaints, fmt.Sprintf("%s: %.1f %s, by the estimate %.1f", phase, v[0], what, v[1]))
				}
			}
		}
		return complaints
	})
}
