//go:build full

package main

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"plimsoll/engine"
	"plimsoll/profile"
	"plimsoll/profile/store"
)

// experts asks for a small profile of a mixture of experts by the latency model.
func experts(dir string, more ...string) []string {
	return append([]string{
		"profile-sla", "--engine", "estimate", "--model", "deepseek-r1", "--gpu", "h200", "--weights", "fp8",
		"--isl", "3000", "--osl", "40", "--ttft", "200", "--itl", "40", "--max-num-seqs", "64", "--max-context-length", "9000",
		"--prefill-interpolation-granularity", "3", "--decode-interpolation-granularity", "2", "--output-dir", dir,
	}, more...)
}

// A mixture of experts, from the candidates to the pictures: every name is that
// of the mapping.
func TestEstimateOfExperts(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "results")
	p := ran(t, exitDone, experts(dir, "--details")...)
	rec, err := store.ReadRecommendation(dir)
	if err != nil {
		t.Fatal(err)
	}
	if rec.Prefill.Label != "TEP:8" || rec.Decode.Label != "DEP:8" {
		t.Fatalf("picked %s and %s: this shows nothing", rec.Prefill.Label, rec.Decode.Label)
	}
	t.Run("stdout", func(t *testing.T) {
		for _, want := range []string{"\nSuggested prefill TEP:8 (TTFT ", "\nSuggested decode DEP:8 (ITL ", "\n  TEP:8      8  ", "\n  DEP:8      8  ", " prefill points at TEP:8, "} {
			if !strings.Contains(p.out.String(), want) {
				t.Errorf("stdout lacks %q:\n%s", want, &p.out)
			}
		}
	})
	t.Run("order", func(t *testing.T) {
		table, _, _ := strings.Cut(p.out.String(), "\nDecode at ISL ")
		if tep, dep := strings.Index(table, "\n  TEP:8 "), strings.Index(table, "\n  DEP:8 "); tep < 0 || tep > dep {
			t.Errorf("TEP:8 is not before DEP:8:\n%s", table)
		}
	})
	t.Run("recommendation", func(t *testing.T) {
		tep, dep := engine.Parallelism{TP: 8, PP: 1, DP: 1, EP: 8}, engine.Parallelism{TP: 1, PP: 1, DP: 8, EP: 8}
		if rec.Prefill.Parallelism() != tep || rec.Decode.Parallelism() != dep || rec.Prefill.GPUs != 8 || rec.Planner.DecodeEngineNumGPU != 8 {
			t.Errorf("%+v, %+v", rec.Prefill, rec.Decode)
		}
		left := map[string]bool{}
		for _, r := range rec.Rejected {
			left[string(r.Phase)+" "+r.Label] = r.Reason != ""
		}
		for _, l := range []string{"TP:1", "TEP:2", "DEP:2", "TEP:4", "DEP:4"} { // no room
			if !left["prefill "+l] || !left["decode "+l] {
				t.Errorf("no reason why %s is left out: %v", l, left)
			}
		}
		if !left["prefill DEP:8"] || !left["decode TEP:8"] {
			t.Errorf("no reason why the other mapping lost: %v", left)
		}
	})
	t.Run("links", func(t *testing.T) {
		for _, l := range []string{"prefill_tep8_interpolation", "decode_dep8_interpolation"} {
			if _, err := os.Stat(filepath.Join(dir, l, "raw_data.npz")); err != nil {
				t.Error(err)
			}
		}
	})
	t.Run("pictures", func(t *testing.T) {
		for name, labels := range map[string][]string{
			"prefill_performance": {"TEP:8", "DEP:8", "TEP:2 left out: weights"}, "decode_performance": {"DEP:8"},
			"prefill_ttft_interpolation": {"TEP:8"}, "prefill_throughput_interpolation": {"TEP:8"},
			"decode_itl_interpolation": {"DEP:8"}, "decode_throughput_interpolation": {"DEP:8"},
		} {
			for _, l := range labels {
				if !strings.Contains(readFile(t, filepath.Join(dir, name+".svg")), l) {
					t.Errorf("%s.svg does not say %s", name, l)
				}
			}
		}
		checkPlot(t, dir)
	})
	t.Run("files", func(t *testing.T) { checkFiles(t, dir, rec) })
	t.Run("resume", func(t *testing.T) { checkResumeOfFinished(t, p, experts(dir, "--resume", "--details"), dir) })
}

// A burst measures one prefill while every replica has one. By the latency model
// that is the time of steps with a prompt on each; a prompt alone on its replica
// has the exchange between experts for itself and takes less, as TP is measured.
func TestBurstAgainstTheModel(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "results")
	ran(t, exitDone, append(experts(dir, "--parallelism", "DEP:8"), "--ttft", "1000", "--prefill-interpolation-granularity", "5")...)
	run, err := store.ReadRun(dir)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, pt := range run.Points {
		if pt.Phase != profile.Prefill || pt.Stage == profile.StageVerify {
			continue
		}
		n++
		m := modelOf(t, pt.Config)
		busy := m.Overhead() / 4
		for b := range engine.Chunks(pt.ISL, 0, pt.ISL) { // whole: a replica has one prompt
			all := engine.Batch{PrefillSeqs: 8, PrefillTokens: 8 * b.PrefillTokens, PrefillPast: 8 * b.PrefillPast, PrefillPairs: 8 * b.PrefillPairs}
			busy += m.StepTime(all)
		}
		got, alone := pt.TTFT.Mean, m.TTFT(pt.ISL, 0)
		t.Logf("ISL %d: %v; model: %v with a prompt on each replica, %v alone: ×%.2f", pt.ISL, got, busy.Duration(), alone, float64(got)/float64(alone))
		if off := math.Abs(float64(got)/float64(busy.Duration()) - 1); off > 0.005 {
			t.Errorf("ISL %d: %v, off by %.2f %% from %v", pt.ISL, got, 100*off, busy.Duration())
		}
		if got < alone-m.Overhead().Duration() || pt.ISL >= 1000 && float64(got) < 1.2*float64(alone) || float64(got) > 2*float64(alone) {
			t.Errorf("ISL %d: %v, %v for a prompt alone: burst.go says otherwise", pt.ISL, got, alone)
		}
		if want := 8 * float64(pt.ISL) / got.Seconds() / 8; math.Abs(pt.ThroughputPerGPU/want-1) > 1e-6 {
			t.Errorf("ISL %d: %v tokens/s/GPU, want %v", pt.ISL, pt.ThroughputPerGPU, want)
		}
	}
	if n < 4 {
		t.Errorf("%d points: this shows nothing", n)
	}
}
