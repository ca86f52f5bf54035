//go:build full

package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"plimsoll/profile"
	"plimsoll/recommend"
	"plimsoll/sweep"
)

// The adaptive search against upstream's plan, on engines in virtual time with
// noise in their steps: each picks what is best by its own rule, adaptive at a fraction
// of the engine-time and with surfaces that are no further from the truth, but for five
// parts in a thousand. It prints a table of both, for seven deployments.
func TestAdaptiveAgainstGrid(t *testing.T) {
	t.Parallel()
	rows := []string{"| deployment | search | picks (prefill; decode), noiseless tokens/s/GPU | engine-seconds | launches | requests | TTFT error, mean (worst) | ITL error, mean (worst) |", "|---|---|---|---|---|---|---|---|"}
	for _, c := range append(contests(), contest{"llama-3.1-70b", "h200-sxm", 400 * time.Millisecond, 30 * time.Millisecond}) {
		t.Run(c.String(), func(t *testing.T) {
			s := c.seeker(t)
			grid, adaptive := s.find(t, sweep.Grid), s.find(t, sweep.Adaptive)
			rows = append(rows, fmt.Sprintf("| %s | grid | %s |", c, grid.row()), fmt.Sprintf("| | adaptive | %s |", adaptive.row()))
			s.checkPicks(t, sweep.Grid, grid.res)
			s.checkPicks(t, sweep.Adaptive, adaptive.res)
			checkContest(t, grid, adaptive)
			s.checkPlan(t, sweep.Grid, grid.res.Cost, 0.8, 1.2)
			s.checkPlan(t, sweep.Adaptive, adaptive.res.Cost, 1/planFactor, planFactor)
		})
	}
	t.Log("\n" + strings.Join(rows, "\n"))
}

func checkContest(t *testing.T, grid, adaptive found) {
	t.Helper()
	a, g := adaptive.res.Cost, grid.res.Cost
	if most := contestShare * g.Measuring(); a.Measuring() > most {
		t.Errorf("%.1f engine-seconds, %g of the grid's are %.1f", a.Measuring(), contestShare, most)
	}
	launched := func(c sweep.Cost) float64 { return c.Measuring() + contestLaunch.Seconds()*float64(c.Launches) }
	if most := launchedShare * launched(g); launched(a) > most {
		t.Errorf("%.1f engine-seconds with %d launches, %g of the grid's are %.1f", launched(a), a.Launches, launchedShare, most)
	}
	checkSurface(t, "prefill", adaptive.prefill, grid.prefill, adaptive.res.Prefill, grid.res.Prefill)
	checkSurface(t, "decode", adaptive.decode, grid.decode, adaptive.res.Decode, grid.res.Decode)
	if slices.ContainsFunc(adaptive.res.Points, func(p profile.Point) bool { return p.Failures > 0 }) {
		t.Error("requests failed")
	}
}

// checkSurface wants a surface hardly further from the truth than the grid's of the same
// engine, and of any engine within surfaceError.
func checkSurface(t *testing.T, phase string, adaptive, grid fidelity, a, g recommend.Choice) {
	t.Helper()
	if a.Picked.Label() == g.Picked.Label() && adaptive.mean > grid.mean+0.005 || adaptive.mean > surfaceError {
		t.Errorf("%s surface of %s: %v from the truth, the grid's of %s %v", phase, a.Picked.Label(), adaptive, g.Picked.Label(), grid)
	}
}
