//go:build full

package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"plimsoll/engine/sim/fleet"
)

// A plan that reuses prefixes is reviewed with its caches: on its own trace the
// fleet stays, with what an earlier version recorded of it too.
func TestReviewOfItsOwnTraceKeepsTheFleet(t *testing.T) {
	t.Parallel()
	traced := alikeTrace(t)
	plan := mustPrint(t, "capacity", "plan", "--model", "llama-3.1-8b", "--gpu", "h200-sxm", "--cloud", "aws", "--tp", "1", "--strategy", "aggregated",
		"--ttft-p99", "1000", "--itl-p99", "100", "--trace", traced, "--kv-dram", "16", "--format", "json")
	var read sizedPlans
	if err := json.Unmarshal(plan, &read); err != nil {
		t.Fatal(err)
	}
	if got, want := read.Inputs.Caches, (planCaches{Reuse: true, Router: fleet.KVAware, DRAMBytes: 16 << 30, DRAMPerSecond: dramGBs * 1e9}); got == nil || *got != want {
		t.Errorf("recorded caches %+v, want %+v", got, want)
	}
	read.Inputs.Caches = nil
	for _, c := range []struct{ plan, warning string }{
		{string(plan), ""},
		{encoded(t, read), "caches_unknown"},
	} {
		var f reviewFile
		if err := json.Unmarshal(mustPrint(t, "capacity", "review", "--trace", traced, "--format", "json", written(t, "plan.json", c.plan)), &f); err != nil {
			t.Fatal(err)
		}
		if last := f.Changes[len(f.Changes)-1]; !strings.HasPrefix(last, "the fleet stays: ") || !f.Fleet.HoldsSLO {
			t.Errorf("changes %q; the planned fleet %+v", f.Changes, f.Fleet)
		}
		if p := read.Plans[0]; f.Resized.HourlyUSD != p.HourlyUSD || f.Resized.BilledGPUs != 8 {
			t.Errorf("$%v an hour for %d GPUs, planned $%v for %d", f.Resized.HourlyUSD, f.Resized.BilledGPUs, p.HourlyUSD, p.BilledGPUs)
		}
		if got := fmt.Sprint(f.Warnings); (c.warning == "" && len(f.Warnings) > 0) || !strings.Contains(got, c.warning) {
			t.Errorf("warnings %s, want %q", got, c.warning)
		}
	}
}
