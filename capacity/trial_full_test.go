//go:build full

package capacity

import (
	"testing"
	"time"

	"plimsoll/engine/enginetest"
)

func TestUpperBoundCoversTheTruth(t *testing.T) {
	trials, truthful := 60, 300_000
	if enginetest.Full {
		trials, truthful = 1000, 1_000_000
	}
	for _, c := range []struct {
		rho, least float64 // least: of 100 bounds, those that have to cover
	}{{0.5, 0.85}, {0.7, 0.8}} {
		// The promise that 1 % of the truth misses.
		w := 0.0
		for waits(c.rho, w) > allowed {
			w += 0.01
		}
		slo := SLO{TTFT: time.Duration((w+1)*50*float64(ms)) + ms, ITL: time.Second}
		truth := try(t, line(), []int{1, 1}, fixed(c.rho/0.05, 100, 1), slo, truthful, 12345).TTFT
		covered := 0.0
		for seed := range trials {
			if try(t, line(), []int{1, 1}, fixed(c.rho/0.05, 100, 1), slo, DefaultTrialRequests, uint64(seed)).TTFT.UsedAtMost*allowed >= truth.Missed {
				covered++
			}
		}
		t.Logf("rho %g: %.1f %% of %d bounds are above the truth, %.3f %%", c.rho, 100*covered/float64(trials), trials, 100*truth.Missed)
		if covered/float64(trials) < c.least {
			t.Errorf("rho %g: %g of %d bounds are above the truth", c.rho, covered, trials)
		}
	}
}
