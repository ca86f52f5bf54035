//go:build full

package main

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"plimsoll/profile"
	"plimsoll/profile/store"
)

// An engine that does both, in a process of its own, is profiled by requests that
// come over HTTP: what is recommended was run at its rate, and its surfaces are planned by.
func TestAggregatedProfileOfAProcess(t *testing.T) {
	long(t)
	timed(t)
	needProc(t)
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "results")
	r := ran(t, exitDone, "profile-sla", "--mode", "aggregated", "--engine", "sim", "--gpu", "l4", "--tp", "2", // whose steps take 40 ms and more
		"--isl", "100", "--osl", "6", "--ttft", "1000", "--itl", "50", "--load-time", "6s", "--max-num-batched-tokens", "2048",
		"--max-context-length", "256", "--prefill-interpolation-granularity", "3", "--decode-interpolation-granularity", "2", "--max-in-flight", "8", "--output-dir", dir)
	r.noOrphans(t)
	run, rec := results(t, dir)
	pick, got := rec.Aggregated, rec.Verified.All()
	if rec.Mode != store.Aggregated || !rec.Feasible || pick == nil || pick.Label != "TP:2" || pick.GPUs != 2 || len(got) != 1 || got[0] != rec.Verified.Aggregated {
		t.Fatalf("recommended: %+v", rec)
	}
	if !rec.Simulates() || rec.Prefill != nil || rec.Decode != nil || rec.Provenance != profile.Simulated || rec.Cost == nil || rec.Cost.Launches < 1 {
		t.Errorf("recommended: %+v", rec)
	}
	a := got[0]
	if !a.Holds || a.Requests < 20 || a.Failures > 0 || a.Within <= 0 || a.WithinTTFT == nil || a.WithinITL == nil || a.RateRPS != pick.SustainedRPS {
		t.Errorf("attained %+v, at %g requests/s", a, pick.SustainedRPS)
	}
	if a.TTFT == nil || a.TTFT.Mean > 1000 || a.TPOT == nil || a.TPOT.Mean > 50 || pick.TTFTMillis != a.TTFT.Mean || pick.ITLMillis != a.TPOT.Mean {
		t.Errorf("attained %+v and %+v, picked with %g and %g ms", a.TTFT, a.TPOT, pick.TTFTMillis, pick.ITLMillis)
	}
	i := slices.IndexFunc(run.Points, func(p profile.Point) bool { return p.ID == a.Point })
	if i < 0 || run.Points[i].Stage != profile.StageVerify || run.Points[i].Rate != a.RateRPS || run.Points[i].Load.Requests != a.Requests {
		t.Errorf("run.json has no load %s as it is recommended", a.Point)
	}
	if !slices.ContainsFunc(run.Points, func(p profile.Point) bool { return p.Rate > a.RateRPS && !p.Meets(run.SLA) }) {
		t.Errorf("no higher rate than %g was seen to miss", a.RateRPS)
	}

	ran(t, exitDone, "plot", dir)
	ran(t, exitDone, "engine", "simulate", "--profile", dir, "--rate", "1", "--isl", "100", "--osl", "6", "--requests", "20")
	if r := ran(t, exitUsage, "capacity", "ratio", "--profile", dir); !strings.Contains(r.errout.String(), "no engine of it was picked for prefill or decode alone") {
		t.Errorf("capacity ratio:\n%s", &r.errout)
	}
}
