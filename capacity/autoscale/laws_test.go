package autoscale

import (
	"iter"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"plimsoll/capacity"
	"plimsoll/engine"
	"plimsoll/engine/enginetest"
	"plimsoll/engine/sim/fleet"
	"plimsoll/planner/policy"
	"plimsoll/profile/trace"
)

// Whatever comes, GPU-hours are within the bounds. Requests of a few steps have
// left a draining engine long before the rule may start another, so that what
// drains does not come on top.
func TestGPUHoursAreWithinTheBounds(t *testing.T) {
	enginetest.Check(t, func(t *rapid.T) {
		low := rapid.IntRange(1, 8).Draw(t, "min")
		high := low + rapid.IntRange(0, 12).Draw(t, "more")
		o := options(rapid.IntRange(low, high).Draw(t, "start"), time.Duration(rapid.IntRange(0, 300).Draw(t, "start-up"))*time.Second, rapid.Float64Range(1, 20).Draw(t, "full"))
		o.Rules = []policy.Simple{policy.DefaultSimple(1, low, high)}
		r, err := Run(steady(rapid.Float64Range(0.1, 8).Draw(t, "rate"), rapid.IntRange(1, 20).Draw(t, "osl")), o)
		if err != nil {
			t.Fatal(err)
		}
		hours := o.For.Hours()
		// A drained engine finishes what it holds: 20 steps of a second, some with prompts.
		slack := float64(r.Changes*4)*40/3600 + 1e-9
		if r.GPUHours < float64(low)*hours-1e-9 || r.GPUHours > float64(high)*hours+slack {
			t.Fatalf("%v GPU-hours: want %v to %v", r.GPUHours, float64(low)*hours, float64(high)*hours)
		}
	})
}

// A constant load and engines that start at once: the rule settles, and stays.
func TestConstantLoadSettles(t *testing.T) {
	enginetest.Check(t, func(t *rapid.T) {
		o := options(rapid.IntRange(4, 40).Draw(t, "start"), 0, 1)
		o.For = 2 * time.Hour
		r, err := Run(steady(rapid.Float64Range(0.2, 1.2).Draw(t, "rate"), 10), o)
		if err != nil {
			t.Fatal(err)
		}
		settled := r.Looks[len(r.Looks)/2].Pools[0].Wanted
		for _, l := range r.Looks[len(r.Looks)/2:] {
			if l.Pools[0].Wanted != settled {
				t.Fatalf("%v: %d GPUs after %d", l.To, l.Pools[0].Wanted, settled)
			}
		}
	})
}

// ramp grows evenly to 30 requests a second within ten minutes: the k-th
// request comes when the integral of the rate, 30/600 · t²/2, reaches k.
func ramp(yield func(fleet.Request) bool) {
	for t, k := 0.0, 0; ; k++ {
		for t*t*30/600/2 < float64(k) {
			t += 0.001
		}
		if !yield(fleet.Request{At: engine.FromSeconds(t), ISL: 1, OSL: 20}) {
			return
		}
	}
}

// narrow makes an engine hold 20 requests at once, so that others wait.
func narrow(o Options) Options {
	o.Fleet.Pools[0].Engine.Limits.MaxNumSeqs = 20
	return o
}

// While load only grows, engines that take longer to start never do better under
// a rule that always wants more. Under the whole rule they can: misses call for
// steps of twice the size, so that a fleet that falls behind first may overtake.
func TestMoreStartUpIsNeverBetterOnARamp(t *testing.T) {
	before, worse := 2.0, 0
	for _, startUp := range []time.Duration{0, 15 * time.Second, time.Minute, 2 * time.Minute, 5 * time.Minute} {
		o := narrow(options(4, startUp, 0.001))
		o.Rules[0].MuchGPUs = o.Rules[0].StepGPUs
		got := mustRun(t, iter.Seq[fleet.Request](ramp), o).Attainment()
		if got > before {
			t.Errorf("start-up %v: attainment %v, above %v with less", startUp, got, before)
		}
		if got < before-0.01 {
			worse++
		}
		before = got
	}
	if worse < 3 {
		t.Errorf("attainment fell with only %d of the start-ups: the ramp is too easy to tell", worse)
	}
}

// More engines allowed never hold less of the SLO on the same ramp.
func TestAHigherLimitIsNeverWorseOnARamp(t *testing.T) {
	before := -1.0
	for _, most := range []int{4, 8, 16, 24, 40} {
		o := narrow(options(4, 15*time.Second, 20))
		o.Rules[0].MaxGPUs = most
		got := mustRun(t, iter.Seq[fleet.Request](ramp), o).Attainment()
		if got < before {
			t.Errorf("at most %d GPUs: attainment %v, below %v with fewer", most, got, before)
		}
		before = got
	}
}

// A day has the pattern's rate in every hour, within the noise of Poisson.
func TestDay(t *testing.T) {
	w := capacity.Workload{PeakQPS: 2.1, AvgISL: 100, P99ISL: 400, AvgOSL: 10, P99OSL: 10, Pattern: "business_hours", PeakToAverage: 2.1, PeakWindow: time.Hour}
	requests, err := Day(w, 1, 0)
	if err != nil {
		t.Fatal(err)
	}
	var hours [24]float64
	for r := range requests {
		hours[int(r.At.Duration().Hours())]++
		if r.OSL != 10 {
			t.Fatalf("OSL %d", r.OSL)
		}
	}
	for h, rate := range w.Day() {
		if want := rate * 3600; hours[h] < want*0.8 || hours[h] > want*1.2 {
			t.Errorf("hour %d: %v requests, want about %v", h, hours[h], want)
		}
	}
	if _, err := Day(capacity.Workload{}, 1, 0); err == nil {
		t.Error("a workload of nothing has a day")
	}
}

// What the requests of a day share comes with them, in the engine's blocks, and
// changes neither when they come nor how long they are.
func TestDayShares(t *testing.T) {
	w := capacity.Workload{PeakQPS: 0.05, AvgISL: 256, P99ISL: 1024, AvgOSL: 10, P99OSL: 10, Pattern: trace.Flat, PeakToAverage: 1, Prefixes: trace.Prefixes{Groups: 2, Tokens: 128, Share: 1}}
	var days [2][]fleet.Request
	for i, block := range []int{0, 32} {
		requests, err := Day(w, 1, block)
		if err != nil {
			t.Fatal(err)
		}
		days[i] = slices.Collect(requests)
	}
	if len(days[0]) != len(days[1]) || len(days[0]) < 1000 {
		t.Fatalf("%d and %d requests", len(days[0]), len(days[1]))
	}
	heads := map[uint64]bool{}
	for i, r := range days[1] {
		if len(r.Prefix) != r.ISL/32 || days[0][i].Prefix != nil || r.At != days[0][i].At || r.ISL != days[0][i].ISL {
			t.Fatalf("request %d: %d tokens in %d blocks, without blocks %+v", i, r.ISL, len(r.Prefix), days[0][i])
		}
		if len(r.Prefix) > 3 {
			heads[r.Prefix[3]] = true
		}
	}
	if len(heads) != 2 {
		t.Errorf("%d beginnings of 128 tokens, want those of 2 groups", len(heads))
	}
}
