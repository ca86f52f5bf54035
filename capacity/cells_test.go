package capacity

import (
	"math"
	"testing"
	"time"

	"plimsoll/engine"
	"plimsoll/engine/enginetest/cputime"
	"plimsoll/engine/sim/fleet"
)

func TestCellsOf(t *testing.T) {
	l := apart(cheapPool(engine.RolePrefill, cheap{prompt: 100 * us}, 100, 1e6, 100), cheapPool(engine.RoleDecode, cheap{step: 10 * milli, seq: 100 * us}, 200, 1e6, 8192))
	for _, c := range []struct {
		qps             float64
		ttft            time.Duration
		requests, cells int
	}{
		{1, time.Second, DefaultTrialRequests, 1},
		{1000, 10 * time.Second, 149_500, 1}, // (10 s + 50 · 30 ms) · 13 parts
		{2000, 10 * time.Second, 299_000, 1}, // for two there are too few engines
		{4000, 10 * time.Second, 199_333, 3},
		{100, time.Hour, 1_000_000, 1},
	} {
		traffic, err := fixed(c.qps, 100, 50).PeakTraffic()
		if err != nil {
			t.Fatal(err)
		}
		n, cells := l.enough(traffic, SLO{TTFT: c.ttft, ITL: 40 * ms}, DefaultTrialRequests)
		if math.Abs(float64(n-c.requests)) > 1 || cells != c.cells {
			t.Errorf("%g/s within %v: %d requests, %d cells, want %d and %d", c.qps, c.ttft, n, cells, c.requests, c.cells)
		}
	}
}

// layouts70B are Llama-3.1-70B on four H100, in one pool and in two.
func layouts70B(t testing.TB) (one, two Layout) {
	pool := func(r engine.Role) EnginePool { return engines(t, "llama-3.1-70b", "h100-sxm", 4, r) }
	one = together(pool(engine.RoleAggregated))
	two = apart(pool(engine.RolePrefill), pool(engine.RoleDecode))
	two.Transfer = fleet.Transfer{KV: engine.KVBytes{PerToken: 327680}, BytesPerSecond: 200e9, Serial: true}
	return one, two
}

func BenchmarkSize(b *testing.B) {
	one, two := layouts70B(b)
	rag := Workload{Rate: 50, ISL: 8192, ISLP99: 16384, OSL: 256, OSLP99: 512, PeakToAverage: 1.3, PeakWindow: time.Minute, Pattern: "flat"}
	large := chatbot()
	large.Rate = 5000
	for _, c := range []struct {
		name string
		l    Layout
		w    Workload
		slo  SLO
	}{
		{"chatbot/aggregated", one, chatbot(), SLO{TTFT: 500 * ms, ITL: 50 * ms}},
		{"chatbot/disaggregated", two, chatbot(), SLO{TTFT: 500 * ms, ITL: 50 * ms}},
		{"rag/aggregated", one, rag, SLO{TTFT: 4 * time.Second, ITL: 50 * ms}},
		{"rag/disaggregated", two, rag, SLO{TTFT: 4 * time.Second, ITL: 50 * ms}},
		{"rag/tight", two, rag, SLO{TTFT: 2 * time.Second, ITL: 50 * ms}},
		{"5000/disaggregated", two, large, SLO{TTFT: 500 * ms, ITL: 50 * ms}},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			defer cputime.Report(b)()
			for b.Loop() {
				b.ReportMetric(float64(size(b, c.l, c.w, c.slo).GPUs), "GPUs")
			}
		})
	}
}
