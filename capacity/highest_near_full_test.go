//go:build full

package capacity

import (
	"testing"
	"time"

	"plimsoll/engine/enginetest"
)

// Near the TTFT of a single prompt, few requests show less than many: what short trials
// hold was taken for the highest rate, half of what sizing holds, or for none.
func TestDefectHighestRateWasThatOfShortTrials(t *testing.T) {
	for _, c := range []struct {
		tp2   int
		ttft  time.Duration
		holds float64 // requests/s that Size holds on two GPUs
	}{
		{0, 62 * ms, 19.5}, {1, 72 * ms, 5}, {1, 66 * ms, 0.5},
	} {
		if !enginetest.Full && c.holds == 5 {
			continue
		}
		s := scene{"llama-3.1-8b", "h100-sxm", 1, c.tp2, c.holds, 512, 2048, 128, 128, c.ttft, 60 * ms, 0}
		traffic, err := s.workload().PeakTraffic()
		if err != nil {
			t.Fatal(err)
		}
		o, l := SizeOptions{Seed: 1}, s.layout(t)
		sized, err := Size(l, traffic, s.slo(), o)
		if err != nil || sized.Infeasible != nil || sized.GPUs > 2 {
			t.Fatalf("%s: %d GPUs, %v, %v: want 2", s.name(), sized.GPUs, sized.Infeasible, err)
		}
		got, err := Variants{l}.Highest(2, 0, traffic, s.slo(), o)
		if err != nil || got.Infeasible != nil || got.Rate < c.holds*(1-2*decidedTolerance) {
			t.Errorf("%s: %g requests/s, %v, %v: sizing holds %g", s.name(), got.Rate, got.Infeasible, err, c.holds)
		}
		if got.Binding == "" {
			t.Errorf("%s: nothing binds at %g requests/s", s.name(), got.Rate)
		}
	}
}
