package main

import (
	"encoding/json"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"plimsoll/engine"
	"plimsoll/engine/field"
	"plimsoll/engine/sim/build"
	"plimsoll/engine/sim/fleet"
	"plimsoll/profile"
	"plimsoll/profile/trace"
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

// What the file says adds up.
func TestSimulateCounts(t *testing.T) {
	t.Parallel()
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
	if want := a.Both * float64(r.Offered) / f.Seconds; math.Abs(*f.Rates.GoodRequests-want) > 1e-9*want {
		t.Errorf("goodput %v requests/s, attainment says %v", *f.Rates.GoodRequests, want)
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
	for i, w := range f.Warnings {
		if ofFit := strings.HasPrefix(w.Code, "fit_"); ofFit == (i == 0) || i == 0 && w.Code != "rejected" {
			t.Errorf("warnings %v: want the rejected ones, and what the fit has no rows of", f.Warnings)
		}
	}
	if len(f.Warnings) == 0 {
		t.Error("no warning of the rejected ones")
	}
	// Little's law over the whole run, which ends empty: L·T = Σ time in the fleet.
	if l, w := r.InFlight*f.Seconds, f.Latency["e2e"].Mean/1e3*float64(r.Finished); math.Abs(l/w-1) > 1e-3 {
		t.Errorf("%.1f request-seconds in the fleet by count, %.1f by duration", l, w)
	}
}

// Ctrl-C ends a long run at once, with its own exit code.
func TestSimulateStops(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "trace.csv")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	p := start(t, nil, "engine", "simulate", "--trace", pipe)
	w, err := os.OpenFile(pipe, os.O_WRONLY, 0) // waits until the program reads
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = w.Close() }() // its reader is gone
	// More than a pipe holds has been read, so that the run is under way.
	rows := "arrival_s,isl,osl\n" + strings.Repeat("0,100,10\n", 1<<15)
	if _, err := io.WriteString(w, rows); err != nil {
		t.Fatal(err)
	}
	p.signal(t, syscall.SIGINT)
	if code := p.wait(t); code != exitInterrupted || p.out.String() != "" {
		t.Errorf("exit code %d, stdout %q", code, &p.out)
	}
}

// A load whose rate repeats has the mean that was asked for, since it ends with
// a period; a bound that cuts one is named.
func TestSimulateLoadHasTheRateAskedFor(t *testing.T) {
	t.Parallel()
	for _, arrival := range [][]string{
		{"--arrival", "burst", "--period", "30m", "--burst-length", "5m", "--burst-factor", "10"},
		{"--arrival", "sine", "--period", "20m", "--amplitude", "1"},
		{"--arrival", "daily"},
	} {
		f := simulated(t, append([]string{"--isl", "10", "--osl", "2", "--rate", "5"}, arrival...)...)
		r := f.LoadRate
		if n := float64(f.Requests.Offered); r.Asked != 5 || n < 9000 || math.Abs(r.Offered-5) > 5*5/math.Sqrt(n) || len(f.Warnings) > 0 {
			t.Errorf("%v: %+v in %v requests, warnings %v", arrival, r, n, f.Warnings)
		}
		f = simulated(t, append([]string{"--isl", "10", "--osl", "2", "--rate", "5", "--requests", "1000"}, arrival...)...)
		if len(f.Warnings) != 1 || f.Warnings[0].Code != "period_cut" {
			t.Errorf("%v: warnings %v of 1000 requests", arrival, f.Warnings)
		}
	}
}

// A link that cannot carry the KV of the load is named and reported.
func TestSimulateLinks(t *testing.T) {
	t.Parallel()
	load := []string{"--prefill-replicas", "1", "--decode-replicas", "1", "--rate", "4", "--requests", "500", "--transfer-bandwidth"}
	if l := simulated(t, append(load, "50")...).Links; l == nil || l.Utilisation > 0.1 || l.Wait.N != 500 || l.Transfer.Mean < 5 {
		t.Errorf("a wide link: %+v", l)
	}
	f := simulated(t, append(load, "0.5")...)
	if l := f.Links; l == nil || l.Utilisation < 0.95 || l.Wait.Mean < 1e4 || f.Warnings[0].Code != "links_busy" {
		t.Errorf("a narrow link: %+v, warnings %v", l, f.Warnings)
	}
}

// A load that piles up is given up, before the memory is: it says what came, what the
// fleet can do, and how many wait.
func TestSimulationGivesUp(t *testing.T) {
	t.Parallel()
	overload := func(waiting, seqs int, load trace.Spec) error {
		plan := build.Options{
			Model: simModel, GPU: simGPU, Parallelism: engine.TP(1), Replicas: 1, Router: fleet.RoundRobin, MaxWaiting: waiting,
			Limits: engine.Limits{MaxNumSeqs: seqs},
		}
		load.Gaps, load.ISL, load.OSL = trace.Gaps{Process: profile.Constant}, trace.Fixed(512), trace.Fixed(16)
		_, err := runFleet(plan, arrivals{spec: load}, func(int, time.Duration) {})
		return err
	}
	var f *field.Failure
	err := overload(500, 4, trace.Spec{Rate: trace.Constant(100), Requests: 1_000_000_000})
	if !errors.As(err, &f) || !regexp.MustCompile(`^the fleet is overloaded: at [0-9.]+s it holds 504 requests, of which 500 wait; since [0-9.]+s [0-9.]+/s were offered and [0-9.]+/s served$`).MatchString(f.Err.Error()) ||
		!regexp.MustCompile(`^[1-9][0-9.]* times the replicas, a lower rate \(--rate; --trace-speed or --trace-scale below 1\), or a shorter load \(--duration, --requests\)$`).MatchString(f.Hints[0]) {
		t.Errorf("error %v, hints %v", err, f)
	}
	if err := overload(500, 4, trace.Spec{Rate: trace.Constant(100), Requests: 504}); err != nil {
		t.Errorf("as many as may wait: %v", err)
	}
}

// A run says where its percentiles are of too few requests, and where its latencies are
// those of how many there are; one of enough that the fleet carries says neither.
func TestSimulationSaysWhatItIsTooShortFor(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		args  []string
		codes map[string]string // a part of what is said
	}{
		{"one request", []string{"--requests", "1", "--rate", "1"}, map[string]string{"few_requests": "percentiles of TTFT and E2E from p50 on are at or near the maximum of 1 request"}},
		{"a hundred", []string{"--requests", "100", "--rate", "1"}, map[string]string{"few_requests": "p99.9 needs at least 1000"}},
		{"a thousand", []string{"--requests", "1000", "--rate", "4", "--isl", "512"}, nil},
		{"a rate that nobody carries", []string{"--requests", "1000", "--rate", "500"}, map[string]string{"saturated": "(494.2/s), but only "}},
		{"for long", []string{"--requests", "2000", "--rate", "40"}, map[string]string{"saturated": "the queue was still growing"}},
	} {
		f := simulated(t, c.args...)
		for _, code := range []string{"few_requests", "saturated"} {
			i := slices.IndexFunc(f.Warnings, func(w profile.Warning) bool { return w.Code == code })
			want, wanted := c.codes[code]
			if wanted != (i >= 0) || wanted && !strings.Contains(f.Warnings[i].Message, want) {
				t.Errorf("%s: %s: %v, want %q", c.name, code, f.Warnings, want)
			}
		}
	}
}
