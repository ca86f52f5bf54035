package interpolation

import (
	"bytes"
	"encoding/csv"
	"flag"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var export = flag.Bool("surfaces", false, "write testdata/surfaces.csv for testdata/loo.py")

// TestSurfacesFixture: the file that loo.py reads holds the surfaces of this test.
func TestSurfacesFixture(t *testing.T) {
	want := [][]string{{"kind", "set", "x", "context", "ms", "truth_ms"}}
	add := func(kind, set string, v ...float64) {
		row := []string{kind, set}
		for _, x := range v {
			row = append(row, strconv.FormatFloat(x, 'g', 12, 64))
		}
		want = append(want, row)
	}
	ps, ds := allSets(t)
	for _, s := range ps {
		for i, p := range s.surface.Samples {
			add("prefill", s.name, float64(p.ISL), 1, float64(p.TTFT)/1e6, s.truth[i]/1e6)
		}
	}
	for _, s := range ds {
		for i, p := range s.surface.Samples {
			add("decode", s.name, p.KVUsage, p.Context, float64(p.ITL)/1e6, s.truth[i]/1e6)
		}
	}
	if *export {
		f, err := os.Create("testdata/surfaces.csv")
		if err != nil {
			t.Fatal(err)
		}
		if err := csv.NewWriter(f).WriteAll(want); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	got := readCSV(t, "testdata/surfaces.csv")
	if !slices.EqualFunc(got, want, slices.Equal[[]string]) {
		t.Error("testdata/surfaces.csv is of other surfaces: go test -run SurfacesFixture -surfaces, then testdata/loo.py")
	}
}

func readCSV(t testing.TB, name string) [][]string {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(bytes.NewReader(b)).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

// allSets are the measured surfaces, whose truth is what was measured, and the
// simulated ones.
func allSets(t testing.TB) ([]prefillSet, []decodeSet) {
	ps, ds := simulated(t)
	p, d, _ := loadH200(t)
	real1, real2 := prefillSet{name: "H200, measured", surface: p}, decodeSet{name: "H200, measured", surface: d}
	for _, s := range p.Samples {
		real1.truth = append(real1.truth, float64(s.TTFT))
	}
	for _, s := range d.Samples {
		real2.truth = append(real2.truth, float64(s.ITL))
	}
	return append([]prefillSet{real1}, ps...), append([]decodeSet{real2}, ds...)
}

// upstreamErrors are those of upstream.csv: kind, set, index, relative error.
func upstreamErrors(t testing.TB) map[[2]string]errorsOf {
	all := map[[2]string]errorsOf{}
	for _, row := range readCSV(t, "testdata/upstream.csv")[1:] {
		key := [2]string{row[0], row[1]}
		x, err := strconv.ParseFloat(row[3], 64)
		if err != nil {
			t.Fatal(err)
		}
		all[key] = append(all[key], x)
	}
	return all
}

// behind are the sets and figures in which upstream's formulas have less error:
// noise-free curves smooth enough for a cubic, and the luck of seventeen points.
var behind = map[[2]string]string{
	{"prefill", "H200, measured"}:                   "p90, worst",
	{"prefill", "dense 70B, sequence limit, clean"}: "mean, p90, worst",
	{"prefill", "experts 30B-A3B, clean"}:           "mean",
	{"prefill", "experts 30B-A3B, 3 % noise"}:       "worst",
}

// table collects the rows that TestLeaveOneOutTable prints.
type table struct {
	upstream      map[[2]string]errorsOf
	held, covered int
}

func (b *table) add(t *testing.T, kind, set string, l LeaveOneOut, truth []float64) {
	t.Helper()
	var ours errorsOf
	in := 0
	for i, s := range l.Samples {
		if kind == "prefill" && (i == 0 || i == len(truth)-1) {
			continue // upstream's formulas refuse to extrapolate
		}
		ours.add(float64(s.Predicted), truth[s.Index])
		if r := float64(s.Measured) / float64(s.Predicted); r <= 1+s.Stated && r >= 1/(1+s.Stated) {
			in++
		}
	}
	b.held, b.covered = b.held+len(ours), b.covered+in
	key := [2]string{kind, set}
	theirs := b.upstream[key]
	if len(theirs) != len(ours) {
		t.Fatalf("%v: %d of upstream's errors, want %d", key, len(theirs), len(ours))
	}
	var worse []string
	if !math.IsNaN(theirs[0]) {
		for _, f := range []struct {
			name string
			of   func(errorsOf) float64
		}{
			{"mean", errorsOf.mean},
			{"p90", func(e errorsOf) float64 { return e.quantile(0.9) }},
			{"worst", func(e errorsOf) float64 { return e.quantile(1) }},
		} {
			if f.of(ours) > f.of(theirs) {
				worse = append(worse, f.name)
			}
		}
	}
	lost := strings.Join(worse, ", ")
	t.Logf("| %s | %s | %s | %s | %d of %d | %s |", kind, set, ours.cell(), theirs.cell(), in, len(ours), lost)
	if lost != behind[key] {
		t.Errorf("%v: behind upstream's in %q, want %q", key, lost, behind[key])
	}
}

// TestLeaveOneOutTable prints what BENCHMARKS.md sums up: mean, p90 and worst relative
// error of a sample left out, ours and upstream's, and how many samples lay
// within the error that was stated.
func TestLeaveOneOutTable(t *testing.T) {
	b := table{upstream: upstreamErrors(t)}
	ps, ds := allSets(t)
	for _, s := range ps {
		l, err := LeaveOneOutPrefill(s.surface)
		if err != nil {
			t.Fatal(err)
		}
		b.add(t, "prefill", s.name, l, s.truth)
	}
	for _, s := range ds {
		l, err := LeaveOneOutDecode(s.surface, 1)
		if err != nil {
			t.Fatal(err)
		}
		b.add(t, "decode", s.name, l, s.truth)
	}
	t.Logf("%d of %d held-out samples lie within their stated error", b.covered, b.held)
	if share := float64(b.covered) / float64(b.held); share < 0.9 {
		t.Errorf("%.1f %% of samples lie within their stated error, want 90 %%", 100*share)
	}
}

// cell is mean / p90 / worst in per cent.
func (e errorsOf) cell() string {
	if math.IsNaN(e[0]) {
		return "fails"
	}
	return fmt.Sprintf("%.1f / %.1f / %.1f %%", 100*e.mean(), 100*e.quantile(0.9), 100*e.quantile(1))
}
