//go:build full

package main

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"plimsoll/profile"
	"plimsoll/profile/store"
)

// The time allowed is too short for anything, then for everything: what is known
// by then is kept, or even recommended, and a resumed run goes on.
func TestMaxTime(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "results")
	p := executed(t, exitFailed, small(dir, "--max-time", "1ms")...)
	if want := "plimsoll: error: the time allowed ran out: "; !strings.Contains(p.errout.String(), want) {
		t.Errorf("stderr lacks %q:\n%s", want, &p.errout)
	}
	// How far a second gets depends on the machine: more of it each time, until
	// there is something to recommend, which is long before all is measured.
	var done bool
	for allowed := time.Second; !done && allowed < patience; allowed += allowed / 4 {
		p := start(t, nil, small(dir, "--resume", "--max-time", allowed.String())...)
		code := p.wait(t)
		if done = code == exitDone; !done && code != exitFailed {
			t.Fatalf("exit code %d within %v\n%s", code, allowed, &p.errout)
		}
	}
	run, rec := results(t, dir)
	partial := func(w profile.Warning) bool { return w.Code == "partial" }
	if run.Complete || !slices.ContainsFunc(rec.Warnings, partial) {
		t.Errorf("complete %v, warnings %v", run.Complete, rec.Warnings)
	}
	executed(t, exitDone, small(dir, "--resume", "--quiet")...)
	if run, err := store.ReadRun(dir); err != nil || !run.Complete {
		t.Errorf("after a run without a bound: complete %v, %v", run.Complete, err)
	}
}

// Nothing meets the SLA: exit 4, the binding metric, the nearest candidate and
// what it could meet, and everything is written and marked.
func TestInfeasible(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "results")
	p := executed(t, exitInfeasible, small(dir, "--ttft", "2", "--itl", "1", "--details")...)
	rec, err := store.ReadRecommendation(dir)
	if err != nil {
		t.Fatal(err)
	}
	run, err := store.ReadRun(dir)
	if err != nil {
		t.Fatal(err)
	}
	// A real client measured, however well it kept up here: it says so of itself.
	if c := run.Client; c == nil || c.Verdict == "" || c.CPU <= 0 {
		t.Errorf("client %+v", run.Client)
	}
	pre, dec := leastOf(run, profile.Prefill), leastOf(run, profile.Decode)
	out := p.out.String()
	for _, want := range []string{
		"\nMeasuring: client ",
		"  SLA      Nothing meets the SLA in prefill: TTFT binds\n", "  SLA      Nothing meets the SLA in decode: ITL binds\n",
		"  Nearest  " + pre + " at 1 in flight: the lowest TTFT is ", "  Nearest  " + dec + " at 1 in flight: the lowest ITL is ",
		"  Promise  --ttft ", "  Promise  --itl ",
		"INFEASIBLE: the lines below are the nearest candidate, not an answer\nSuggested prefill " + pre + " (",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("stdout lacks %q:\n%s", want, out)
		}
	}
	if rec.Feasible || rec.Prefill.Label != pre || rec.Decode.Label != dec || rec.Prefill.Margin >= 0 || rec.Decode.Margin >= 0 {
		t.Errorf("feasible %v, prefill %+v, decode %+v", rec.Feasible, rec.Prefill, rec.Decode)
	}
	for _, name := range pictures() {
		if svg := readFile(t, filepath.Join(dir, name+".svg")); !strings.Contains(svg, "NOTHING MEETS THE SLA") {
			t.Errorf("%s.svg is not marked infeasible", name)
		}
	}
	promised := between(out, "  Promise  --ttft ", "\n")
	itl := between(out, "  Promise  --itl ", "\n")
	t.Logf("could be promised: TTFT %s ms, ITL %s ms", promised, itl)
	p = executed(t, exitInfeasible, small(dir, "--ttft", "2", "--itl", "1", "--resume", "--quiet", "--format", "json")...)
	var got store.Recommendation
	if err := json.Unmarshal([]byte(p.out.String()), &got); err != nil {
		t.Fatalf("stdout is not recommendation.json: %v", err)
	}
	if a, b := fmt.Sprintf("%+v %+v", *got.Prefill, *got.Decode), fmt.Sprintf("%+v %+v", *rec.Prefill, *rec.Decode); a != b || got.Feasible {
		t.Errorf("as JSON it is feasible %v,\n%s, in the file it was\n%s", got.Feasible, a, b)
	}
}

// leastOf is the size that measured the least latency in a phase of the sweep.
func leastOf(run store.Run, phase profile.Phase) string {
	var best profile.Point
	for _, p := range run.Points {
		if p.Phase == phase && strings.HasPrefix(p.ID, "sweep/") && (best.ID == "" || p.Latency(profile.SLA{}) < best.Latency(profile.SLA{})) {
			best = p
		}
	}
	return best.Config.Parallelism.Label()
}

func between(s, from, to string) string {
	_, s, _ = strings.Cut(s, from)
	s, _, _ = strings.Cut(s, to)
	return s
}
