package main

import (
	"path/filepath"
	"slices"
	"testing"
)

// estimatedProfile is a profile of the latency model, in a folder of its own.
func estimatedProfile(t *testing.T, args ...string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "prof")
	ran(t, exitDone, estimate(dir, args...)...)
	return dir
}

// estimate asks for a profile of small engines.
func estimate(dir string, args ...string) []string {
	return append([]string{
		"profile-sla", "--engine", "estimate", "--model", "llama-3.1-8b", "--gpu", "h100-sxm", "--tp", "1",
		"--isl", "1024", "--osl", "128", "--ttft", "200", "--itl", "20", "--max-num-seqs", "16", "--verify", "never", "--quiet", "--output-dir", dir,
	}, args...)
}

// A profile that says nothing of its engine: what is assumed is shown, and a
// prompt longer than its surfaces is extrapolated, not refused.
func TestSimulateFromImportedProfile(t *testing.T) {
	t.Parallel()
	src, dir := dynamoFolder(t), filepath.Join(t.TempDir(), "prof")
	ran(t, exitDone, "profile-sla", "import", "--tp", "1", "--isl", "3000", "--osl", "150", "--ttft", "200", "--itl", "20",
		"--model", "llama-3.1-8b", "--gpu", "h200-sxm", "--output-dir", dir, src)
	codes := func(f simulationFile) (cs []string) {
		for _, w := range f.Warnings {
			cs = append(cs, w.Code)
		}
		return cs
	}
	f := simulated(t, "--profile", dir, "--requests", "50", "--isl", "30000")
	if p := f.Pools[0]; p.MaxNumSeqs != 1573 || p.MaxTokens != 8192 || p.MaxModelLen != 131072 {
		t.Errorf("limits %+v", p)
	}
	if c := codes(f); f.Requests.Finished != 50 || !slices.Contains(c, "max_num_seqs_assumed") || !slices.Contains(c, "isl_out_of_range") {
		t.Errorf("%d of 50 finished, warnings %v", f.Requests.Finished, c)
	}
	f = simulated(t, "--profile", dir, "--requests", "50", "--max-num-seqs", "64", "--ttft", "300")
	if c := codes(f); f.Pools[0].MaxNumSeqs != 64 || slices.Contains(c, "max_num_seqs_assumed") {
		t.Errorf("%d sequences at once asked for: %d, warnings %v", 64, f.Pools[0].MaxNumSeqs, c)
	}
	if f.SLA.TTFT != 300 || f.SLA.ITL != 20 {
		t.Errorf("SLA %+v: want the TTFT given and the profile's ITL", f.SLA)
	}
}
