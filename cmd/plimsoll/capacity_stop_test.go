package main

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"plimsoll/capacity"
	"plimsoll/engine"
	"plimsoll/profile"
)

// heavy is a workload whose sizing takes minutes, so that a signal always comes
// before its end.
const heavy = `model: llama-3.1-70b
gpu: h100-sxm,h200-sxm,b200-sxm
peak-qps: 2000
avg-isl: 8192
p99-isl: 32768
avg-osl: 2000
p99-osl: 8000
ttft-p99: 8000
itl-p99: 50
`

// written is the name of a new file.
func written(t *testing.T, name, content string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// heavyPlan is a plan to review whose engines serve long requests.
func heavyPlan(t *testing.T) string {
	p := smallPlan()
	p.Workload = capacity.Workload{PeakQPS: 200, AvgISL: 8192, P99ISL: 8192, AvgOSL: 2000, P99OSL: 2000, Pattern: "flat", PeakToAverage: 1, PeakWindow: p.Workload.PeakWindow}
	p.Inputs = planInputs{Model: "llama-3.1-70b", Weights: engine.BF16, Seed: 1}
	p.Plans[0].Plan = capacity.Plan{
		Strategy: capacity.Aggregated, Layout: "TP:8", TotalGPUsFinal: 16, Costs: capacity.Costs{HourlyUSD: 40}, Provenance: profile.Estimated,
		Pools: []capacity.PoolPlan{{Role: engine.RoleAggregated, Engine: "TP:8", GPU: "H100-SXM", Engines: 2, GPUs: 16}},
	}
	return written(t, "plan.json", encoded(t, p))
}

func heavyTrace(t *testing.T) string {
	var b bytes.Buffer
	b.WriteString("arrival_s,isl,osl\n")
	for i := range 200_000 {
		fmt.Fprintf(&b, "%.3f,8192,2000\n", float64(i)/200)
	}
	return written(t, "trace.csv", b.String())
}

// heavyPrometheus saw 200 requests/s of 8192 and 2000 tokens.
func heavyPrometheus(t *testing.T) string {
	p := steadyPrometheus()
	p.values[0].value, p.values[5].value, p.values[6].value = "12000", "98304000", "24000000"
	p.buckets["prompt_tokens"] = map[string]string{"5000": "0", "10000": "12000", "+Inf": "12000"}
	p.buckets["generation_tokens"] = map[string]string{"1000": "0", "3000": "12000", "+Inf": "12000"}
	s := httptest.NewServer(p)
	t.Cleanup(s.Close)
	return s.URL
}

// Ctrl-C ends a fleet's sizing at once, whichever command sizes it, and nothing
// half done is printed.
func TestSizingStops(t *testing.T) {
	t.Parallel()
	needProc(t)
	workload, plan := written(t, "workload.yaml", heavy), heavyPlan(t)
	for name, args := range map[string][]string{
		"plan":                   {"plan", "--workload", workload},
		"autoscale":              {"autoscale", "--workload", workload, "--pattern", "business_hours"},
		"compare":                {"compare", workload, workload},
		"review of a trace":      {"review", "--trace", heavyTrace(t), plan},
		"review of a Prometheus": {"review", "--prometheus", heavyPrometheus(t), "--served-model-name", "llama", plan},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := start(t, nil, append([]string{"capacity"}, args...)...)
			poll(t, "sizing", func() bool { return p.ticks(t) > 50 })
			p.signal(t, syscall.SIGINT)
			stopped(t, p)
		})
	}
}

// Ctrl-C ends what waits for others too: a pipe that nobody writes, a server
// that does not answer.
func TestWaitingStops(t *testing.T) {
	t.Parallel()
	pipe := filepath.Join(t.TempDir(), "trace.csv")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	asked := make(chan struct{}, 8)
	silent := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		asked <- struct{}{}
		<-r.Context().Done()
	}))
	t.Cleanup(silent.Close)
	opened := func(t *testing.T) {
		w, err := os.OpenFile(pipe, os.O_WRONLY, 0) // waits until the program reads
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = w.Close() }) // its reader is gone
	}
	for _, c := range []struct {
		name    string
		args    []string
		waiting func(*testing.T)
	}{
		{"plan", []string{"plan", "--trace", pipe, "--ttft-p99", "500", "--itl-p99", "50"}, opened},
		{"review of a trace", []string{"review", "--trace", pipe, heavyPlan(t)}, opened},
		{"review of a Prometheus", []string{"review", "--prometheus", silent.URL, heavyPlan(t)}, func(*testing.T) { <-asked }},
	} {
		t.Run(c.name, func(t *testing.T) { // one after the other: they share a pipe
			p := start(t, nil, append([]string{"capacity"}, c.args...)...)
			c.waiting(t)
			p.signal(t, syscall.SIGINT)
			stopped(t, p)
		})
	}
}

// stopped wants a program that a signal ended.
func stopped(t *testing.T, p *program) {
	t.Helper()
	code := p.wait(t)
	if stderr := p.errout.String(); code != exitInterrupted || p.out.String() != "" || !strings.HasPrefix(stderr, "plimsoll: error: interrupted: ") {
		t.Errorf("exit code %d, stdout %q, stderr %q", code, &p.out, stderr)
	}
}

// ticks are those of the processor that a program took so far, hundredths of a
// second (proc_pid_stat(5): utime and stime).
func (p *program) ticks(t *testing.T) int {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	fields := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
	sum := 0
	for _, f := range fields[11:13] {
		n, err := strconv.Atoi(f)
		if err != nil {
			t.Fatal(err)
		}
		sum += n
	}
	return sum
}
