//go:build full

package main

import (
	"path/filepath"
	"strings"
	"testing"

	"plimsoll/recommend"
)

// What is sustained decides, and with Dynamo's grid Dynamo's rule: the fastest engine per GPU may be one that hardly has room for a queue.
func TestSustainedIsTheDefault(t *testing.T) {
	t.Parallel()
	rate := map[string]float64{} // requests/s and GPU of the prefill pick
	for _, c := range []struct {
		flags []string
		want  recommend.Rank
	}{
		{nil, recommend.BySustained},
		{[]string{"--search", "grid"}, recommend.BySingle},
	} {
		dir := filepath.Join(t.TempDir(), "results")
		ran(t, exitDone, append([]string{
			"profile-sla", "--engine", "estimate", "--model", "llama-3.1-70b", "--gpu", "h200-sxm", "--isl", "3000", "--osl", "150", "--ttft", "400", "--itl", "30",
			"--max-num-seqs", "128", "--max-context-length", "3150", "--verify", "never", "--quiet", "--output-dir", dir,
		}, c.flags...)...)
		run, rec := results(t, dir)
		if got := rankOf(run); got != c.want {
			t.Errorf("%v: ranked by %s, want %s", c.flags, got, c.want)
		}
		rate[strings.Join(c.flags, " ")] = rec.Prefill.SustainedRPS / float64(rec.Prefill.GPUs)
	}
	if rate[""] <= rate["--search grid"] {
		t.Errorf("requests/s and GPU of the prefill pick: %v", rate)
	}
}
