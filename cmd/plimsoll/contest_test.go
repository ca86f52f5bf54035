//go:build contest

package main

import (
	"context"
	"encoding/csv"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// The contest is the policies of planner replay on every trace of a folder, at several
// fleet sizes and start-up times, in both modes, beside a plan:
//
//	go test -tags contest -run TestContest -v -timeout 1h ./cmd/plimsoll -traces DIR
//
// It prints one Markdown table. Without -traces it has the parts of ServeGen's tables
// that are in testdata/contest. -quick takes the smallest fleets and 60 s to start,
// without plans; -only REGEXP some scenarios by name. What all policies on all rows take
// is hours, so that heats leaves out: all of them compete on the smallest fleets with
// 60 s to start, the best of others elsewhere, and large fleets have ten minutes, three
// seeds and Azure alone.
//
//nolint:gochecknoglobals // flags of a test binary
var (
	contestTraces   = flag.String("traces", "testdata/contest", "folder of traces; those that it lacks are left out")
	contestQuick    = flag.Bool("quick", false, "small fleets, 60 s to start, no plan")
	contestOnly     = flag.String("only", "", "scenarios whose name matches")
	contestSeeds    = flag.Int("seeds", 0, "of each run; 0: the row's own")
	contestPlan     = flag.Int("plan", -1, "simulations of a plan; 0: no plans; below: the row's own")
	contestPolicies = flag.String("policies", "", "in order, default last (default: the row's own)")
	contestArgs     = flag.String("args", "", "further flags of planner replay")
)

// heat is what rows of a fleet size and a start-up time have.
type heat struct {
	policies string
	length   time.Duration // of a trace's part at most
	seeds    int
	plan     int // simulations
}

const (
	everyPolicy = "static-peak,hpa,hpa:sla,keda,keda:sla,wva-v1,wva-v1:sla,wva-v2,wva-v2:sla,queue,load,upstream:constant,upstream:arima,upstream:kalman,upstream:prophet,default"
	fewPolicies = "static-peak,hpa:sla,keda:sla,wva-v2:sla,queue,default"
)

// heats by size and start-up time in seconds; a row that has none is not run.
func heats(size, startUp int) (heat, bool) {
	switch {
	case size == 0 && startUp == 60:
		return heat{everyPolicy, 30 * time.Minute, 5, 40}, true
	case size == 0:
		return heat{fewPolicies, 30 * time.Minute, 5, 24}, true
	case startUp != 60:
		return heat{}, false
	case size == 1:
		return heat{fewPolicies, 15 * time.Minute, 5, 24}, true
	default:
		return heat{"static-peak,hpa:sla,wva-v2:sla,default", 10 * time.Minute, 3, 12}, true
	}
}

// contestTrace is a part of a trace, and the rates that take fleets of the sizes
// wanted.
type contestTrace struct {
	name, file string
	from, to   time.Duration
	rates      []float64 // requests/s on average: small, middle, large
	args       string
}

// contestants are the traces. Azure's was looked at while the default policy was made,
// ServeGen's first part for its rates; those marked "held out" were not.
func contestants() []contestTrace {
	const big = " --model llama-3.1-70b --tp 4"
	return []contestTrace{
		{"azure-conv", "azure-2023-conv.csv", 0, 0, []float64{16, 100, 900}, big},
		{"servegen-mid", "servegen-m-mid-10min.csv", 24 * time.Hour, 26 * time.Hour, []float64{40, 200}, big},
		{"servegen-mid, held out", "servegen-m-mid-10min.csv", 205 * time.Hour, 207 * time.Hour, []float64{40}, big},
		{"servegen-image, held out", "servegen-mm-image-10min.csv", 6 * time.Hour, 9 * time.Hour, []float64{20, 120}, big + " --isl 1000"},
		{"mooncake, held out", "mooncake-fast25-synthetic.jsonl", 0, 0, []float64{4, 20}, " --ttft 15000"},
	}
}

// scenario is one run of planner replay.
type scenario struct {
	name, size string
	startUp    int // s
	heat       heat
	args       []string
}

func TestContest(t *testing.T) {
	only, all := regexp.MustCompile(*contestOnly), scenarios(t)
	if len(all) == 0 {
		t.Fatalf("-traces %q: none of the contest's traces is there", *contestTraces)
	}
	fmt.Println("| scenario | start-up | plan: GPU-h | default: attained | GPU-h | / plan | others: attained, GPU-h | better and cheaper |")
	fmt.Println("|---|---|---|---|---|---|---|---|")
	for _, s := range all {
		if only.MatchString(fmt.Sprintf("%s %s %d", s.name, s.size, s.startUp)) {
			fmt.Println(s.row(t))
		}
	}
}

// scenarios are all of them, cheap ones first.
func scenarios(t *testing.T) (all []scenario) {
	for size, word := range []string{"small", "middle", "large"} {
		for _, startUp := range []int{60, 15, 300} {
			h, ok := heats(size, startUp)
			if !ok || *contestQuick && (size > 0 || startUp != 60) {
				continue
			}
			for _, c := range contestants() {
				if size >= len(c.rates) {
					continue
				}
				file, part := c.part(t, h.length)
				if file == "" {
					continue
				}
				for _, mode := range []string{"disaggregated", "aggregated"} {
					all = append(all, scenario{
						name: c.name + ", " + mode, size: word, startUp: startUp, heat: h, args: slices.Concat(strings.Fields(c.args+" "+*contestArgs), part, []string{
							"--trace", file, "--to-rate", fmt.Sprint(c.rates[size]), "--mode", mode, "--sla-stat", "p99",
							"--replica-startup", fmt.Sprintf("%ds", startUp), "--startup-time", fmt.Sprintf("%ds", max(1, startUp)),
						}),
					})
				}
			}
		}
	}
	return all
}

// part is the file of the part of a trace, "" where there is none, and the flags that
// say which part it is. Of a table of rates the rows are cut out, a fiftieth of the
// rates, so that what is asked for is a scale that replay takes.
func (c contestTrace) part(t *testing.T, length time.Duration) (file string, flags []string) {
	name := filepath.Join(*contestTraces, c.file)
	if _, err := os.Stat(name); err != nil {
		return "", nil
	}
	if c.to == 0 {
		return name, []string{"--to", length.String()}
	}
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close() //nolint:errcheck // only read
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	to := min(c.to, c.from+length)
	out := [][]string{rows[0]}
	for _, r := range rows[1:] {
		at, err := strconv.ParseFloat(r[0], 64)
		if err != nil {
			t.Fatal(err)
		}
		if at >= c.from.Seconds() && at < to.Seconds() {
			rate, err := strconv.ParseFloat(r[1], 64)
			if err != nil {
				t.Fatal(err)
			}
			r[0], r[1] = fmt.Sprint(at-c.from.Seconds()), fmt.Sprint(rate/50)
			out = append(out, r)
		}
	}
	to2, err := os.Create(filepath.Join(t.TempDir(), c.file))
	if err != nil {
		t.Fatal(err)
	}
	if err := csv.NewWriter(to2).WriteAll(out); err != nil {
		t.Fatal(err)
	}
	if err := to2.Close(); err != nil {
		t.Fatal(err)
	}
	return to2.Name(), nil
}

// replayOf runs planner replay.
func replayOf(t *testing.T, args ...string) replayFile {
	var out, errs strings.Builder
	all := append([]string{"plimsoll", "planner", "replay", "--format", "json", "--quiet", "--max-gpu-budget", "2000"}, args...)
	if code := run(context.Background(), all, streams{in: strings.NewReader(""), out: &out, err: &errs}); code != exitDone {
		t.Fatalf("%v: %d\n%s", all, code, errs.String())
	}
	var f replayFile
	if err := json.Unmarshal([]byte(out.String()), &f); err != nil {
		t.Fatal(err)
	}
	return f
}

func (s scenario) row(t *testing.T) string {
	h := s.heat
	if *contestPolicies != "" {
		h.policies = *contestPolicies
	}
	if *contestSeeds > 0 {
		h.seeds = *contestSeeds
	}
	if *contestPlan >= 0 || *contestQuick {
		h.plan = max(0, *contestPlan)
	}
	f := replayOf(t, append(s.args, "--policy", h.policies, "--seeds", itoa(h.seeds))...)
	plan, ratio := "–", "–"
	ours := f.Policies[len(f.Policies)-1]
	if h.plan > 0 {
		g := replayOf(t, append(s.args, "--policy", "default", "--oracle", "plan", "--oracle-simulations", itoa(h.plan))...)
		p := g.Policies[0]
		if plan = fmt.Sprintf("%.4g (%.2f %%)", p.GPUHours.Mean, 100*p.Both.Mean); p.Both.Mean >= 0.99 {
			ratio = fmt.Sprintf("%.2f", ours.Runs[0].Outcome.GPUHours/p.GPUHours.Mean)
		} else {
			plan = fmt.Sprintf("none: %.2f %% with all GPUs", 100*p.Both.Mean)
		}
	}
	var others, beaten []string
	for _, p := range f.Policies[:len(f.Policies)-1] {
		others = append(others, fmt.Sprintf("%s %.2f %.4g", p.Name, 100*p.Both.Mean, p.GPUHours.Mean))
		if a := p.Against; a != nil && a.Both.Half != nil && a.Both.Mean > *a.Both.Half && a.GPUHours.Mean < -*a.GPUHours.Half {
			beaten = append(beaten, p.Name)
		}
	}
	if len(beaten) == 0 {
		beaten = []string{"none"}
	}
	return fmt.Sprintf("| %s, %s | %d s | %s | %s | %s | %s | %s | %s |", s.size, s.name, s.startUp, plan, ours.Both.share(), ours.GPUHours.figure(), ratio, strings.Join(others, "; "), strings.Join(beaten, ", "))
}
