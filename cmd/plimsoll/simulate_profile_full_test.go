//go:build full

package main

import (
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"testing"

	"plimsoll/profile"
)

// A fleet on a profile's surfaces, which come from the latency model, does what
// the fleet on that model does, up to nine tenths of what it carries. Both have places
// for all who come: near a full engine the wait for a place magnifies any error.
func TestSimulateFromProfileIsNearItsModel(t *testing.T) {
	t.Parallel()
	places := []string{"--max-num-seqs", "256"}
	dir := estimatedProfile(t, places...)
	load := []string{"--isl", "1024", "--osl", "128", "--requests", "4000", "--ttft", "200", "--itl", "20", "--rate"}
	for rate, tolerance := range map[string]struct{ ttft, itl float64 }{"0.2": {0.03, 0.01}, "9": {0.02, 0.02}, "18": {0.04, 0.04}, "27": {0.08, 0.08}} {
		model := simulated(t, slices.Concat(places, load, []string{rate})...)
		surfaces := simulated(t, slices.Concat([]string{"--profile", dir}, load, []string{rate})...)
		for what, near := range map[string]float64{"ttft": tolerance.ttft, "itl": tolerance.itl} {
			got, want := surfaces.Latency[what].Mean, model.Latency[what].Mean
			if math.Abs(got/want-1) > near {
				t.Errorf("%s requests/s: mean %s %.3f ms on the surfaces, %.3f on the model: want within %.0f %%", rate, what, got, want, 100*near)
			}
		}
		if e := surfaces.TTFTError; e != model.TTFTError || e.Factor50 <= 1 {
			t.Errorf("a TTFT error of %+v, of the model %+v", e, model.TTFTError)
		}
	}
}

// A prompt that the cache holds but for its last block has still a step to wait
// for, which reads all of the model.
func TestSimulateFromProfileWithCachedPrompts(t *testing.T) {
	t.Parallel()
	f := simulated(t, "--profile", estimatedProfile(t), "--isl", "1040", "--osl", "20", "--requests", "200", "--rate", "1",
		"--enable-prefix-caching", "--prefix-groups", "1", "--prefix-tokens", "1024")
	if ttft, step := f.Latency["ttft"].Min, f.Latency["itl"].Min; ttft < step {
		t.Errorf("TTFT %.3f ms, below a decode step of %.3f ms", ttft, step)
	}
}

// What an SLA that nothing meets left behind is simulated with a word about it.
func TestSimulateFromInfeasibleProfile(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "prof")
	ran(t, exitInfeasible, "profile-sla", "--engine", "estimate", "--model", "llama-3.1-8b", "--gpu", "h100-sxm", "--tp", "1",
		"--isl", "1024", "--osl", "128", "--ttft", "5", "--itl", "20", "--quiet", "--output-dir", dir)
	f := simulated(t, "--profile", dir, "--requests", "50")
	if !slices.ContainsFunc(f.Warnings, func(w profile.Warning) bool { return w.Code == "profile_infeasible" }) {
		t.Errorf("warnings %v", f.Warnings)
	}
}

// An engine that does both, simulated by its own profile's surfaces, does what the model
// behind that profile does, with the places and chunks that it was profiled with.
func TestSimulateFromAggregatedProfileIsNearItsModel(t *testing.T) {
	t.Parallel()
	for _, chunk := range []string{"512", "2048"} { // of prompts of 1024 tokens
		t.Run(chunk, func(t *testing.T) { nearItsModel(t, chunk) })
	}
}

func nearItsModel(t *testing.T, chunk string) {
	t.Helper()
	limits := []string{"--max-num-seqs", "32", "--max-num-batched-tokens", chunk}
	dir := estimatedProfile(t, append([]string{"--mode", "aggregated"}, limits...)...)
	_, rec := results(t, dir)
	for share, tolerance := range map[float64]struct{ ttft, itl float64 }{0.1: {0.03, 0.02}, 0.7: {0.05, 0.04}} {
		load := []string{"--isl", "1024", "--osl", "128", "--requests", "3000", "--ttft", "200", "--itl", "20", "--rate", fmt.Sprintf("%.4g", share*rec.Aggregated.SustainedRPS)}
		model := simulated(t, append(limits, load...)...)
		surfaces := simulated(t, append([]string{"--profile", dir}, load...)...)
		if a, b := surfaces.Pools[0], model.Pools[0]; a.MaxNumSeqs != b.MaxNumSeqs || a.MaxTokens != b.MaxTokens {
			t.Errorf("limits %+v, profiled with %+v", a, b)
		}
		for what, near := range map[string]float64{"ttft": tolerance.ttft, "itl": tolerance.itl} {
			got, want := surfaces.Latency[what].Mean, model.Latency[what].Mean
			if math.Abs(got/want-1) > near {
				t.Errorf("%.0f %% of the rate that holds: mean %s %.3f ms on the surfaces, %.3f on the model: want within %.0f %%", 100*share, what, got, want, 100*near)
			}
		}
	}
}
