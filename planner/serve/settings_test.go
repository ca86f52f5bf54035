package serve

import (
	"math"
	"testing"
	"time"

	"plimsoll/planner"
	"plimsoll/profile"
)

// A latency that is not promised is shown nowhere: neither as a setting nor as a metric.
func TestNoPromiseIsNotShown(t *testing.T) {
	s := settingsOf(planner.Deployment{SLA: profile.SLA{TTFT: time.Second}, Pools: make([]planner.Pool, 1)})
	if s.TTFT != 1000 || s.ITL != 0 {
		t.Errorf("%v, %v", s.TTFT, s.ITL)
	}
	if promised(time.Second) != 1000 || !math.IsNaN(promised(0)) {
		t.Errorf("%v, %v", promised(time.Second), promised(0))
	}
}
