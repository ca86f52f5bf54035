//go:build full

package main

import (
	"math"
	"strings"
	"testing"

	"plimsoll/profile"
	"plimsoll/profile/store"
)

// The aggregated engine beside the picks is the one that --mode aggregated finds, at
// nearly its rate: short trials find it to a few percent, and have no interval.
func TestAggregatedBesideThePicks(t *testing.T) {
	at := []string{"profile-sla", "--engine", "estimate", "--model", "llama-3.1-8b", "--gpu", "h100-sxm", "--isl", "3000", "--osl", "150", "--ttft", "500", "--itl", "40", "--verify", "never", "--quiet", "--details", "--output-dir"}
	var dir string
	profiled := func(more ...string) (store.Recommendation, string) {
		dir = t.TempDir()
		p := ran(t, exitDone, append(append(at, dir), more...)...)
		rec, err := store.ReadRecommendation(dir)
		if err != nil {
			t.Fatal(err)
		}
		return rec, p.out.String()
	}
	both, said := profiled()
	one, alone := profiled("--mode", "aggregated")
	a := both.Alternatives[0]
	if a.Mode != store.Aggregated || a.Provenance != profile.Estimated || math.Abs(a.RPS/one.Aggregated.SustainedRPS-1) > 0.15 || a.GPUs != one.Aggregated.GPUs {
		t.Errorf("%+v, --mode aggregated picks %+v", a, *one.Aggregated)
	}
	for _, want := range []string{"8192 tokens in a step", "  of these: search "} {
		if !strings.Contains(alone, want) {
			t.Errorf("no %q in\n%s", want, alone)
		}
	}
	run, err := store.ReadRun(dir)
	if err != nil {
		t.Fatal(err)
	}
	requests, seconds := 0, 0.0
	for _, c := range run.CostByStage {
		requests, seconds = requests+c.Requests, seconds+c.EngineSeconds
	}
	if len(run.CostByStage) != 2 || requests != run.Cost.Requests || math.Abs(seconds-run.Cost.EngineSeconds) > 1e-6 {
		t.Errorf("the stages cost %+v, the run %+v", run.CostByStage, run.Cost)
	}
	if line := "\n  aggregated    " + a.Label + " "; !strings.Contains(said, line) {
		t.Errorf("%q is not said:\n%s", line, said)
	}
	phases := map[profile.Phase]string{}
	for _, a := range both.Alternatives[1:] {
		phases[a.Phase] = a.Label
		if p := both.PhasePick(a.Phase); a.Label == p.Label || a.RPSPerGPU > a.PickRPSPerGPU {
			t.Errorf("%+v beside the pick %s", a, p.Label)
		}
	}
	if len(phases) != 2 {
		t.Errorf("the next layouts are %v", phases)
	}
}
