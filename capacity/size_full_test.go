//go:build full

package capacity

import (
	"testing"
	"time"
)

func TestSizeIsNotFooledByAShortTrialNextToSaturation(t *testing.T) {
	// At 97 % one engine makes 1.6 % wait for more than 66 services (M/D/1), but in
	// long periods with quiet hours between them.
	traffic, err := fixed(19.4, 100, 1).PeakTraffic()
	if err != nil {
		t.Fatal(err)
	}
	slo := SLO{TTFT: 67*50*ms + ms, ITL: time.Second}
	fooled := 0
	for seed := range uint64(2) {
		short, err := line().try([]int{1, 1}, traffic, slo, DefaultTrialRequests, seed)
		if err != nil {
			t.Fatal(err)
		}
		if short.Holds() {
			fooled++
		}
		got, err := Size(line(), traffic, slo, SizeOptions{Seed: seed})
		if err != nil {
			t.Fatal(err)
		}
		want(t, got, 2, 1)
		rough, err := Size(line(), traffic, slo, SizeOptions{Seed: seed, Rough: true})
		if err != nil || rough.Trials >= got.Trials || short.Holds() && rough.Replicas[0] != 1 {
			t.Errorf("rough: %v in %d trials, %v", rough.Replicas, rough.Trials, err)
		}
	}
	if fooled == 0 {
		t.Error("no short trial holds: this shows nothing")
	}
}
