//go:build full

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"syscall"
	"testing"

	"plimsoll/engine/enginetest"
)

// A long replay ends with Ctrl-C, at once.
func TestReplayIsInterrupted(t *testing.T) {
	t.Parallel()
	p := start(t, nil, "planner", "replay", "--rate", "2000", "--isl", "3000", "--osl", "500", "--duration", "240h", "--policy", "all", "--ttft", "500", "--itl", "50")
	enginetest.Eventually(t, "replaying", func() bool { return p.ticks(t) > 200 })
	p.signal(t, syscall.SIGINT)
	if code := p.wait(t); code != exitInterrupted {
		t.Errorf("%d: %s", code, p.errout.String())
	}
}

// No tensor-parallel size that attains 99 % takes fewer than nine tenths of the GPUs of
// the engines that are chosen: static-peak sizes by the profile, the choice by simulation.
func TestReplayChoosesTheCheapestEngines(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ model, mode string }{{"llama-3.1-8b", "disaggregated"}, {"llama-3.1-70b", "disaggregated"}, {"llama-3.1-70b", "aggregated"}} {
		load := []string{
			"--model", c.model, "--gpu", "h100-sxm", "--mode", c.mode, "--ttft", "1000", "--itl", "60", "--sla-stat", "p99",
			"--rate", "60", "--isl", "2000", "--osl", "100", "--duration", "2m", "--policy", "static-peak",
		}
		chosen := replayed(t, load...)
		if chosen.Fleet.Chosen == "" {
			t.Fatalf("%+v: nothing says what was chosen", c)
		}
		gpus := chosen.Policies[0].GPUHours.Mean
		fits := 0
		sizes := []int{1, 2, 4, 8}
		for _, tp := range sizes {
			var out, errs bytes.Buffer
			args := append([]string{"plimsoll", "planner", "replay", "--format", "json", "--quiet", "--tp", itoa(tp)}, load...)
			if run(context.Background(), args, streams{in: strings.NewReader(""), out: &out, err: &errs}) != exitDone {
				continue // no room
			}
			fits++
			var one replayFile
			if err := json.Unmarshal(out.Bytes(), &one); err != nil {
				t.Fatal(err)
			}
			if x := one.Policies[0]; x.Both.Mean >= 0.99 && x.GPUHours.Mean < 0.9*gpus {
				t.Errorf("%+v: TP:%d attains %v with %v GPU-hours, the engines chosen (%s) take %v", c, tp, x.Both.Mean, x.GPUHours.Mean, chosen.Fleet.Chosen, gpus)
			}
		}
		if fits == 0 || strings.Contains(c.model, "70b") == (fits == len(sizes)) {
			t.Errorf("%+v: %d sizes fit", c, fits)
		}
	}
}

// A policy's outcome is its own: not that of those that run beside it, nor of their
// order. Seeds are the same for all.
func TestReplayedPoliciesDoNotMeet(t *testing.T) {
	if !raceDetector { // it takes all processors, which others that look at real time need
		t.Parallel()
	}
	load := []string{"--arrival", "gamma", "--rate", "30", "--isl", "3000", "--osl", "50", "--duration", "10m", "--seeds", "2", "--noise", "0.1"}
	of := func(policies string) map[string]replayPolicyFile {
		out := map[string]replayPolicyFile{}
		for _, p := range replayed(t, append(slices.Clone(load), "--policy", policies)...).Policies {
			p.Against = nil
			out[p.Name] = p
		}
		return out
	}
	all, alone, turned := of("all"), of("default"), of("default,upstream:kalman,hpa")
	maps.Copy(turned, alone)
	for name, p := range turned {
		if !bytes.Equal(marshaled(t, p), marshaled(t, all[name])) {
			t.Errorf("%s depends on its company", name)
		}
	}
	for name, p := range all {
		for i, r := range p.Runs {
			if r.Seed != i+1 || r.Outcome.Requests != all["default"].Runs[i].Outcome.Requests {
				t.Errorf("%s: run %d is of seed %d with %d requests", name, i, r.Seed, r.Outcome.Requests)
			}
		}
	}
}

func marshaled(t *testing.T, v any) []byte {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// A budget that is too small for the load holds every policy back, whoever keeps it; no
// budget holds back none.
func TestReplaySaysWhatTheBudgetHeldBack(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"aggregated", "disaggregated"} {
		load := []string{"--mode", mode, "--tp", "1", "--policy", "all", "--rate", "40", "--isl", "3000", "--osl", "100", "--duration", "5m"}
		for _, p := range replayed(t, load...).Policies {
			if p.HeldBack.Mean != 0 {
				t.Errorf("%s, %s: no budget held it back in %v of its decisions", mode, p.Name, p.HeldBack.Mean)
			}
		}
		for _, p := range replayed(t, append(load, "--max-gpu-budget", "2")...).Policies {
			if !(p.HeldBack.Mean > 0 && p.HeldBack.Mean <= 1) {
				t.Errorf("%s, %s: the budget held it back in %v of its decisions", mode, p.Name, p.HeldBack.Mean)
			}
		}
	}
}
