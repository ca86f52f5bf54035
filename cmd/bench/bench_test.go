package main

import (
	"bytes"
	"flag"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"

	"plimsoll/cmd/bench/cputime"
)

var update = flag.Bool("update", false, "write the golden files")

// printed is what testdata/printed.txtar says that benchmarks printed.
func printed(t *testing.T) *results {
	t.Helper()
	a, err := txtar.ParseFile("testdata/printed.txtar")
	if err != nil {
		t.Fatal(err)
	}
	got := newResults()
	for _, f := range a.Files {
		pkg, name, _ := strings.Cut(f.Name, " ")
		if err := got.add(benchmark{pkg, name}, f.Data, nil); err != nil {
			t.Fatal(err)
		}
	}
	got.doesNotBuild("broken")
	return got
}

// What benchmarks printed becomes this table: medians of rounds, ratios, what was
// not run and why.
func TestTable(t *testing.T) {
	b := func(pkg, name, unit string) figure { return benchmark{pkg, name}.in(unit) }
	chosen := []row{
		{"client", "added", b("profile/load", "Client", "kernel-p99-µs"), "another client", b("profile/load", "Aiohttp", "read-p99-µs")},
		{"client", "per token", b("profile/load", "Client", "cpu-µs/token"), "itself", b("profile/load", "Client", "cpu-µs/token")},
		{"simulator", "a request", b("engine/sim", "Request/plain", cputime.Unit), "stepped", b("engine/sim", "Request/stepped", cputime.Unit)},
		{"plan", "time", b("capacity", "Size", cputime.Unit), "a formula", b("capacity", "Formula", cputime.Unit)},
		{"plan", "size", b("capacity", "Size", "GPUs"), "a formula", b("capacity", "Formula", "GPUs")},
		{"latency", "error", b("fit", "HeldOut", "%ttft"), "another", b("fit", "HeldOut", "%tpot")},
		{"latency", "a unit that is not there", b("fit", "HeldOut", "%e2e"), "broken", b("broken", "Any", "ns/op")},
		{"latency", "a benchmark that is not there", b("fit", "None", "%e2e"), "another", b("fit", "HeldOut", "%tpot")},
	}
	got := printed(t)
	m := machine{CPU: got.cpu, System: "Some Linux 1, linux/amd64", Go: "go1.26.0", Cores: 2, Load: "0.25", Date: time.Date(2026, 11, 22, 3, 4, 5, 0, time.UTC), Took: 83400 * time.Millisecond}
	out := table(chosen, got, m)
	const golden = "testdata/table.md"
	if *update {
		if err := os.WriteFile(golden, []byte(out), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if out != string(want) {
		t.Errorf("the table is\n%s\nwant\n%s", out, want)
	}
	if got.failed() == nil {
		t.Error("a package that does not build is no fault")
	}
}

func TestShow(t *testing.T) {
	for _, c := range []struct {
		v          float64
		unit, want string
	}{
		{2.44e-7, cputime.Unit, "244 ns"},
		{1.44e-6, "ns/op", "1.4 µs"},
		{0.0207, "ns/op", "21 ms"},
		{1355.77, "engine-ns/op", "1356 s"},
		{12, "kernel-p99-µs", "12 µs"},
		{0, "kernel-p99-µs", "0 ns"},
		{7.745, "%error", "7.7 %"},
		{0.0471, "%error", "0.047 %"},
		{36, "GPUs", "36 GPUs"},
		{219.66, "GPU-hours", "220 GPU-hours"},
		{43869, "requests", "43869 requests"},
	} {
		if got := show(c.v, c.unit); got != c.want {
			t.Errorf("%v in %s is shown as %q, want %q", c.v, c.unit, got, c.want)
		}
	}
	for v, want := range map[float64]string{80956: "81000", 123: "120", 99.6: "100", 1: "1", 0.9949: "0.99", 0.0051: "0.0051"} {
		if got := ratio(v); got != want {
			t.Errorf("a ratio of %v is shown as %q, want %q", v, got, want)
		}
	}
}

func TestFlags(t *testing.T) {
	for want, args := range map[string][]string{
		`unexpected argument "x"`:       {"x"},
		`-only "no such row" matches`:   {"-only", "no such row"},
		"-only: error parsing regexp":   {"-only", "("},
		"-rounds is 0, want at least":   {"-rounds", "0"},
		"flag provided but not defined": {"-nonsense"},
	} {
		if err := run(t.Context(), args, io.Discard, io.Discard); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want it to say %q", args, err, want)
		}
	}
}

// Real benchmarks, in a process each: one that reports, one that is skipped, one
// that fails, one that is not there, and a package that does not build.
func TestSuite(t *testing.T) {
	const pkg = "testdata/canned"
	var progress bytes.Buffer
	s, err := newSuite(&progress)
	if err != nil {
		t.Fatal(err)
	}
	defer s.remove()
	reports, needs, fails := benchmark{pkg, "Reports/a=1/b.c"}, benchmark{pkg, "Needs"}, benchmark{pkg, "Fails"}
	none, broken := benchmark{pkg, "None"}, benchmark{"testdata/none", "None"}
	got, err := s.measure(t.Context(), []row{{figure: reports.in("things"), baseline: needs.in("ns/op")}, {figure: fails.in("ns/op"), baseline: none.in("ns/op")}, {figure: broken.in("ns/op"), baseline: reports.in("ns/op")}}, 2)
	if err != nil {
		t.Fatal(err)
	}
	if v, why := got.of(reports.in("things")); len(v) != 2 || v[0] != 3 || v[1] != 3 {
		t.Errorf("%v, %q, want 3 things twice", v, why)
	}
	for b, want := range map[benchmark]string{needs: "tool: not here", fails: "a reason: of its own", none: "it printed no figure", broken: "its package does not build"} {
		if v, why := got.of(b.in("ns/op")); v != nil || why != want {
			t.Errorf("%v: %v, %q, want it not to run: %q", b, v, why, want)
		}
	}
	if err := got.failed(); err == nil || !strings.Contains(err.Error(), "BenchmarkFails: exit status 1") || !strings.Contains(err.Error(), "testdata/none does not build") || strings.Contains(err.Error(), "Needs") {
		t.Errorf("faults: %v", err)
	}
	if !strings.Contains(progress.String(), "round 2 of 2, 1 of 5: testdata/canned Reports/a=1/b.c") || strings.Contains(progress.String(), "round 2 of 2, 3 of 5") {
		t.Errorf("progress: %s", &progress)
	}
}
