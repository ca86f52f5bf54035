package capacity

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"plimsoll/engine"
	"plimsoll/engine/enginetest"
	"plimsoll/engine/sim/fleet"
	"plimsoll/profile/trace"
)

func size(t testing.TB, l Layout, w Workload, slo SLO) Sized {
	t.Helper()
	traffic, err := w.PeakTraffic()
	if err != nil {
		t.Fatal(err)
	}
	got, err := Size(l, traffic, slo, SizeOptions{Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func want(t testing.TB, got Sized, replicas ...int) {
	t.Helper()
	if got.Infeasible != nil || !slices.Equal(got.Replicas, replicas) {
		t.Errorf("%v, want %v; at %+v, below %+v, infeasible %+v", got.Replicas, replicas, got.At, got.Below, got.Infeasible)
	}
}

var loose = SLO{TTFT: time.Hour, ITL: time.Second}

func TestSizeOfDecodeByTheITLThatALargerBatchBreaks(t *testing.T) {
	// A step of n sequences takes 10 ms + n · 0.2 ms: 50 ms at 200 sequences.
	// Of 100 tokens each, 80 requests/s have 80 · 100 · step in flight: engines at
	// n sequences give n/step tokens per second, 4,000 at 50 ms. 8,000 take two
	// at exactly 200 on average, which half of all steps exceed. Three have n =
	// 2667 · step: 57 sequences at 21.4 ms.
	c := cheap{step: 10 * milli, seq: 200 * us}
	l := apart(cheapPool(engine.RolePrefill, cheap{step: milli}, 64, 1e6, 8192), cheapPool(engine.RoleDecode, c, 1000, 1e6, 8192))
	got := size(t, l, fixed(80, 10, 100), SLO{TTFT: time.Second, ITL: 50 * time.Millisecond})
	want(t, got, 1, 3)
	if x := got.At.Pools[1].Running; math.Abs(x-3*57.1) > 5 {
		t.Errorf("%.1f sequences are decoded, Little's law says %.1f", x, 3*57.1)
	}
	if got.Binding != "ITL, by the decode pool" {
		t.Errorf("binding %q", got.Binding)
	}
}

func TestSizeOfDecodeByRoomForKV(t *testing.T) {
	// Each request holds 100 + 100 tokens at its end and, in a decode engine, is
	// there for 100 steps of 10 ms. 95/s make 95 in flight. The cache has blocks
	// for 2,000 tokens, 13 requests of 150 on average: 8 engines hold 104, 7 hold
	// 93. The ITL never moves: only requests that wait show it.
	l := apart(cheapPool(engine.RolePrefill, cheap{step: milli}, 64, 1e6, 8192), cheapPool(engine.RoleDecode, cheap{step: 10 * milli}, 1000, 2000, 8192))
	slo := SLO{TTFT: 20 * time.Second, ITL: 50 * time.Millisecond}
	got := size(t, l, fixed(95, 100, 100), slo)
	if n := got.Replicas[1]; n < 8 || n > 9 {
		t.Errorf("%v decode engines, want 8, or 9 for preemption: %+v", got.Replicas, got.At)
	}
	for _, b := range got.Below {
		if b.Holds() || b.Gaps.Missed > 0 {
			t.Errorf("below: %+v", b)
		}
	}
}

func TestSizeOfDecodeByPlaces(t *testing.T) {
	// 10 places an engine, 1 s each: 10 requests/s an engine. 99/s take ten, which
	// are 99 % busy: the queue of so many servers with constant service stays
	// below a few seconds.
	l := apart(cheapPool(engine.RolePrefill, cheap{step: milli}, 64, 1e6, 8192), cheapPool(engine.RoleDecode, cheap{step: 10 * milli}, 10, 1e6, 8192))
	want(t, size(t, l, fixed(96, 100, 100), SLO{TTFT: 10 * time.Second, ITL: 50 * time.Millisecond}), 1, 10)
}

func TestSizeByEndToEndLatency(t *testing.T) {
	// A step of n takes 10 ms + n · 0.2 ms, and n = rate · 100 · step: at 60/s two
	// engines have steps of 25 ms, E2E 2.5 s on average, three 16.7 ms, 1.7 s.
	c := cheap{step: 10 * milli, seq: 200 * us}
	l := apart(cheapPool(engine.RolePrefill, cheap{step: milli}, 64, 1e6, 8192), cheapPool(engine.RoleDecode, c, 1000, 1e6, 8192))
	w, slo := fixed(60, 10, 100), SLO{TTFT: time.Second, ITL: time.Second, E2EP99: 4 * time.Second}
	got := size(t, l, w, slo)
	want(t, got, 1, 2)
	slo.E2EP99 = 2 * time.Second
	got = size(t, l, w, slo)
	want(t, got, 1, 3)
	if got.Binding != "end-to-end latency, by the decode pool" {
		t.Errorf("binding %q", got.Binding)
	}
}

// queue is how many of n requests wait and are served for longer than the
// promise, dealt out to so many servers in turn (Lindley's recursion).
func queue(arrivals []trace.Arrival, servers int, service, promise time.Duration) float64 {
	free := make([]time.Duration, servers)
	late := 0.0
	for i, a := range arrivals {
		at := max(a.At, free[i%servers])
		free[i%servers] = at + service
		if i > len(arrivals)/10 && at+service-a.At > promise {
			late++
		}
	}
	return late / float64(len(arrivals)) / 0.9
}

func TestSizeOfPrefillIsThatOfAQueue(t *testing.T) {
	// One prompt a step, 50 ms each, engines in turn: queues with Erlang arrivals
	// and constant service. The decode step takes 1 ms.
	l := apart(cheapPool(engine.RolePrefill, cheap{step: 50 * milli}, 1, 1e6, 100), cheapPool(engine.RoleDecode, cheap{step: milli}, 1000, 1e6, 8192))
	l.Pools[0].Router = fleet.RoundRobin
	promises, requests := []time.Duration{80 * ms, 200 * ms}, 500_000
	if !enginetest.Full {
		promises, requests = promises[:1], 100_000
	}
	for _, promise := range promises {
		for _, qps := range []float64{3, 15, 90} {
			got := size(t, l, fixed(qps, 100, 10), SLO{TTFT: promise, ITL: time.Second})
			source, err := trace.Generate(trace.Spec{Rate: trace.Constant(qps), Gaps: trace.Gaps{Process: "poisson"}, Requests: requests, Seed: 77, ISL: trace.Fixed(100), OSL: trace.Fixed(10)})
			if err != nil {
				t.Fatal(err)
			}
			arrivals, err := trace.Collect(source)
			if err != nil {
				t.Fatal(err)
			}
			n := int(math.Ceil(qps * 0.05))
			// The first token ends a decode step; steps of others make it wait for half of one more, on average.
			for queue(arrivals, n, 50*time.Millisecond, promise-1500*time.Microsecond) > allowed {
				n++
			}
			if d := got.Replicas[0] - n; d < 0 || d > 1 {
				t.Errorf("%g/s within %v: %v engines, queueing says %d", qps, promise, got.Replicas, n)
			}
		}
	}
}

func TestSizeOfAggregatedEnginesThatPromptsStall(t *testing.T) {
	// A prompt makes a step of 200 ms, a gap for all that decode in its engine:
	// with λ/N arrivals a second and requests that stay for E2E, λ/N · E2E of them
	// for one request of 999 gaps, and 1 % is allowed. Steps take 10 ms without
	// prompts and E2E 10 s · (1 + λ/N · 0.2 s): λ/N is 0.86 at most, of 10/s 12.
	l := together(cheapPool(engine.RoleAggregated, cheap{step: 10 * milli, prompt: 1900 * us}, 100, 1e6, 100))
	l.Pools[0].Router = fleet.RoundRobin // LeastLoaded puts prompts where fewer decode
	got := size(t, l, fixed(10, 100, 1000), SLO{TTFT: 2 * time.Second, ITL: 50 * time.Millisecond, StallP99: 50 * time.Millisecond})
	if got.Infeasible != nil || got.Replicas[0] < 11 || got.Replicas[0] > 13 {
		t.Errorf("%v: %+v %+v", got.Replicas, got.At, got.Infeasible)
	}
	// The mean of a request's gaps is 10 ms · (1 + λ/N · 0.2 s)/(1 − …), far below 50 ms on
	// as many engines as keep up: those few prompts are nothing to a request.
	byRequest := size(t, l, fixed(10, 100, 1000), SLO{TTFT: 2 * time.Second, ITL: 50 * time.Millisecond})
	if byRequest.Infeasible != nil || 2*byRequest.Replicas[0] > got.Replicas[0] {
		t.Errorf("%v, with stalls promised %v", byRequest.Replicas, got.Replicas)
	}
}

func TestWhatNoFleetHolds(t *testing.T) {
	l := apart(cheapPool(engine.RolePrefill, cheap{step: 50 * milli}, 8, 1e4, 1000), cheapPool(engine.RoleDecode, cheap{step: 20 * milli}, 100, 1e4, 1000))
	for _, c := range []struct {
		name string
		w    Workload
		slo  SLO
		why  string
	}{
		{"ttft", fixed(1, 100, 100), SLO{TTFT: 69 * ms, ITL: time.Second}, "TTFT of 70 ms (limit 69 ms)"},
		{"itl", fixed(1, 100, 100), SLO{TTFT: time.Second, ITL: 19 * ms}, "ITL of 20 ms (limit 19 ms)"},
		{"e2e", fixed(1, 100, 100), SLO{TTFT: time.Second, ITL: time.Second, E2EP99: 2 * time.Second}, "end-to-end latency of 2050 ms (limit 2000 ms)"},
		{"too long", fixed(1, 9990, 20), SLO{TTFT: time.Minute, ITL: time.Second}, "exceeds the engine's length limit"},
	} {
		got := size(t, l, c.w, c.slo)
		if got.Infeasible == nil || !strings.Contains(got.Infeasible.Why, c.why) {
			t.Errorf("%s: %+v", c.name, got.Infeasible)
			continue
		}
		// What could be promised instead is held.
		if x := got.Infeasible; c.name != "too long" {
			slo := SLO{TTFT: x.TTFT * 102 / 100, ITL: x.ITL * 102 / 100, E2EP99: x.E2EP99 * 102 / 100}
			if again := try(t, l, x.Replicas, c.w, slo, DefaultTrialRequests, 2); !again.Holds() {
				t.Errorf("%s: promised %+v, and then %+v", c.name, slo, again)
			}
		}
		if got.GPUs != 0 || got.HourlyUSD != 0 {
			t.Errorf("%s: %d GPUs", c.name, got.GPUs)
		}
	}
}

// An engine that takes a token a step misses the TTFT with one request: sizing
// simulates few others to say what it could promise.
func TestTinyChunksAreDecidedFast(t *testing.T) {
	l := together(cheapPool(engine.RoleAggregated, cheap{step: 10 * milli}, 1, 1e4, 1))
	got := size(t, l, fixed(1, 3000, 10), SLO{TTFT: time.Second, ITL: time.Second})
	if got.Infeasible == nil || got.At.Requests > leastRequests || got.Trials != 0 {
		t.Errorf("%d requests in the trial, %d trials, %+v", got.At.Requests, got.Trials, got.Infeasible)
	}
}

func TestWhatMoreEnginesWouldHoldButNobodyBuys(t *testing.T) {
	// A prompt among the decoding makes a gap of 10.1 ms, above the promise, and 1 %
	// of the gaps may: 100/s · 10 ms / 1 % = 100 engines, where one does the work.
	l := together(cheapPool(engine.RoleAggregated, cheap{step: 10 * milli, prompt: 10 * us}, 1000, 1e6, 8192))
	l.Pools[0].Router = fleet.RoundRobin
	got := size(t, l, fixed(100, 10, 1000), SLO{TTFT: time.Second, ITL: time.Second, StallP99: 10050 * us.Duration()})
	if got.Infeasible == nil || !strings.HasPrefix(got.Infeasible.Why, "even with 64 times the GPUs") || !strings.HasSuffix(got.Infeasible.Why, "% of requests still miss the gap between tokens") {
		t.Errorf("%v %+v", got.Replicas, got.Infeasible)
	}
}

func TestRequestsThatAreTooLongMissEveryPromise(t *testing.T) {
	// Log-normal lengths whose p99 fits, but of which more than 1 % with their
	// outputs do not.
	l := together(cheapPool(engine.RoleAggregated, cheap{step: milli}, 100, 2310, 4000))
	w := fixed(5, 500, 500)
	w.ISLP99, w.OSLP99 = 1800, 1800
	got := size(t, l, w, SLO{TTFT: time.Minute, ITL: time.Second})
	if got.Infeasible == nil || !strings.Contains(got.Infeasible.Why, "still miss the TTFT") || !strings.HasSuffix(got.Infeasible.Why, "% exceed the engine's length limit") {
		t.Errorf("%+v", got)
	}
}

func TestSizeRefuses(t *testing.T) {
	l := together(cheapPool(engine.RoleAggregated, cheap{step: milli}, 100, 1e4, 4000))
	traffic, err := fixed(5, 10, 10).PeakTraffic()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		l    Layout
		t    Traffic
		slo  SLO
		o    SizeOptions
		says string
	}{
		{"no pools", Layout{Strategy: Aggregated}, traffic, loose, SizeOptions{}, "0 pools"},
		{"strategy", Layout{Strategy: Disaggregated, Pools: l.Pools}, traffic, loose, SizeOptions{}, "1 pools, disaggregated"},
		{"role", apart(l.Pools[0], l.Pools[0]), traffic, loose, SizeOptions{}, "pool 2 is aggregated: want decode"},
		{"slo", l, traffic, SLO{}, SizeOptions{}, "--ttft-p99 is 0s"},
		{"requests", l, traffic, loose, SizeOptions{Requests: 999}, "requests is 999: want 1000"},
	} {
		if _, err := Size(c.l, c.t, c.slo, c.o); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	slow := together(cheapPool(engine.RoleAggregated, cheap{step: 3600 * engine.Second}, 1, 1e4, 4000))
	if traffic, err = fixed(1000, 10, 10).PeakTraffic(); err != nil {
		t.Fatal(err)
	}
	if _, err := Size(slow, traffic, SLO{TTFT: 24 * time.Hour, ITL: 24 * time.Hour}, SizeOptions{}); !errors.Is(err, ErrTooLarge) {
		t.Errorf("%v, want %v", err, ErrTooLarge)
	}
}
