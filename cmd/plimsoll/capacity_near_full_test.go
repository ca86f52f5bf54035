//go:build full

package main

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"plimsoll/profile"
)

// nearPlan is a plan of few layouts at so many requests/s.
func nearPlan(t *testing.T, qps string) sizedPlans {
	t.Helper()
	var out sizedPlans
	text := ran(t, exitDone, "capacity", "plan", "--model", "llama-3.1-8b", "--gpu", "h100-sxm", "--tp", "1", "--max-num-batched-tokens", "384", "--cost-per-gpu-hour", "2",
		"--rate", qps, "--isl", "500", "--isl-p99", "500", "--osl", "200", "--osl-p99", "200", "--ttft-p99", "300", "--itl-p99", "15", "--format", "json")
	if err := json.Unmarshal([]byte(text.out.String()), &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// At 57 requests/s both layouts cost the same. At 2 % more one of them takes an engine
// more, and a plan of that load has the other one first.
func TestPlanSaysWhichLayoutIsNear(t *testing.T) {
	at := func(p sizedPlans) int {
		return slices.IndexFunc(p.Plans[0].Warnings, func(w profile.Warning) bool { return w.Code == layoutNear })
	}
	plan, more, far := nearPlan(t, "57"), nearPlan(t, "58.14"), nearPlan(t, "62")
	i := at(plan)
	if i < 0 {
		t.Fatalf("nothing is said beside %v", plan.Plans[0].Warnings)
	}
	if m := plan.Plans[0].Warnings[i].Message; !strings.HasPrefix(m, "at 2 % more load, "+more.Plans[0].Layout+" on H100-SXM is cheaper (") || more.Plans[0].Layout == plan.Plans[0].Layout {
		t.Errorf("%q, and at 2 %% more load the plan is %s", m, more.Plans[0].Layout)
	}
	if i := at(far); i >= 0 {
		t.Errorf("%s is said to be near: %v", far.Plans[0].Layout, far.Plans[0].Warnings[i])
	}
}
