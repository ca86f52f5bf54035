//go:build full

package main

import (
	"encoding/json"
	"strings"
	"testing"

	"plimsoll/engine/sim/fleet"
)

// A plan that reuses prefixes is reviewed with its caches: on its own trace the
// fleet stays.
func TestReviewOfItsOwnTraceKeepsTheFleet(t *testing.T) {
	t.Parallel()
	traced := alikeTrace(t)
	plan := mustPrint(t, "capacity", "plan", "--model", "llama-3.1-8b", "--gpu", "h200-sxm", "--cloud", "aws", "--tp", "1", "--strategy", "aggregated",
		"--ttft-p99", "1000", "--itl-p99", "100", "--trace", traced, "--kv-dram", "16", "--format", "json")
	var read sizedPlans
	if err := json.Unmarshal(plan, &read); err != nil {
		t.Fatal(err)
	}
	if got, want := read.Inputs.Caches, (planCaches{Reuse: true, Router: fleet.KVAware, DRAMBytes: 16 << 30, DRAMPerSecond: dramGBs * 1e9}); got != want {
		t.Errorf("recorded caches %+v, want %+v", got, want)
	}
	var f reviewFile
	if err := json.Unmarshal(mustPrint(t, "capacity", "review", "--trace", traced, "--format", "json", written(t, "plan.json", string(plan))), &f); err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(f.Answer, "the fleet stays: ") || len(f.Warnings) > 0 {
		t.Errorf("answer %q, warnings %v", f.Answer, f.Warnings)
	}
	if p := read.Plans[0]; f.Resized.HourlyUSD != p.HourlyUSD || f.Resized.BilledGPUs != 8 {
		t.Errorf("$%v an hour for %d GPUs, planned $%v for %d", f.Resized.HourlyUSD, f.Resized.BilledGPUs, p.HourlyUSD, p.BilledGPUs)
	}
}
