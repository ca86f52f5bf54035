package autoscale

import (
	"iter"
	"math"
	"strings"
	"testing"
	"time"

	"plimsoll/capacity"
	"plimsoll/engine"
	"plimsoll/engine/sim"
	"plimsoll/engine/sim/fleet"
	"plimsoll/planner/policy"
)

// second is an engine whose every step takes a second, whatever is in it.
type second struct{}

func (second) StepTime(engine.Batch) engine.Picoseconds { return engine.Second }

func (second) DecodeRun(int, int64) (engine.Picoseconds, engine.Picoseconds, int64) {
	return engine.Second, 0, 1 << 40
}

// options are one aggregated pool of engines of one GPU, for ten minutes.
func options(replicas int, startUp time.Duration, full float64) Options {
	return Options{
		Fleet: fleet.Config{Pools: []fleet.Pool{{
			Engine: sim.Config{Role: engine.RoleAggregated, KVBlocks: 100_000, Limits: engine.Limits{MaxNumSeqs: 1000}}, Timer: second{},
			Replicas: replicas, GPUs: 1, Router: fleet.LeastLoaded, StartUp: engine.FromDuration(startUp),
		}}},
		Rules: []policy.Simple{policy.DefaultSimple(1, 4, 40)}, Full: []float64{full},
		SLO:   capacity.SLO{TTFTP99: 5 * time.Second, ITLP99: 2 * time.Second},
		Every: time.Minute, For: 10 * time.Minute,
	}
}

// steady is so many requests per second, evenly spaced, of 1 prompt token.
func steady(rate float64, osl int) iter.Seq[fleet.Request] {
	return func(yield func(fleet.Request) bool) {
		for i := 0; ; i++ {
			if !yield(fleet.Request{At: engine.FromSeconds(float64(i) / rate), ISL: 1, OSL: osl}) {
				return
			}
		}
	}
}

func mustRun(t testing.TB, requests iter.Seq[fleet.Request], o Options) Result {
	t.Helper()
	r, err := Run(requests, o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// Nothing comes: 16 GPUs until the first look, then 4 fewer after every cooldown
// of two looks, down to the least of 4.
func TestDownByHand(t *testing.T) {
	r := mustRun(t, func(func(fleet.Request) bool) {}, options(16, 0, 10))
	if want := 16.*60 + 12*120 + 8*120 + 4*300; math.Abs(r.GPUHours*3600-want) > 1e-6 {
		t.Errorf("%v GPU-seconds, want %v", r.GPUHours*3600, want)
	}
	for i, want := range []float64{16, 12, 12, 8, 8, 4, 4, 4, 4, 4} {
		if h := r.Held[i]; math.Abs(h.GPUs[0]-want) > 1e-9 || math.Abs(h.Hours*60-1) > 1e-9 {
			t.Errorf("minute %d: %+v, want %v GPUs", i, h, want)
		}
	}
	if r.Changes != 3 || len(r.Looks) != 10 || r.Attainment() != 1 {
		t.Errorf("%d changes, %d looks, attainment %v", r.Changes, len(r.Looks), r.Attainment())
	}
}

// Ten requests a second of ten steps each are 100 in flight (Little's law), a
// little more for the step that they wait for. At a full load of 20 that is 4
// engines' work and more: 4 more are paid for from the first look on, and take
// requests half a minute later. 8 have then 0.63 to do, which is neither high
// nor low.
func TestUpByHand(t *testing.T) {
	r := mustRun(t, steady(10, 10), options(4, 30*time.Second, 20))
	if want := 4.*60 + 8*540; math.Abs(r.GPUHours*3600-want) > 1e-6 || r.Changes != 1 {
		t.Errorf("%v GPU-seconds in %d changes, want %v in 1", r.GPUHours*3600, r.Changes, want)
	}
	if p := r.Looks[1].Pools[0]; p.GPUs != 8 || p.Seen.Utilization < 0.6 {
		t.Errorf("second look: %+v", p)
	}
	last := r.Looks[9].Pools[0].Seen
	if last.Utilization < 100./160 || last.Utilization > 110./160 || last.Queue > 100 {
		t.Errorf("last look: %+v", last)
	}
	if r.Requests != 6000 || r.ITL.Missed != 0 || r.TTFT.Missed != 0 {
		t.Errorf("%+v", r)
	}
}

// Without rules a fleet stays as it is, and costs its size.
func TestStatic(t *testing.T) {
	o := options(5, 0, 20)
	o.Rules = nil
	r := mustRun(t, steady(10, 10), o)
	if math.Abs(r.GPUHours-5.*10/60) > 1e-9 || r.Changes != 0 {
		t.Errorf("%v GPU-hours, %d changes", r.GPUHours, r.Changes)
	}
}

// What no engine ever serves is missed, though no sketch has it.
func TestWhatTheEndCutsOffIsMissed(t *testing.T) {
	o := options(0, 0, 20)
	o.Rules = nil
	r := mustRun(t, steady(1, 10), o)
	// All but those of the last 5 s, which may still keep their promise.
	if r.TTFT.Count != r.Requests-5 || r.TTFT.Share() != 0 || r.Attainment() != 0 {
		t.Errorf("%+v", r)
	}
}

// Refused requests are missed, but are no reason to scale.
func TestRefusedRequests(t *testing.T) {
	o := options(4, 0, 20)
	o.Fleet.Pools[0].Engine.Limits.MaxModelLen = 5
	r := mustRun(t, steady(1, 10), o)
	if r.TTFT.Share() != 0 || r.TTFT.Count != r.Requests || r.Changes != 0 {
		t.Errorf("%+v", r)
	}
}

// Each pool of two is scaled by its own signals.
func TestPoolsOfTheirOwn(t *testing.T) {
	o := options(8, 0, 0)
	prefill, decode := o.Fleet.Pools[0], o.Fleet.Pools[0]
	prefill.Engine.Role, decode.Engine.Role = engine.RolePrefill, engine.RoleDecode
	o.Fleet.Pools = []fleet.Pool{prefill, decode}
	o.Rules, o.Full = append(o.Rules, o.Rules[0]), []float64{0, 2}
	r := mustRun(t, steady(0.5, 40), o)
	last := r.Looks[len(r.Looks)-1]
	if last.Pools[0].Wanted != 4 { // 0.5 s of work a second for 8 engines
		t.Errorf("prefill: %+v", last.Pools[0])
	}
	if last.Pools[1].Wanted <= 8 { // 20 in flight on 8 engines of 2
		t.Errorf("decode: %+v", last.Pools[1])
	}
}

func TestCheck(t *testing.T) {
	for _, c := range []struct {
		change func(*Options)
		want   string
	}{
		{func(o *Options) { o.Every = 0 }, "every 0s for 10m0s"},
		{func(o *Options) { o.For = time.Second }, "every 1m0s for 1s"},
		{func(o *Options) { o.SLO.TTFTP99 = 0 }, "ttft_p99"},
		{func(o *Options) { o.Full = nil }, "1 rules and 0 full loads for 1 pools"},
		{func(o *Options) { o.Rules = append(o.Rules, o.Rules[0]) }, "2 rules and 1 full loads"},
		{func(o *Options) { o.Rules[0].MaxGPUs = 0 }, "rule of pool 1: max_gpus is 0"},
		{func(o *Options) { o.Rules[0].GroupGPUs = 2 }, "groups of 2 GPUs, its engines have 1"},
		{func(o *Options) { o.Fleet.Pools[0].Timer = nil }, "no step timer"},
	} {
		o := options(4, 0, 20)
		c.change(&o)
		if _, err := Run(steady(1, 1), o); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("error %v lacks %q", err, c.want)
		}
	}
}

func BenchmarkDay(b *testing.B) {
	w := capacity.Workload{PeakQPS: 5, AvgISL: 1000, P99ISL: 4000, AvgOSL: 20, P99OSL: 80, PeakToAverage: 1, Pattern: "business_hours"}
	o := options(40, time.Minute, 10)
	o.For = 24 * time.Hour
	b.ReportAllocs()
	for b.Loop() {
		requests, err := Day(w, 1, 0)
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(mustRun(b, requests, o).Requests), "requests")
	}
}
