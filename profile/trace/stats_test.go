package trace_test

import (
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"

	"pgregory.net/rapid"

	"plimsoll/engine/enginetest"
	"plimsoll/profile"
	"plimsoll/profile/trace"
)

func TestSummaryOfLittle(t *testing.T) {
	s := must[trace.Stats](t)(trace.Summarize(trace.Of(), time.Second))
	if s.Requests != 0 || s.Rate != 0 || s.Peaks[0] != (trace.Peak{Window: time.Second}) || s.ISL != (trace.LengthStats{}) {
		t.Errorf("of nothing: %+v", s)
	}
	s = must[trace.Stats](t)(trace.Summarize(trace.Of(trace.Arrival{At: 5, ISL: 3, OSL: 4}), time.Second))
	if s.Requests != 1 || s.Duration != 0 || s.Rate != 0 || s.CV != 0 || s.Peaks[0].Requests != 1 || s.ISL != (trace.LengthStats{Mean: 3, P50: 3, P99: 3, Max: 3}) {
		t.Errorf("of one: %+v", s)
	}
}

// Peaks against a dumb count: windows start at the first arrival.
func TestPeaksAreTheFullestWindow(t *testing.T) {
	enginetest.Check(t, func(t *rapid.T) {
		at := time.Duration(rapid.IntRange(0, 50).Draw(t, "start"))
		window := time.Duration(rapid.IntRange(1, 9).Draw(t, "window"))
		var all []trace.Arrival
		in := map[time.Duration]int{}
		most := 0
		for _, gap := range rapid.SliceOfN(rapid.IntRange(0, 12), 1, 50).Draw(t, "gaps") {
			at += time.Duration(gap)
			all = append(all, trace.Arrival{At: at, ISL: 1, OSL: 1})
			i := (at - all[0].At) / window
			in[i]++
			most = max(most, in[i])
		}
		s := must[trace.Stats](t)(trace.Summarize(trace.Of(all...), window))
		if s.Peaks[0].Requests != most {
			t.Fatalf("peak %d, want %d", s.Peaks[0].Requests, most)
		}
	})
}

// Beyond a million different blocks the share of repeated ones is an estimate.
func TestRepeatedBlocksOfLongTraces(t *testing.T) {
	s := poisson(1, 6_000, 1)
	s.ISL = trace.Fixed(400)
	s.Prefixes = trace.Prefixes{Groups: 1, Tokens: 1, BlockTokens: 1, Share: 0}
	fresh := generate(t, s) // 2.4 million blocks, all different
	all := append(fresh, fresh[:2000]...)
	st := must[trace.Stats](t)(trace.Summarize(trace.Of(all...)))
	want := 2000.0 / 8000
	if st.Blocks.Exact || st.Blocks.Blocks != 3_200_000 || math.Abs(st.Blocks.Repeated-want) > 0.003 {
		t.Errorf("%+v, want %v repeated", st.Blocks, want)
	}
}

func BenchmarkPoisson(b *testing.B) {
	s := poisson(1000, b.N, 1)
	s.ISL = must[trace.LogNormal](b)(trace.NewLogNormal(1155, 4142, 0))
	benchmark(b, must[trace.Trace](b)(trace.Generate(s)))
}

func BenchmarkPoissonFixedLengths(b *testing.B) {
	s := poisson(1000, b.N, 1)
	s.ISL = trace.Fixed(1000)
	benchmark(b, must[trace.Trace](b)(trace.Generate(s)))
}

func BenchmarkGamma(b *testing.B) {
	s := poisson(1000, b.N, 1)
	s.Gaps = trace.Gaps{Process: profile.Gamma, CV: 2}
	benchmark(b, must[trace.Trace](b)(trace.Generate(s)))
}

func BenchmarkSine(b *testing.B) {
	s := poisson(1000, b.N, 1)
	s.Rate = trace.Sine{Mean: 1000, Amplitude: 0.8, Period: time.Minute}
	benchmark(b, must[trace.Trace](b)(trace.Generate(s)))
}

func benchmark(b *testing.B, tr trace.Trace) {
	b.ReportAllocs()
	n := 0
	for _, err := range tr {
		if err != nil {
			b.Fatal(err)
		}
		n++
	}
	if n != b.N {
		b.Fatalf("%d arrivals of %d", n, b.N)
	}
}

func BenchmarkRead(b *testing.B) {
	for _, name := range []string{"azure-2023.csv", "mooncake.jsonl", "request-trace.jsonl.gz"} {
		b.Run(name, func(b *testing.B) {
			data, err := os.ReadFile(filepath.Join("testdata", name))
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			b.SetBytes(int64(len(data)))
			n := 0
			for b.Loop() {
				all, err := readText(string(data), trace.Options{})
				if err != nil {
					b.Fatal(err)
				}
				n += len(all)
			}
			b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "requests/s")
		})
	}
}

func BenchmarkSummarize(b *testing.B) {
	tr := must[trace.Trace](b)(trace.Generate(poisson(1000, b.N, 1)))
	b.ReportAllocs()
	s := must[trace.Stats](b)(trace.Summarize(tr, time.Second, 10*time.Second, time.Minute))
	if s.Requests != b.N {
		b.Fatal(s.Requests)
	}
}
