//go:build full

package trace_test

import (
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"

	"plimsoll/profile/trace"
)

// The facts that the trace's publishers and others state, on the whole files.
func TestWholeTraces(t *testing.T) {
	root := os.Getenv("PLIMSOLL_DATA")
	if root == "" {
		t.Skip("NOT RUN: PLIMSOLL_DATA names no folder with traces/azure-2023-conv.csv and the others of testdata/README.md")
	}
	path := func(name string) string { return filepath.Join(root, "traces", name) }
	summarize := func(name string) trace.Stats {
		_, all := open(t, path(name), trace.Options{})
		return must[trace.Stats](t)(trace.Summarize(trace.Of(all...), time.Second, 10*time.Second, time.Minute))
	}
	for name, want := range map[string]string{
		"azure-2023-conv.csv": "date 0s", "mooncake-fast25-synthetic.jsonl": "ms 0s", "mooncake-arxiv-1000.jsonl": "ms 3.053s",
		"dynamo-request-trace-v1.jsonl.gz": "ms 0s", "servegen-m-mid-10min.csv": "s 0s",
	} {
		r := must[*os.File](t)(os.Open(path(name)))
		f := must[*trace.File](t)(trace.Open(r, name, trace.Options{}))
		if got := f.UnitName() + " " + f.Tick.String(); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
	// Azure: numpy 1.24 on the same file.
	s := summarize("azure-2023-conv.csv")
	for what, c := range map[string][2]float64{
		"requests": {float64(s.Requests), 19366}, "rate": {s.Rate, 5.53042198907183}, "cv": {s.CV, 1.0941982341639556},
		"isl": {s.ISL.Mean, 1154.6974078281523}, "isl p50": {s.ISL.P50, 1020}, "isl p99": {s.ISL.P99, 4142},
		"osl": {s.OSL.Mean, 211.12594237323142}, "osl p50": {s.OSL.P50, 129}, "osl p99": {s.OSL.P99, 601},
		"peak 1 s": {s.Peaks[0].Ratio, 2.8930884535784362}, "peak 10 s": {s.Peaks[1].Ratio, 1.772016677816792}, "peak 60 s": {s.Peaks[2].Ratio, 1.5279123395461114},
	} {
		if !near(c[0], c[1], 1e-9) {
			t.Errorf("azure: %s is %v, want %v", what, c[0], c[1])
		}
	}
	if s := summarize("mooncake-fast25-synthetic.jsonl"); s.Requests != 3993 || s.Blocks.Requests != 3993 {
		t.Errorf("mooncake: %+v", s)
	}
	if s := summarize("mooncake-arxiv-1000.jsonl"); s.Requests != 1000 || s.Duration != 177098*time.Millisecond {
		t.Errorf("mooncake arXiv: %+v", s)
	}
	if s := summarize("dynamo-request-trace-v1.jsonl.gz"); s.Requests != 17 {
		t.Errorf("request trace: %+v", s)
	}
	rates := windows(t, path("servegen-m-mid-10min.csv"))
	gaps, mean, peak := 0, 0.0, 0.0
	for _, w := range rates {
		if w.Rate == 0 {
			gaps++
		}
		mean += w.Rate
		peak = max(peak, w.Rate)
	}
	if len(rates) != 2016 || gaps != 84 || math.Round(mean/2016) != 1790 || math.Round(peak) != 3445 {
		t.Errorf("servegen: %d windows, %d gaps, mean %v, peak %v", len(rates), gaps, mean/2016, peak)
	}
	_, images := open(t, path("servegen-mm-image-10min.csv"), trace.Options{Windows: trace.WindowOptions{ISL: trace.Fixed(1000), Scale: 0.1}})
	if len(images) < 10_000 {
		t.Errorf("servegen images: %d arrivals", len(images))
	}
}
