//go:build full

package main

import (
	"encoding/csv"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// heat is what rows of a fleet size and a start-up time have.
type heat struct {
	policies string
	length   time.Duration // of a trace's part at most
	seeds    int
	plan     int // simulations
}

const (
	fewPolicies        = "static-peak,static-mean,hpa:sla,keda:sla,wva-v2:sla,default"
	everyPolicy        = "static-peak,static-mean,hpa,hpa:sla,keda,keda:sla,wva-v2,wva-v2:sla,load,upstream:constant,default"
	largePolicies      = "static-peak,static-mean,hpa:sla,wva-v2:sla,default"
	predictingPolicies = "static-peak,static-mean,hpa:sla,upstream:constant,upstream:arima,upstream:kalman,upstream:prophet,default"
)

// contestSizes are small, middle and large fleets.
func contestSizes() []string { return []string{"small", "middle", "large"} }

// heatOf is what a trace's row of a size and a start-up time in seconds has; a row
// that has none is not run.
func (c contestTrace) heatOf(size, startUp int) (heat, bool) {
	switch {
	case size >= len(c.rates) || startUp != 60 && !slices.Contains(c.startUps, contestSizes()[size]):
		return heat{}, false
	case size == 0 && startUp == 60:
		return heat{everyPolicy, 30 * time.Minute, 5, 40}, true
	case size == 0:
		return heat{fewPolicies, 30 * time.Minute, 5, 16}, true
	case size == 1:
		return heat{fewPolicies, 15 * time.Minute, 5, 16}, true
	default:
		return heat{largePolicies, 10 * time.Minute, 5, 6}, true
	}
}

// contestTrace is a part of a trace, and the rates that take fleets of the sizes
// wanted.
type contestTrace struct {
	name, file string
	from, to   time.Duration
	rates      []float64 // requests/s on average: small, middle, large
	startUps   []string  // sizes that have 15 and 300 s too, not 60 s alone
	args       string
}

// contestants are the traces. Those marked "held out" were never replayed while the
// default policy was made; all others were.
func contestants() []contestTrace {
	const mid, image, big, h = "servegen-m-mid-10min.csv", "servegen-mm-image-10min.csv", " --model llama-3.1-70b --tp 4", time.Hour
	small, all := contestSizes()[:1], contestSizes()
	return []contestTrace{
		{"azure-conv", "azure-2023-conv.csv", 0, 0, []float64{16, 100, 900}, all, big},
		{"servegen-mid 24 h", mid, 24 * h, 26 * h, []float64{40, 200}, small, big},
		{"servegen-mid 205 h", mid, 205 * h, 207 * h, []float64{40}, small, big},
		{"servegen-image 6 h", image, 6 * h, 9 * h, []float64{20, 120}, small, big + " --isl 1000"},
		{"servegen-mid 260 h, held out", mid, 260 * h, 262 * h, []float64{40, 200}, small, big},
		{"servegen-mid 300 h, held out", mid, 300 * h, 302 * h, []float64{40}, nil, big},
		{"servegen-image 15 h, held out", image, 15 * h, 18 * h, []float64{20, 120}, small, big + " --isl 1000"},
		{"mooncake", "mooncake-fast25-synthetic.jsonl", 0, 0, []float64{4, 20}, small, " --ttft 15000"},
		// Three minutes long each, so that they are played ten times as slowly. The
		// second has 17 requests, which more engines would see no other of.
		{"mooncake-arxiv", "mooncake-arxiv-1000.jsonl", 0, 0, []float64{4, 20}, small, " --ttft 15000 --trace-speed 0.1"},
		{"dynamo", "dynamo-request-trace-v1.jsonl.gz", 0, 0, []float64{5}, small, " --ttft 5000 --trace-speed 0.1"},
	}
}

// scenario is one run of planner replay.
type scenario struct {
	name    string
	startUp int // s
	heat    heat
	args    []string
	budgets bool // within budgets, see runBudgets
}

// scenarios are all of them, cheap ones first.
func scenarios(t *testing.T) []scenario {
	all := contestants()
	all = slices.DeleteFunc(all, func(c contestTrace) bool {
		_, err := os.Stat(filepath.Join(*contestTraces, c.file))
		if err != nil {
			t.Logf("%s is left out: -traces %s has no %s", c.name, *contestTraces, c.file)
		}
		return err != nil
	})
	var out []scenario
	for size, word := range contestSizes() {
		for _, startUp := range []int{60, 15, 300} {
			for _, c := range all {
				h, ok := c.heatOf(size, startUp)
				if !ok || *contestQuick && (size > 0 || startUp != 60) {
					continue
				}
				part := c.part(t, h.length)
				for _, mode := range []string{"disaggregated", "aggregated"} {
					out = append(out, c.scenario(word, mode, c.rates[size], startUp, h, part))
				}
				if size == 0 && startUp == 60 {
					out = append(out, budgeted(c.scenario(word, "disaggregated", c.rates[size], startUp, h, part)))
				}
			}
		}
	}
	for _, c := range generated() {
		out = append(out, budgeted(c.scenario("small", "disaggregated", c.rates[0], 60, heat{seeds: 3}, nil)))
	}
	return append(out, predictions(t)...)
}

// generated are loads of which one split alone carries what just fits.
func generated() []contestTrace {
	load := func(name, args string, rate float64) contestTrace {
		return contestTrace{name: name, args: args, rates: []float64{rate}}
	}
	return []contestTrace{
		load("constant", "--arrival constant --isl 3000 --osl 150 --itl 20 --duration 30m --model llama-3.1-8b", 20),
		load("poisson", "--arrival poisson --isl 3000 --osl 150 --itl 20 --duration 30m --model llama-3.1-8b", 62),
		load("gamma", "--arrival gamma --isl 1000 --osl 800 --itl 15 --duration 30m --model llama-3.1-8b", 20),
		load("sine", "--arrival sine --isl 4000 --osl 400 --ttft 800 --itl 25 --duration 2h --model llama-3.1-8b", 20),
		load("day", "--arrival daily --isl 3000 --osl 150 --ttft 1000 --duration 24h --model llama-3.1-70b --weights fp8 --tp 2", 5),
	}
}

func budgeted(s scenario) scenario {
	s.name, s.budgets = s.name+", budgets", true
	return s
}

func (c contestTrace) scenario(size, mode string, rate float64, startUp int, h heat, part []string) scenario {
	given := strings.Fields(c.args + " " + *contestArgs)
	for _, f := range [][]string{{"--ttft", "500"}, {"--itl", "50"}, {"--tp", "1"}} {
		if !slices.Contains(given, f[0]) {
			given = append(given, f...)
		}
	}
	arrivals := "--to-rate"
	if part == nil {
		arrivals = "--rate"
	}
	return scenario{
		name: size + ", " + c.name + ", " + mode, startUp: startUp, heat: h,
		args: slices.Concat(given, part, []string{
			arrivals, fmt.Sprint(rate), "--mode", mode, "--sla-stat", "p99",
			"--replica-startup", fmt.Sprintf("%ds", startUp), "--startup-time", fmt.Sprintf("%ds", max(1, startUp)),
		}),
	}
}

// contestParts are of hours.
const contestParts = "testdata/contest"

// predictions are rows long enough for upstream's predictors to differ: it decides
// every three minutes, and Prophet has a season of a day. The planners are told of one
// day and replay the next day and a half, before the table's first gap. Half of the
// rate, one seed and no plan keep that to minutes.
func predictions(t *testing.T) (out []scenario) {
	c := contestants()[1]
	c.from, c.to = 24*time.Hour, 84*time.Hour
	c.name, c.args = "servegen-mid 36 h", c.args+" --warmup 24h"
	if _, err := os.Stat(filepath.Join(*contestTraces, c.file)); err != nil || *contestQuick || *contestTraces == contestParts {
		return nil
	}
	for _, mode := range []string{"disaggregated", "aggregated"} {
		h := heat{policies: predictingPolicies, length: c.to - c.from, seeds: 1}
		out = append(out, c.scenario("small", mode, c.rates[0]/2, 60, h, c.part(t, h.length)))
	}
	return out
}

// part are the flags that say which part of a trace is replayed. Of a table of rates
// the rows are cut out, a fiftieth of the rates, so that what is asked for is a scale
// that replay takes.
func (c contestTrace) part(t *testing.T, length time.Duration) []string {
	name := filepath.Join(*contestTraces, c.file)
	if c.to == 0 {
		return []string{"--trace", name, "--to", length.String()}
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
	out := rows[:1]
	for _, r := range rows[1:] {
		at, wrong := strconv.ParseFloat(r[0], 64)
		rate, wrong2 := strconv.ParseFloat(r[1], 64)
		if wrong != nil || wrong2 != nil {
			t.Fatalf("%s: %v", name, r)
		}
		if at >= c.from.Seconds() && at < min(c.to, c.from+length).Seconds() {
			out = append(out, append([]string{fmt.Sprint(at - c.from.Seconds()), fmt.Sprint(rate / 50)}, r[2:]...))
		}
	}
	if len(out) == 1 {
		t.Fatalf("%s has nothing from %v on", name, c.from)
	}
	cut, err := os.Create(filepath.Join(t.TempDir(), c.file))
	if err != nil {
		t.Fatal(err)
	}
	if err := csv.NewWriter(cut).WriteAll(out); err != nil {
		t.Fatal(err)
	}
	if err := cut.Close(); err != nil {
		t.Fatal(err)
	}
	return []string{"--trace", cut.Name()}
}
