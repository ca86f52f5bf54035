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
	p.Workload = capacity.Workload{Rate: 200, ISL: 8192, ISLP99: 8192, OSL: 2000, OSLP99: 2000, Pattern: "flat", PeakToAverage: 1, PeakWindow: p.Workload.PeakWindow}
	p.Inputs = planInputs{Model: "llama-3.1-70b", Weights: engine.BF16, Seed: 1}
	p.Plans[0].Plan = capacity.Plan{
		Strategy: capacity.Aggregated, Layout: "TP:8", TotalGPUsFinal: 16, Costs: capacity.Costs{HourlyUSD: 40}, Provenance: profile.Estimated,
		Pools: []capacity.PoolPlan{{Role: engine.RoleAggregated, Engine: "TP:8", GPU: "H100-SXM", Engines: 2, GPUs: 16}},
	}
	return written(t, "plan.json", encoded(t, p))
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
	if stderr := p.errout.String(); code != exitInterrupted || p.out.String() != "" || !strings.Contains(stderr, "plimsoll: error: interrupted") {
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
