//go:build linux

package load

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"testing"
	"time"

	"plimsoll/profile"
)

// patterns are the loads that clients are compared by, against a server in a
// process of its own, so that the processor time is the client's.
var patterns = []struct {
	name string
	pacing
}{
	{"1000x20/staggered", pacing{Streams: 1000, Chunks: 100, Gap: 50 * time.Millisecond}},
	{"1000x20/stepped", pacing{Streams: 1000, Chunks: 100, Gap: 50 * time.Millisecond, Stepped: true}},
	{"1000x50/staggered", pacing{Streams: 1000, Chunks: 200, Gap: 20 * time.Millisecond}},
	{"1000x50/stepped", pacing{Streams: 1000, Chunks: 200, Gap: 20 * time.Millisecond, Stepped: true}},
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// BenchmarkClient is what this client adds to ITL, and its processor time.
func BenchmarkClient(b *testing.B) {
	for _, p := range patterns {
		b.Run(p.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				s := pacedElsewhere(b, p.pacing)
				rs, err := streamPaced(b.Context(), machineClock(), s.url, p.pacing)
				used := cpuTime()
				if err != nil {
					b.Fatal(err)
				}
				notes := <-s.notes
				used -= <-s.begun
				s.stop()
				got := compare(rs, notes)
				b.ReportMetric(micros(got.Kernel.ITL.P50), "kernel-p50-µs")
				b.ReportMetric(micros(got.Kernel.ITL.P99), "kernel-p99-µs")
				b.ReportMetric(micros(got.Kernel.ITL.P999), "kernel-p99.9-µs")
				b.ReportMetric(micros(got.Read.ITL.P50), "read-p50-µs")
				b.ReportMetric(micros(got.Read.ITL.P99), "read-p99-µs")
				b.ReportMetric(micros(got.Read.ITL.P999), "read-p99.9-µs")
				b.ReportMetric(micros(used)/float64(p.Streams*p.Chunks), "cpu-µs/token")
				from, to, _ := growth(rs)
				b.ReportMetric(micros(to-from), "lag-growth-µs")
			}
		})
	}
}

// BenchmarkAiohttp is the same load through testdata/aiohttp_client.py.
func BenchmarkAiohttp(b *testing.B) {
	python := pythonWith("aiohttp")
	if python == "" {
		b.Skip("aiohttp: no Python here has it")
	}
	for _, p := range patterns {
		b.Run(p.name, func(b *testing.B) {
			for b.Loop() {
				s := pacedElsewhere(b, p.pacing)
				spec, err := json.Marshal(map[string]any{"url": s.url, "streams": p.Streams})
				if err != nil {
					b.Fatal(err)
				}
				cmd := exec.CommandContext(b.Context(), python, "testdata/aiohttp_client.py")
				cmd.Stdin, cmd.Stderr = bytes.NewReader(spec), os.Stderr
				text, err := cmd.Output()
				if err != nil {
					b.Fatal(err)
				}
				notes := <-s.notes
				s.stop()
				var out struct {
					CPU  int64 `json:"cpu_ns"`
					Read [][]time.Duration
				}
				if err := json.Unmarshal(text, &out); err != nil {
					b.Fatal(err)
				}
				rs := make([]profile.Request, len(out.Read))
				for i, instants := range out.Read {
					if len(instants) != p.Chunks {
						b.Fatalf("stream %d has %d chunks", i, len(instants))
					}
					for _, at := range instants {
						rs[i].Chunks = append(rs[i].Chunks, profile.Chunk{At: at})
					}
				}
				got := compare(rs, notes)
				b.ReportMetric(micros(got.Read.ITL.P50), "read-p50-µs")
				b.ReportMetric(micros(got.Read.ITL.P99), "read-p99-µs")
				b.ReportMetric(micros(got.Read.ITL.P999), "read-p99.9-µs")
				b.ReportMetric(micros(time.Duration(out.CPU))/float64(p.Streams*p.Chunks), "cpu-µs/token")
			}
		})
	}
}

// pythonWith finds a Python that has a module; empty where there is none.
func pythonWith(module string) string {
	for _, p := range []string{"python3", "/usr/bin/python3"} {
		if exec.Command(p, "-c", "import "+module).Run() == nil {
			return p
		}
	}
	return ""
}
