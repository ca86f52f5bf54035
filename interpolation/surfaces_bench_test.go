package interpolation

import (
	"bytes"
	"encoding/csv"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"

	"plimsoll/engine/enginetest/cputime"
)

// heldOut are errors of samples left out, and upstream's of the same samples.
// Sets on which upstream's formulas fail are in neither.
type heldOut struct{ ours, theirs errorsOf }

func (h *heldOut) add(ours, theirs errorsOf) {
	if !math.IsNaN(theirs[0]) {
		h.ours, h.theirs = append(h.ours, ours...), append(h.theirs, theirs...)
	}
}

func (h heldOut) report(b *testing.B) {
	b.Helper()
	if len(h.ours) != len(h.theirs) {
		b.Fatalf("%d samples, %d of upstream's", len(h.ours), len(h.theirs))
	}
	b.ReportMetric(100*h.ours.mean(), "%error")
	b.ReportMetric(100*h.theirs.mean(), "%upstream")
	b.ReportMetric(float64(len(h.ours)), "samples")
}

// BenchmarkHeldOut is the mean error of each sample of a surface, predicted from
// the others: of the measured profile, and of all simulated ones.
func BenchmarkHeldOut(b *testing.B) {
	upstream := upstreamErrors(b)
	ps, ds := allSets(b)
	prefills := func(sets []prefillSet) func(*testing.B) {
		return func(b *testing.B) {
			for b.Loop() {
				var h heldOut
				for _, s := range sets {
					l, err := LeaveOneOutPrefill(s.surface)
					if err != nil {
						b.Fatal(err)
					}
					h.add(errorsIn(l, s.truth, 1), upstream[[2]string{"prefill", s.name}])
				}
				h.report(b)
			}
		}
	}
	decodes := func(sets []decodeSet) func(*testing.B) {
		return func(b *testing.B) {
			for b.Loop() {
				var h heldOut
				for _, s := range sets {
					l, err := LeaveOneOutDecode(s.surface, 1)
					if err != nil {
						b.Fatal(err)
					}
					h.add(errorsIn(l, s.truth, 0), upstream[[2]string{"decode", s.name}])
				}
				h.report(b)
			}
		}
	}
	b.Run("prefill/measured", prefills(ps[:1]))
	b.Run("prefill/simulated", prefills(ps[1:]))
	b.Run("decode/measured", decodes(ds[:1]))
	b.Run("decode/simulated", decodes(ds[1:]))
}

// errorsIn are those of the samples but for the first and last few: upstream's
// formulas refuse to extrapolate a prefill.
func errorsIn(l LeaveOneOut, truth []float64, few int) (e errorsOf) {
	for _, s := range l.Samples[few : len(l.Samples)-few] {
		e.add(float64(s.Predicted), truth[s.Index])
	}
	return e
}

// BenchmarkLeaveOneOutScipy is what testdata/loo.py takes for the measured decode
// surface, as BenchmarkLeaveOneOutDecode: processor time without starting Python.
func BenchmarkLeaveOneOutScipy(b *testing.B) {
	python := ""
	for _, p := range []string{"python3", "/usr/bin/python3"} {
		if exec.Command(p, "-c", "import scipy").Run() == nil {
			python = p
			break
		}
	}
	if python == "" {
		b.Skip("scipy: no Python here has it")
	}
	script, err := filepath.Abs("testdata/loo.py")
	if err != nil {
		b.Fatal(err)
	}
	dir := b.TempDir()
	writeMeasuredDecode(b, filepath.Join(dir, "surfaces.csv"))
	said := regexp.MustCompile(`(?m)^decode .* mean ([\d.]+) .* ([\d.]+) s$`)
	for b.Loop() {
		cmd := exec.CommandContext(b.Context(), python, script)
		cmd.Dir, cmd.Stderr = dir, os.Stderr
		text, err := cmd.Output()
		if err != nil {
			b.Fatal(err)
		}
		m := said.FindSubmatch(text)
		if m == nil {
			b.Fatalf("loo.py says %q", text)
		}
		for i, metric := range []struct {
			scale float64
			unit  string
		}{{1, "%error"}, {1e9, cputime.Unit}} {
			x, err := strconv.ParseFloat(string(m[i+1]), 64)
			if err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(metric.scale*x, metric.unit)
		}
	}
}

// writeMeasuredDecode writes those rows of surfaces.csv.
func writeMeasuredDecode(b *testing.B, name string) {
	b.Helper()
	all := readCSV(b, "testdata/surfaces.csv")
	rows := all[:1]
	for _, r := range all[1:] {
		if r[0] == "decode" && r[1] == "H200, measured" {
			rows = append(rows, r)
		}
	}
	var out bytes.Buffer
	if err := csv.NewWriter(&out).WriteAll(rows); err != nil {
		b.Fatal(err)
	}
	if err := os.WriteFile(name, out.Bytes(), 0o600); err != nil {
		b.Fatal(err)
	}
}
