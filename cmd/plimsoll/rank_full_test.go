//go:build full

package main

import (
	"path/filepath"
	"strings"
	"testing"

	"plimsoll/profile/store"
	"plimsoll/recommend"
)

// What is sustained decides unless Dynamo's rule is asked for, by its name or with its
// grid: the fastest engine per GPU may be one that hardly has room for a queue.
func TestSustainedIsTheDefault(t *testing.T) {
	t.Parallel()
	rate := map[string]float64{} // requests/s and GPU of the prefill pick
	for _, c := range []struct {
		flags []string
		want  recommend.Rank
	}{
		{nil, recommend.BySustained},
		{[]string{"--rank", "single"}, recommend.BySingle},
		{[]string{"--search", "grid"}, recommend.BySingle},
		{[]string{"--search", "grid", "--rank", "sustained"}, recommend.BySustained},
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
		if command, _ := profileAgain(run.Inputs); strings.Contains(command, "--rank") != strings.Contains(strings.Join(c.flags, " "), "--rank") {
			t.Errorf("%v: again by %q", c.flags, command)
		}
	}
	if rate[""] <= rate["--rank single"] || rate["--rank single"] != rate["--search grid"] || rate[""] != rate["--search grid --rank sustained"] {
		t.Errorf("requests/s and GPU of the prefill pick: %v", rate)
	}
}

// A folder of an earlier version, in which the rank of single points was called
// throughput, goes on where its name is given.
func TestResumeOfTheOldRank(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "results")
	args := func(more ...string) []string { return estimated(dir, append(more, "--verify", "never", "--quiet")...) }
	ran(t, exitDone, args("--rank", "single")...)
	journalWith(t, dir, func(in store.Inputs) { in["--rank"] = "throughput" })
	if p := ran(t, exitUsage, args("--resume")...); !strings.Contains(p.errout.String(), "--rank was single, now sustained") {
		t.Errorf("another rank: %s", &p.errout)
	}
	ran(t, exitDone, args("--resume", "--rank", "single")...)
}
