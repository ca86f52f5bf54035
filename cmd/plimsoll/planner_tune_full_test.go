//go:build full

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"plimsoll/engine/enginetest"
	"strings"
	"syscall"
	"testing"
)

// Ctrl-C shows what was found until then.
func TestTuneIsInterrupted(t *testing.T) {
	t.Parallel()
	p := start(t, nil, "planner", "tune", "--ttft", "500", "--itl", "50", "--policy", "hpa:sla", "--rate", "10", "--isl", "3000", "--osl", "100", "--duration", "20m", "--seeds", "1000", "--budget", "100000")
	enginetest.Eventually(t, "searching", func() bool { return p.ticks(t) > 200 })
	p.signal(t, syscall.SIGINT)
	if code := p.wait(t); code != exitInterrupted || !strings.Contains(p.out.String(), "\nINTERRUPTED: ") {
		t.Errorf("%d: %s\n%s", code, p.errout.String(), p.out.String())
	}
}

// smallTune is a search that is over at once.
func smallTune(more ...string) []string {
	return append([]string{
		"plimsoll", "planner", "tune", "--quiet", "--arrival", "sine", "--rate", "20", "--period", "3m", "--isl", "3000", "--osl", "20", "--duration", "12m",
		"--seeds", "2", "--budget", "12", "--max-gpu-budget", "12", "--ttft", "450", "--itl", "50",
	}, more...)
}

// What is printed is as the schema says, and the schema knows every field.
func TestTuneSchema(t *testing.T) {
	t.Parallel()
	var schema map[string]any
	if err := json.Unmarshal(tuneSchema(), &schema); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"--policy", "hpa:sla", "--cost-per-gpu-hour", "2"}, {"--policy", "load", "--mode", "aggregated"}} {
		var v any
		if err := json.Unmarshal([]byte(tuned(t, append(args, "--format", "json")...)), &v); err != nil {
			t.Fatal(err)
		}
		for _, complaint := range against(schema, v, "") {
			t.Error(complaint)
		}
	}
}

// tuned is what planner tune prints.
func tuned(t *testing.T, more ...string) string {
	t.Helper()
	var out, errs bytes.Buffer
	code := run(context.Background(), smallTune(more...), streams{in: strings.NewReader(""), out: &out, err: &errs})
	if code != exitDone && code != exitInfeasible {
		t.Fatalf("%d: %s", code, errs.String())
	}
	return out.String()
}

// The file that comes out is one that planner replay reads, and what it does by it is
// what was reported; nothing that was set is lost.
func TestTunedSettingsAreReplayed(t *testing.T) {
	t.Parallel()
	for _, policy := range []string{"default", "load", "hpa:sla"} {
		file := filepath.Join(t.TempDir(), "planner.yaml")
		var f tuneFile
		if err := json.Unmarshal([]byte(tuned(t, "--policy", policy, "--output", file, "--format", "json")), &f); err != nil {
			t.Fatal(err)
		}
		body, err := os.ReadFile(file) //nolint:gosec // the test's own
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"# plimsoll planner tune, ", "\npolicy: " + policy + "\n", "\nttft: 450\n", "\nmax-gpu-budget: 12\n", "# again: plimsoll planner tune "} {
			if !strings.Contains(string(body), want) {
				t.Errorf("%s: %q is missing in\n%s", policy, want, body)
			}
		}
		// The fit part is the beginning of the load, which replay can be given alone.
		r := replayed(t, "--config", file, "--arrival", "sine", "--rate", "20", "--period", "3m", "--isl", "3000", "--osl", "20", "--duration", "6m", "--seeds", "2")
		want := f.Fit.Default
		if f.Recommended {
			want = f.Fit.Tuned
		}
		if got := r.Policies[0]; got.Name != policy || got.GPUHours.Mean != want.GPUHours.Mean || got.Both.Mean != want.Both.Mean {
			t.Errorf("%s: replayed %v attained with %v GPU-hours, tuned %v with %v", got.Name, got.Both.Mean, got.GPUHours.Mean, want.Both.Mean, want.GPUHours.Mean)
		}
	}
}

// Twice the same is twice the same answer, on however many processors.
func TestTuneIsDeterministic(t *testing.T) {
	t.Parallel()
	args := []string{"--policy", "hpa:sla", "--format", "json"}
	if a, b := tuned(t, args...), tuned(t, args...); a != b {
		t.Errorf("%s\nand\n%s", a, b)
	}
}
