//go:build full

package main

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"plimsoll/profile"
	"plimsoll/profile/store"
)

// A whole grid: both lines are upstream's formulas over its own points, to the digit.
func TestGridSuggestsUpstreamsBounds(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "results")
	p := ran(t, exitDone, "profile-sla", "--engine", "estimate", "--model", "llama-3.1-8b", "--gpu", "h100-sxm", "--tp", "1", "--search", "grid",
		"--isl", "3000", "--osl", "150", "--ttft", "200", "--itl", "20", "--prefill-interpolation-granularity", "4", "--decode-interpolation-granularity", "2",
		"--max-context-length", "8000", "--output-dir", dir, "--details")
	run, err := store.ReadRun(dir)
	if err != nil {
		t.Fatal(err)
	}
	var ttft, n, kv float64 // of what upstream picks: the most throughput within the SLA
	best := map[profile.Phase]float64{}
	for _, x := range run.Points {
		if x.Stage != profile.StageSweep || !x.Meets(run.SLA) || x.ThroughputPerGPU <= best[x.Phase] {
			continue
		}
		best[x.Phase] = x.ThroughputPerGPU
		if x.Phase == profile.Prefill {
			ttft = profile.Milliseconds(x.TTFT.Mean)
		} else {
			n, kv = float64(x.Asked), float64(x.MaxKV)
		}
	}
	use := n * (3000 + 150.0/2) / kv
	for _, want := range []string{
		fmt.Sprintf("\nSuggested planner upper/lower bound for prefill queue size: %.2f/%.2f\n", max(0.1, 200*1.2/ttft-1), max(0.1, 200*0.8/ttft-1)),
		fmt.Sprintf("\nSuggested planner upper/lower bound for decode kv cache utilization: %.2f/%.2f\n", min(1, use+0.2), max(0.1, use-0.2)),
	} {
		if !strings.Contains(p.out.String(), want) {
			t.Errorf("stdout lacks %q:\n%s", want, &p.out)
		}
	}
	rec, err := store.ReadRecommendation(dir)
	if err != nil {
		t.Fatal(err)
	}
	b := rec.Thresholds.DecodeKVAtRate
	if b == nil || *b == rec.Thresholds.DecodeKVUtilization || *b != rec.Thresholds.LoadKV() {
		t.Fatalf("at the recommended rate: %+v, at the pick %+v", b, rec.Thresholds.DecodeKVUtilization)
	}
	if want := fmt.Sprintf("\nDecode KV use at the recommended rate: scale up above %.2f, down below %.2f ", b.Upper, b.Lower); !strings.Contains(p.out.String(), want) {
		t.Errorf("stdout lacks %q", want)
	}
}
