package main

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	dep "plimsoll/engine/deployment"
	"plimsoll/engine/latency"
	"plimsoll/profile"
	"plimsoll/profile/store"
)

// estimated asks for a small profile by the latency model.
func estimated(dir string, more ...string) []string {
	return estimatedOf(dir, append([]string{"--prefill-interpolation-granularity", "3", "--decode-interpolation-granularity", "2"}, more...)...)
}

// estimatedOf is estimated for both modes: an aggregated one has no surfaces.
func estimatedOf(dir string, more ...string) []string {
	return append([]string{
		"profile-sla", "--engine", "estimate", "--model", "llama-3.1-8b", "--gpu", "h100-sxm", "--gpu-count", "2",
		"--isl", "500", "--osl", "40", "--ttft", "200", "--itl", "6", "--max-num-seqs", "64",
		"--max-context-length", "2000", "--output-dir", dir,
	}, more...)
}

// The whole job in virtual time: the same files as of a real engine, the word
// in each, and the error beside the picks.
func TestEstimate(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "results")
	p := ran(t, exitDone, estimated(dir, "--details")...)
	rec, err := store.ReadRecommendation(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Run("files", func(t *testing.T) { checkFiles(t, dir, rec) })
	t.Run("provenance", func(t *testing.T) { checkEstimated(t, dir, p) })
	t.Run("error", func(t *testing.T) { checkModelError(t, dir, p, rec) })
	t.Run("doubts", func(t *testing.T) { checkDoubts(t, rec) })
	t.Run("resume", func(t *testing.T) { checkResumeOfFinished(t, p, estimated(dir, "--resume", "--details"), dir) })
	t.Run("plot", func(t *testing.T) { checkPlot(t, dir) })
	t.Run("no engine", func(t *testing.T) {
		for name := range tree(t, dir) {
			if strings.HasPrefix(name, "engines") {
				t.Errorf("an engine left %s", name)
			}
		}
	})
}

// checkEstimated wants the word on the terminal and in every file.
func checkEstimated(t *testing.T, dir string, p *program) {
	t.Helper()
	if !strings.HasPrefix(p.out.String(), "ESTIMATED, not measured on a GPU · ") || !strings.Contains(p.errout.String(), "plimsoll: warning: ESTIMATED: ") {
		t.Errorf("stdout or stderr does not say it:\n%s\n%s", &p.out, &p.errout)
	}
	for name, text := range tree(t, dir) {
		switch filepath.Ext(name) {
		case ".json":
			var file struct{ Provenance any }
			if err := json.Unmarshal([]byte(text), &file); err != nil || fmt.Sprint(file.Provenance) != "estimated" && fmt.Sprint(file.Provenance) != "2" {
				t.Errorf("%s: provenance %v, %v", name, file.Provenance, err)
			}
		case ".npz":
			if b := npyBytes(t, text, "provenance.npy"); !strings.Contains(b, "'|i1'") || !strings.HasSuffix(b, "\n\x02") {
				t.Errorf("%s: provenance is %q", name, b)
			}
		case ".svg":
			if !strings.Contains(text, "ESTIMATED") || strings.Contains(text, "95 % confidence") || strings.Contains(name, "performance") && !strings.Contains(text, "error (p90)") {
				t.Errorf("%s does not say it", name)
			}
		case ".jsonl":
			for line := range strings.Lines(text) {
				if strings.Contains(line, `"type":"point"`) && !strings.Contains(line, `"provenance":"estimated"`) {
					t.Errorf("%s: %s", name, line)
				}
			}
		}
	}
}

// checkModelError wants the latency model's own error at every point, in
// recommendation.json and on stdout, with the fit that it is of.
func checkModelError(t *testing.T, dir string, p *program, rec store.Recommendation) {
	run, err := store.ReadRun(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, pt := range run.Points {
		m := modelOf(t, pt.Config)
		want := m.ITLError()
		if pt.Phase == profile.Prefill {
			want = m.TTFTError()
		}
		if pt.ModelError != dep.ModelError(want) || !pt.ModelError.Known() {
			t.Errorf("%s: error %+v, the model says %+v", pt.ID, pt.ModelError, want)
		}
	}
	for name, pick := range map[string]*store.Pick{"TTFT and prefill": rec.Prefill, "ITL and decode": rec.Decode} {
		e := pick.ModelError
		if !e.Known() || pick.Interval != e.Around(pick.ThroughputPerGPU) {
			t.Errorf("%s: error %+v, interval %+v", name, e, pick.Interval)
		}
		if line := fmt.Sprintf("Model error of %s throughput: %s\n", name, e.Words()); !strings.Contains(p.out.String(), line) {
			t.Errorf("stdout lacks %q:\n%s", line, &p.out)
		}
	}
	if rec.Engine.Fit != latency.DefaultFit().Name || run.Inputs["fit"] != rec.Engine.Fit {
		t.Errorf("engine %+v, run.json has the fit %q", rec.Engine, run.Inputs["fit"])
	}
	if line := "latency model's fit " + rec.Engine.Fit + "\n"; !strings.Contains(p.out.String(), line) {
		t.Errorf("stdout lacks %q:\n%s", line, &p.out)
	}
}

// checkDoubts wants a warning where the model's errors are wider than what the pick
// rests on.
func checkDoubts(t *testing.T, rec store.Recommendation) {
	if !slices.ContainsFunc(rec.Warnings, func(w profile.Warning) bool {
		return w.Code == "model_error_sla" && strings.HasPrefix(w.Message, "decode: ")
	}) {
		t.Errorf("a pick at the SLA, and no warning of it: %v", rec.Warnings)
	}
}

// Nothing meets the SLA: exit 4, everything is written, and the four lines say
// that they are no answer.
func TestEstimateInfeasible(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "results")
	p := ran(t, exitInfeasible, estimated(dir, "--ttft", "1", "--itl", "0.5")...)
	rec, err := store.ReadRecommendation(dir)
	if err != nil || rec.Feasible || !strings.Contains(p.out.String(), "INFEASIBLE: the lines below are the nearest candidate, not an answer\nSuggested prefill ") {
		t.Errorf("feasible %v, %v\n%s", rec.Feasible, err, &p.out)
	}
	checkEstimated(t, dir, p)
}
