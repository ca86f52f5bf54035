package load

import (
	"runtime"
	"testing"
	"time"

	"plimsoll/profile"
)

// BenchmarkTokens is the whole path of a streamed token at full speed, server
// included: processor time and allocations for each.
func BenchmarkTokens(b *testing.B) {
	p := &bareServer{clock: clock{epoch: time.Now()}, chunks: 1000}
	c := client(b, Options{BaseURL: p.start(b), Model: "m", TokenIDs: true})
	w := profile.Workload{ISL: 100, OSL: 1000, InFlight: 8, Requests: 64}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	used, tokens := cpuTime(), 0
	for b.Loop() {
		rs, _, err := c.Measure(b.Context(), w)
		if err != nil {
			b.Fatal(err)
		}
		for _, r := range rs {
			if !r.OK() {
				b.Fatal(r.Error)
			}
			tokens += len(r.Chunks)
		}
	}
	runtime.ReadMemStats(&after)
	b.ReportMetric(float64((cpuTime()-used).Nanoseconds())/float64(tokens), "cpu-ns/token")
	b.ReportMetric(float64(after.Mallocs-before.Mallocs)/float64(tokens), "allocs/token")
}

// BenchmarkRequests is the cost of a request with one token, server included.
func BenchmarkRequests(b *testing.B) {
	p := &bareServer{clock: clock{epoch: time.Now()}, chunks: 1}
	c := client(b, Options{BaseURL: p.start(b), Model: "m", TokenIDs: true})
	w := profile.Workload{ISL: 100, OSL: 1, InFlight: 16, Requests: 2000}
	used, n := cpuTime(), 0
	for b.Loop() {
		rs, _, err := c.Measure(b.Context(), w)
		if err != nil || !rs[0].OK() {
			b.Fatal(err, rs[0])
		}
		n += len(rs)
	}
	b.ReportMetric(float64((cpuTime()-used).Microseconds())/float64(n), "cpu-µs/request")
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "requests/s")
}
