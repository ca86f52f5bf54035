package capacity

import (
	"testing"
	"time"

	"plimsoll/engine"
)

func TestAFleetHoldsWhatItWasSizedForAndNotFarMore(t *testing.T) {
	l := apart(cheapPool(engine.RolePrefill, cheap{step: milli}, 64, 1e6, 8192), cheapPool(engine.RoleDecode, cheap{step: 10 * milli, seq: 200 * us}, 1000, 1e6, 8192))
	w, slo := fixed(80, 10, 100), SLO{TTFT: time.Second, ITL: 50 * time.Millisecond}
	s := size(t, l, w, slo)
	traffic, err := w.PeakTraffic()
	if err != nil {
		t.Fatal(err)
	}
	for times, want := range map[float64]bool{0.5: true, 1: true, 2: false} {
		if holds, err := s.HoldsAt(times, traffic, slo, SizeOptions{Seed: 1}); err != nil || holds != want {
			t.Errorf("%v at %g times the traffic: holds %v, want %v (%v)", s.Replicas, times, holds, want, err)
		}
	}
}
