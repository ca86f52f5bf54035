package main

import (
	"encoding/json"
	"math"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// simulated runs engine simulate and reads what it says as JSON.
func simulated(t *testing.T, args ...string) simulationFile {
	t.Helper()
	p := ran(t, exitDone, append([]string{"engine", "simulate", "--format", "json"}, args...)...)
	var f simulationFile
	if err := json.Unmarshal([]byte(p.out.String()), &f); err != nil {
		t.Fatalf("%v in\n%s", err, &p.out)
	}
	return f
}

// A fleet on a profile's surfaces, which come from the latency model, does what
// the fleet on that model does, as far as surfaces can know: the time per
// request outside of steps, and what a prompt adds to a step besides its tokens,
// are in TTFT alone.
func TestSimulateFromProfileIsNearItsModel(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "prof")
	ran(t, exitDone, "profile-sla", "--engine", "estimate", "--model", "llama-3.1-8b", "--gpu", "h100-sxm", "--tp", "1",
		"--isl", "1024", "--osl", "128", "--ttft", "200", "--itl", "20", "--quiet", "--output-dir", dir)
	load := []string{"--isl", "1024", "--osl", "128", "--requests", "2000", "--ttft", "200", "--itl", "20", "--max-num-seqs", "256", "--max-num-batched-tokens", "8192", "--rate"}
	for rate, tolerance := range map[string]struct{ ttft, itl float64 }{"0.2": {0.05, 0.01}, "4": {0.25, 0.02}, "10": {0.25, 0.05}} {
		model := simulated(t, append(load, rate)...)
		surfaces := simulated(t, append(append([]string{"--profile", dir}, load...), rate)...)
		for what, near := range map[string]float64{"ttft": tolerance.ttft, "itl": tolerance.itl} {
			got, want := surfaces.Latency[what].Mean, model.Latency[what].Mean
			if math.Abs(got/want-1) > near {
				t.Errorf("%s requests/s: mean %s %.3f ms on the surfaces, %.3f on the model: want within %.0f %%", rate, what, got, want, 100*near)
			}
		}
	}
}

// What the file says adds up.
func TestSimulateCounts(t *testing.T) {
	f := simulated(t, "--requests", "3000", "--rate", "30", "--replicas", "3", "--isl", "800", "--isl-p99", "4000", "--osl", "100", "--osl-p99", "600",
		"--arrival", "gamma", "--cv", "3", "--router", "least_loaded", "--ttft", "100", "--itl", "12", "--max-model-len", "3000")
	r := f.Requests
	if r.Offered != 3000 || r.Finished+r.Rejected != r.Offered || r.Rejected == 0 || r.Lost+r.Unfinished != 0 {
		t.Errorf("requests %+v: want 3000 finished or, a few, rejected", r)
	}
	if f.Latency["ttft"].N != r.Finished || f.Latency["e2e"].N != r.Finished {
		t.Errorf("%d TTFTs and %d E2Es of %d finished requests", f.Latency["ttft"].N, f.Latency["e2e"].N, r.Finished)
	}
	a := f.Attainment
	if a == nil || a.Requests != r.Offered || a.Both > min(a.TTFT, a.ITL) || a.TTFT <= 0 || a.TTFT >= 1 {
		t.Errorf("attainment %+v of %d requests", a, r.Offered)
	}
	if want := a.Both * float64(r.Offered) / f.Seconds; math.Abs(f.Rates.GoodRequests-want) > 1e-9*want {
		t.Errorf("goodput %v requests/s, attainment says %v", f.Rates.GoodRequests, want)
	}
	var arrivals, finished int64
	for i, b := range f.Series {
		arrivals, finished = arrivals+b.Arrivals, finished+b.Finished
		if i > 0 && b.From != f.Series[i-1].To {
			t.Errorf("bin %d begins at %v, the one before ends at %v", i, b.From, f.Series[i-1].To)
		}
	}
	if arrivals != r.Offered || finished != r.Finished {
		t.Errorf("the series has %d arrivals and %d finished, want %d and %d", arrivals, finished, r.Offered, r.Finished)
	}
	if len(f.Warnings) != 1 || f.Warnings[0].Code != "rejected" {
		t.Errorf("warnings %v: want the rejected ones alone", f.Warnings)
	}
	// Little's law over the whole run, which ends empty: L·T = Σ time in the fleet.
	if l, w := r.InFlight*f.Seconds, f.Latency["e2e"].Mean/1e3*float64(r.Finished); math.Abs(l/w-1) > 1e-3 {
		t.Errorf("%.1f request-seconds in the fleet by count, %.1f by duration", l, w)
	}
}

// Ctrl-C ends a long run at once, with its own exit code.
func TestSimulateStops(t *testing.T) {
	p := start(t, nil, "engine", "simulate", "--requests", "1000000000", "--rate", "10")
	time.Sleep(300 * time.Millisecond)
	p.signal(t, syscall.SIGINT)
	if code := p.wait(t); code != exitInterrupted || p.out.String() != "" {
		t.Errorf("exit code %d, stdout %q", code, &p.out)
	}
}
