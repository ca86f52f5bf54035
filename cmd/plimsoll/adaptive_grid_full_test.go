//go:build full

package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"plimsoll/profile"
	"plimsoll/sweep"
)

// The adaptive search against upstream's plan, on engines in virtual time with
// noise in their steps: the same answer, or one that carries at least as much, at
// a fraction of the engine-seconds. It prints a table of both, for
// six deployments.
func TestAdaptiveAgainstGrid(t *testing.T) {
	t.Parallel()
	rows := []string{"| deployment | search | picks (prefill; decode), noiseless tokens/s/GPU | engine-seconds | launches | requests | TTFT error, mean (worst) | ITL error, mean (worst) |", "|---|---|---|---|---|---|---|---|"}
	for _, c := range contests() {
		t.Run(c.String(), func(t *testing.T) {
			s := c.seeker(t)
			grid, adaptive := s.find(t, sweep.Grid), s.find(t, sweep.Adaptive)
			rows = append(rows, fmt.Sprintf("| %s | grid | %s |", c, grid.row()), fmt.Sprintf("| | adaptive | %s |", adaptive.row()))
			checkContest(t, len(s.options(t, sweep.Grid).Candidates), grid, adaptive)
			s.checkPlan(t, sweep.Grid, grid.res.Cost, 0.8, 1.2)
			s.checkPlan(t, sweep.Adaptive, adaptive.res.Cost, 1/planFactor, planFactor)
		})
	}
	t.Log("\n" + strings.Join(rows, "\n"))
}

func checkContest(t *testing.T, configurations int, grid, adaptive found) {
	t.Helper()
	if a, g := adaptive.res.Prefill.Picked.Label(), grid.res.Prefill.Picked.Label(); a != g {
		t.Errorf("prefill: %s, the grid picks %s", a, g)
	}
	if adaptive.sustained < grid.sustained || adaptive.sustained == 0 {
		t.Errorf("decode: %.1f tokens/s/GPU without noise, the grid's pick has %.1f", adaptive.sustained, grid.sustained)
	}
	a, g := adaptive.res.Cost, grid.res.Cost
	if most := contestShare * g.Measuring(); a.Measuring() > most {
		t.Errorf("%.1f engine-seconds, %g of the grid's are %.1f", a.Measuring(), contestShare, most)
	}
	if a.Launches > configurations {
		t.Errorf("%d launches for %d configurations", a.Launches, configurations)
	}
	if adaptive.prefill.mean > grid.prefill.mean {
		t.Errorf("prefill surface: %v from the truth, the grid's %v", adaptive.prefill, grid.prefill)
	}
	if adaptive.decode.mean > grid.decode.mean {
		t.Errorf("decode surface: %v from the truth, the grid's %v", adaptive.decode, grid.decode)
	}
	if slices.ContainsFunc(adaptive.res.Points, func(p profile.Point) bool { return p.Failures > 0 }) {
		t.Error("requests failed")
	}
}
