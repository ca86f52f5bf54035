package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"plimsoll/profile"
	"plimsoll/profile/store"
)

// Nothing meets the SLA: exit 4, the binding metric, the nearest candidate and
// what it could meet, and everything is written and marked.
func TestInfeasible(t *testing.T) {
	long(t)
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "results")
	p := ran(t, exitInfeasible, small(dir, "--ttft", "2", "--itl", "1")...)
	rec, err := store.ReadRecommendation(dir)
	if err != nil {
		t.Fatal(err)
	}
	run, err := store.ReadRun(dir)
	if err != nil {
		t.Fatal(err)
	}
	// A real client measured, however well it kept up here: it says so of itself.
	if c := run.Client; c == nil || c.Verdict == "" || c.Calibration == nil || c.Calibration.Streams < 1 || c.CPU <= 0 {
		t.Errorf("client %+v", run.Client)
	}
	pre, dec := leastOf(run, profile.Prefill), leastOf(run, profile.Decode)
	out := p.out.String()
	for _, want := range []string{
		"\nMeasuring: client ",
		"Nothing meets the SLA in prefill: TTFT binds\n", "Nothing meets the SLA in decode: ITL binds\n",
		"  nearest: " + pre + " at 1 in flight: nothing meets the SLA: TTFT ", "  nearest: " + dec + " at 1 in flight: nothing meets the SLA: ITL ",
		"  could be promised: --ttft ", "  could be promised: --itl ",
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
	promised := between(out, "could be promised: --ttft ", "\n")
	itl := between(out, "could be promised: --itl ", "\n")
	t.Logf("could be promised: TTFT %s ms, ITL %s ms", promised, itl)
	p = ran(t, exitInfeasible, small(dir, "--ttft", "2", "--itl", "1", "--resume", "--quiet", "--format", "json")...)
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

// A folder that another run writes is left to it, however it is asked for.
func TestFolderOfARunThatLives(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "results")
	d, err := store.Create(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = d.Close() }()
	if err := os.WriteFile(filepath.Join(dir, store.JournalFile), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, how := range []string{"--resume", "--force"} {
		p := ran(t, exitUsage, "profile-sla", "--engine", "sim", "--quiet", how, "--output-dir", dir)
		for _, want := range []string{"another plimsoll is writing the folder\n", "hint: wait until that run has ended, or name another folder\n"} {
			if !strings.Contains(p.errout.String(), want) {
				t.Errorf("%s: stderr lacks %q:\n%s", how, want, &p.errout)
			}
		}
	}
}
