package capacity

import (
	"strings"
	"testing"
	"time"

	"plimsoll/engine"
	"plimsoll/engine/sim/fleet"
)

// spotFleet is two pools of a small model, with spare room.
func spotFleet(t *testing.T) (Layout, Traffic, SLO) {
	t.Helper()
	l := Layout{
		Strategy: Disaggregated,
		Pools: []EnginePool{
			engines(t, "llama-3.1-8b", "h100-sxm", 1, engine.RolePrefill),
			engines(t, "llama-3.1-8b", "h100-sxm", 1, engine.RoleDecode),
		},
		Transfer: fleet.Transfer{KV: engine.KVBytes{PerToken: 131072}, BytesPerSecond: 50e9, Serial: true},
	}
	w := Workload{Rate: 20, ISL: 1000, ISLP99: 1000, OSL: 200, OSLP99: 200, PeakToAverage: 1, Pattern: "flat"}
	traffic, err := w.PeakTraffic()
	if err != nil {
		t.Fatal(err)
	}
	return l, traffic, SLO{TTFT: 500 * time.Millisecond, ITL: 30 * time.Millisecond}
}

// More engines make up for interruptions.
func TestHardened(t *testing.T) {
	l, traffic, slo := spotFleet(t)
	in := Interruptions{Pool: 1, PerHour: 12, StartUp: 5 * time.Minute}
	bare, err := Interrupted(l, []int{2, 2}, traffic, slo, in, 1)
	if err != nil {
		t.Fatal(err)
	}
	replicas, risk, err := Hardened(l, []int{2, 2}, traffic, slo, in, 1)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("bare %+v, %v %+v", bare, replicas, risk)
	if bare.Missed <= allowed {
		t.Fatal("the fleet without more engines holds: the test tests nothing")
	}
	if replicas[0] != 2 || replicas[1] != 3 || risk.Missed >= bare.Missed {
		t.Errorf("%v engines, %+v after %+v", replicas, risk, bare)
	}
}

func TestInterruptionsThatCannotBe(t *testing.T) {
	l, traffic, slo := spotFleet(t)
	for want, in := range map[string]Interruptions{
		"pool is 2: want 0 to 1":                   {Pool: 2},
		"interruptions_per_hour is -1: want 0 to":  {PerHour: -1},
		"start_up_s is 7200: want 0 to 3600":       {StartUp: 2 * time.Hour},
		"interruptions_per_hour is 100: want 0 to": {PerHour: 100},
	} {
		if _, err := Interrupted(l, []int{1, 1}, traffic, slo, in, 1); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}
