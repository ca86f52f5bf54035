package autoscale

import (
	"math"
	"testing"
	"time"

	"plimsoll/engine"
	"plimsoll/engine/sim/fleet"
	"plimsoll/planner/policy"
)

// pair is a prefill and a decode pool of so many engines each.
func pair(prefill, decode int) Options {
	o := options(prefill, 0, 0)
	p, d := o.Fleet.Pools[0], o.Fleet.Pools[0]
	p.Engine.Role, d.Engine.Role, d.Replicas = engine.RolePrefill, engine.RoleDecode, decode
	o.Fleet.Pools = []fleet.Pool{p, d}
	o.Rules, o.Full = []policy.Simple{o.Rules[0], o.Rules[0]}, []float64{0, 1000}
	return o
}

func lastLook(r Result) Look { return r.Looks[len(r.Looks)-1] }

// What waits for prefill misses its TTFT, which is no fault of the decode pool;
// a slow decode step is none of the prefill pool.
func TestEachPoolAnswersForItsOwnMisses(t *testing.T) {
	o := pair(4, 4)
	o.Rules = nil
	o.Fleet.Pools[0].Engine.Limits.MaxNumSeqs = 1 // 4 prompts a second, of 6 that come
	l := lastLook(mustRun(t, steady(6, 3), o))
	if l.Pools[0].Seen.Misses < 0.9 || l.Pools[1].Seen.Misses != 0 {
		t.Errorf("late prompts: prefill saw %v missed, decode %v", l.Pools[0].Seen.Misses, l.Pools[1].Seen.Misses)
	}
	o = pair(4, 4)
	o.Rules, o.SLO.ITLP99 = nil, time.Second/2
	l = lastLook(mustRun(t, steady(1, 5), o))
	if l.Pools[0].Seen.Misses != 0 || l.Pools[1].Seen.Misses != 1 {
		t.Errorf("slow tokens: prefill saw %v missed, decode %v", l.Pools[0].Seen.Misses, l.Pools[1].Seen.Misses)
	}
}

// Requests that wait count as load, as those that run.
func TestWaitingRequestsAreLoad(t *testing.T) {
	o := options(4, 0, 4)
	o.Rules, o.Fleet.Pools[0].Engine.Limits.MaxNumSeqs = nil, 2
	if s := lastLook(mustRun(t, steady(10, 10), o)).Pools[0].Seen; s.Utilization != 1 || s.Queue < 1000 {
		t.Errorf("%+v", s)
	}
}

// Engines that start are paid for, but carry nothing yet: 100 requests in flight
// are all that 4 engines of 25 hold, until the others are ready.
func TestStartingEnginesCarryNothing(t *testing.T) {
	r := mustRun(t, steady(10, 10), options(4, 90*time.Second, 25))
	if p := r.Looks[1].Pools[0]; p.GPUs != 8 || p.Seen.Utilization < 0.99 {
		t.Errorf("while they start: %+v", p)
	}
	if p := r.Looks[3].Pools[0]; p.Seen.Utilization > 0.6 {
		t.Errorf("when they are ready: %+v", p)
	}
}

// Requests that no engine holds, among others: missed, but nothing to scale for.
func TestSomeRefusedRequests(t *testing.T) {
	o := options(4, 0, 1000)
	o.Fleet.Pools[0].Engine.Limits.MaxModelLen = 5
	r := mustRun(t, func(yield func(fleet.Request) bool) {
		for i := 0; yield(fleet.Request{At: engine.FromSeconds(float64(i)), ISL: 1, OSL: 2 + 10*(i%2)}); i++ {
		}
	}, o)
	if s := r.TTFT.Share(); math.Abs(s-0.5) > 0.01 || r.Changes != 0 {
		t.Errorf("%v kept, %d changes", s, r.Changes)
	}
}

// The end need not be a look: what comes after the last one counts as well.
func TestTheEndBetweenLooks(t *testing.T) {
	o := options(4, 0, 1000)
	o.Rules, o.For, o.SLO.E2EP99 = nil, 90*time.Second, 5*time.Second
	r := mustRun(t, steady(1, 10), o)
	if math.Abs(r.GPUHours*3600-4*90) > 1e-6 {
		t.Errorf("%v GPU-seconds", r.GPUHours*3600)
	}
	if r.Requests != 90 || r.TTFT.Count < 87 {
		t.Errorf("%d requests, %d first tokens", r.Requests, r.TTFT.Count)
	}
	if r.E2E.Count < 75 || r.E2E.Share() != 0 || r.Attainment() != 0 {
		t.Errorf("10 s where 5 s are promised: %+v", r.E2E)
	}
	if idle := mustRun(t, func(func(fleet.Request) bool) {}, o); math.Abs(idle.GPUHours*3600-4*90) > 1e-6 {
		t.Errorf("idle: %v GPU-seconds", idle.GPUHours*3600)
	}
}
