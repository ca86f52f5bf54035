package latency

import (
	"math"
	"testing"

	"plimsoll/engine"
)

func near(t *testing.T, what string, got, want, within float64) {
	t.Helper()
	if math.Abs(got/want-1) > within {
		t.Errorf("%s is %.6f, want %.6f", what, got, want)
	}
}

func TestLoadAtItsEnds(t *testing.T) {
	m := on(t, "llama-3.1-8b", "h100-sxm", engine.Config{})
	alone := m.ClosedLoop(Observation{ISL: 2000, OSL: 200, InFlight: 1})
	near(t, "TPOT of one request", alone.TPOT, m.ITL(1, 2100).Seconds(), 1e-6)
	idle := m.OpenLoop(Observation{ISL: 2000, OSL: 200, Rate: 1e-5})
	near(t, "ITL without load", idle.TPOT, m.ITL(1, 2100).Seconds(), 1e-3)
	near(t, "TTFT without load", idle.TTFT, m.TTFT(2000, 0).Seconds(), 0.01)
}

// More load is slower, and the closed loop's law holds: requests in flight are
// throughput times how long each lives.
func TestLoadIsMonotone(t *testing.T) {
	m := on(t, "qwen3-32b", "h100-sxm", engine.Config{Parallelism: engine.TP(2)})
	var closed, open Means
	for n := 1; n <= 512; n *= 2 {
		next := m.ClosedLoop(Observation{ISL: 4000, OSL: 500, InFlight: n})
		if next.TPOT < closed.TPOT || next.TTFT < closed.TTFT {
			t.Errorf("%d in flight: %+v after %+v", n, next, closed)
		}
		closed = next
		faster := m.OpenLoop(Observation{ISL: 1000, OSL: 200, Rate: float64(n) / 50})
		if faster.TPOT < open.TPOT {
			t.Errorf("%d per 50 s: %+v after %+v", n, faster, open)
		}
		open = faster
	}
}

// 70B FP8 at TP2, ISL 8192: the KV cache holds some 28 sequences, measured TPOT
// stays at 52.4 ms from 32 to 64 in flight, and TTFT leaps.
func TestClosedLoopWaitsForKV(t *testing.T) {
	m := on(t, "llama-3.1-70b", "h100-sxm", engine.Config{Weights: engine.FP8, Parallelism: engine.TP(2)})
	at := func(n int) Means { return m.ClosedLoop(Observation{ISL: 7373, OSL: 922, InFlight: n}) }
	half, full := at(32), at(64)
	near(t, "TPOT at 64 in flight", full.TPOT, half.TPOT, 1e-9)
	if full.TTFT < 10*at(16).TTFT {
		t.Errorf("64 in flight wait %.1f s, 16 %.1f s", full.TTFT, at(16).TTFT)
	}
	if s := m.Predict(Observation{Kind: "warmth"}); s != 0 {
		t.Error("an unknown kind has a time")
	}
}
