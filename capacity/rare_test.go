package capacity

import (
	"testing"
	"time"

	"plimsoll/engine"
)

// Requests that are hours apart do not outlast the simulation's clock, which
// would end a plan for a service that few use.
func TestSizeOfRareRequests(t *testing.T) {
	c := cheap{step: milli, prompt: us}
	l := apart(cheapPool(engine.RolePrefill, c, 10, 1e6, 512), cheapPool(engine.RoleDecode, c, 10, 1e6, 512))
	for _, qps := range []float64{1e-6, 1e-4, 0.002, 0.01} {
		w := fixed(qps, 100, 10)
		got := size(t, l, w, SLO{TTFT: time.Second, ITL: time.Second})
		want(t, got, 1, 1)
		if n := got.At.Requests; n < 700 {
			t.Errorf("%v requests/s: %d were simulated", qps, n)
		}
		traffic, _ := w.PeakTraffic()
		in := Interruptions{Pool: 1, PerHour: 0.01, StartUp: time.Minute}
		if risk, err := Interrupted(l, []int{1, 1}, traffic, SLO{TTFT: time.Second, ITL: time.Second}, in, 1); err != nil || risk.Requests < leastRequests {
			t.Errorf("%v requests/s with interruptions: %+v, %v", qps, risk, err)
		}
	}
}
