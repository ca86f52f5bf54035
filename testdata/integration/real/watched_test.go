//go:build real

package real

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"plimsoll/testdata/integration/planner"
	"plimsoll/testdata/integration/program"
)

// watched is for how long the planner watches a load.
const watched = 10 * time.Minute

// spread is how many values the event log has, and their mean.
type spread struct {
	Count float64
	Mean  *float64
}

// seen is what the planner said of a load, all its intervals together.
type seen struct {
	intervals           int
	arrivals            float64
	isl, osl, ttft, itl weighted
	problems            map[string]bool
}

// weighted is a mean over intervals, each by its number of values.
type weighted struct{ sum, n float64 }

func (w *weighted) add(s spread) {
	if s.Mean != nil {
		w.sum, w.n = w.sum+s.Count**s.Mean, w.n+s.Count
	}
}

// said reads the planner's event log.
func said(t *testing.T, log string) seen {
	t.Helper()
	out := seen{problems: map[string]bool{}}
	b, err := os.ReadFile(log)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		var e struct {
			Observation *struct {
				Arrivals *float64
				ISL, OSL spread
				TTFT     spread `json:"ttft_ns"`
				ITL      spread `json:"itl_ns"`
				Problems []string
			}
		}
		if !strings.HasSuffix(line, "\n") { // it is being written
			break
		}
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatal(err)
		}
		o := e.Observation
		if o == nil {
			continue
		}
		out.intervals++
		if o.Arrivals != nil {
			out.arrivals += *o.Arrivals
		}
		out.isl.add(o.ISL)
		out.osl.add(o.OSL)
		out.ttft.add(o.TTFT)
		out.itl.add(o.ITL)
		for _, p := range o.Problems {
			out.problems[p] = true
		}
	}
	return out
}

// watch runs planner serve over the metrics of a server, an engine or a frontend, and
// compares what it says of a load with what was sent: within 3 %, and for latencies what the
// client adds to them (2 ms, and 0.5 ms for ITL).
func watch(t *testing.T, load planner.Load, role, backend string) {
	t.Helper()
	log := filepath.Join(t.TempDir(), "events.jsonl")
	program.Start(t, []string{"DYN_LOCAL_STATE_DIR=" + t.TempDir()}, "planner", "serve", "--environment", "local", "--mode", "aggregated", "--policy", "load",
		"--no-operation", "--slots", "1", "--aggregated-command", "sleep {{.Port}}", "--metrics-endpoints", role+"="+load.URL+"/metrics", "--backend", backend,
		"--adjustment-interval", "10", "--listen", "", "--state-file", "none", "--event-log", log)
	until := func(intervals int) {
		t.Helper()
		program.Until(t, time.Minute, "the planner has looked", func() bool { return said(t, log).intervals >= intervals })
	}
	until(2)
	before := said(t, log)
	sent := load.Run(t.Context())
	until(said(t, log).intervals + 2)
	s := said(t, log)

	var isl, osl, ttft, itl weighted
	for _, x := range sent {
		switch {
		case x.Failed != "":
			t.Errorf("at %v: %s", x.At, x.Failed)
		case !x.Left:
			isl.add(one(float64(x.Prompt)))
			gaps, mean := float64(x.Tokens-1), float64(x.ITL)
			itl.add(spread{gaps, &mean})
		}
		if !x.Left || backend == "dynamo" { // which counts what was sent until then
			osl.add(one(float64(x.Tokens)))
		}
		ttft.add(one(float64(x.TTFT)))
	}
	for _, c := range []struct {
		what              string
		got, want, within float64
	}{
		{"arrivals", s.arrivals - before.arrivals, float64(len(sent)), 0},
		{"ISL", s.isl.sum / s.isl.n, isl.sum / isl.n, 0},
		{"OSL", s.osl.sum / s.osl.n, osl.sum / osl.n, 0},
		{"TTFT, ms", s.ttft.sum / s.ttft.n / 1e6, ttft.sum / ttft.n / 1e6, 2},
		{"ITL, ms", s.itl.sum / s.itl.n / 1e6, itl.sum / itl.n / 1e6, 0.5},
	} {
		t.Logf("%s: the planner %.5g, the client %.5g", c.what, c.got, c.want)
		if !(math.Abs(c.got-c.want) <= 0.03*c.want+c.within) {
			t.Errorf("%s is %.5g, sent were %.5g", c.what, c.got, c.want)
		}
	}
	t.Logf("%d requests, %.0f of them to their end; problems %v", len(sent), isl.n, s.problems)
}

func one(v float64) spread { return spread{1, &v} }

// What planner serve makes of a load on vLLM itself where 30 % of the clients leave.
func TestVLLMWatched(t *testing.T) {
	s := serve(t, "words")
	watch(t, planner.Load{URL: s.url, Model: "words", ISL: 128, OSL: 24, Phases: []planner.Phase{{Rate: 1, For: watched}}, Leave: 0.3, LeaveAfter: 8}, "aggregated", "vllm")
}
