//go:build full

package main

import (
	"fmt"
	"slices"
	"strconv"
	"testing"

	"plimsoll/planner"
)

// runBudgets replays the default policy within what just fits the peak, an engine fewer and
// half of it, beside every split of that budget that stays, and fails where the best of
// those attains more by a point. It starts with what the profile asks for at the peak: what
// growing takes is of the other rows.
func (s scenario) runBudgets(t *testing.T) {
	at := slices.Index(s.args, "--startup-time") // of the default policy alone
	replayed := func(policy string, args ...string) replayPolicyFile {
		if policy == "default" {
			args = append(args, s.args[at:at+2]...)
		}
		r := replayOf(slices.Concat(slices.Delete(slices.Clone(s.args), at, at+2), args, []string{"--policy", policy, "--seeds", itoa(s.asked().seeds)}))
		if r.err != nil {
			t.Fatal(r.err)
		}
		return r.file.Policies[0]
	}
	tp, err := strconv.Atoi(s.args[slices.Index(s.args, "--tp")+1])
	if err != nil {
		t.Fatal(err)
	}
	start := replayed("static-peak").Start
	peak := start.Prefill + start.Decode
	// Two engines have one split, and what is half of three is one fewer than these.
	for _, engines := range slices.Compact([]int{peak, max(2, peak-1), max(2, peak/2)}) {
		s.runBudget(t, engines, tp, replayed)
	}
}

// runBudget is one budget of runBudgets.
func (s scenario) runBudget(t *testing.T, engines, tp int, replayed func(policy string, args ...string) replayPolicyFile) {
	budget := itoa(engines * tp)
	sized := replayed("static-peak", "--max-gpu-budget", budget)
	ours := replayed("default", "--max-gpu-budget", budget, "--start-replicas", sized.Start.String())
	var best replayPolicyFile
	for p := 1; p < engines; p++ { // the first decision of this policy comes when all is over
		split := planner.Replicas{Prefill: p, Decode: engines - p}
		r := replayed("upstream:constant", "--max-gpu-budget", budget, "--adjustment-interval", "86400", "--start-replicas", split.String())
		if r.Scalings.Mean != 0 {
			t.Fatalf("%s does not stay: %g scalings", split, r.Scalings.Mean)
		}
		if p == 1 || r.Both.Mean > best.Both.Mean {
			best = r
		}
	}
	fmt.Printf("| %s, %d GPUs | %d s | – | %s | %s | – | best split, %s: %.2f %.4g | %.3g scalings |\n", s.name, engines*tp, s.startUp,
		ours.Both.share(), ours.GPUHours.figure(), best.Start, 100*best.Both.Mean, best.GPUHours.Mean, ours.Scalings.Mean)
	if ours.Both.Mean < best.Both.Mean-0.01 {
		t.Errorf("%d GPUs: default attains %s, the best split, %s, %s", engines*tp, ours.Both.share(), best.Start, best.Both.share())
	}
}
