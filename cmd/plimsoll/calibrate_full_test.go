//go:build full

package main

import (
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"plimsoll/engine"
	"plimsoll/engine/catalog"
	"plimsoll/engine/latency"
	"plimsoll/profile"
	"plimsoll/profile/store"
)

// A server is measured, the latency model calibrated to the measured points,
// and the calibrated model predicts that server: at the points that it has seen
// and, by a profile with --engine estimate, at lengths and loads that it has
// not. The shipped fit does not. Other processes disturb the machine that this
// runs on, so the measurement may be repeated.
func calibratedModelAgrees(t *testing.T) {
	once(t, func() []string { return calibrateRun(t) })
}

func calibrateRun(t *testing.T) (complaints []string) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "measured")
	ours := filepath.Join(t.TempDir(), "ours.json")
	p := start(t, nil, "profile-sla", "--engine", "endpoint", "--endpoint", serveAffine(t), "--endpoint-gpus", "1",
		"--max-in-flight", "16", "--kv-tokens", "100000", "--provenance", "measured", "--gpu", "h100-sxm",
		"--isl", "500", "--osl", "32", "--ttft", "100", "--itl", "11", "--quiet",
		"--prefill-interpolation-granularity", "4", "--decode-interpolation-granularity", "2", "--max-context-length", "2000", "--verify", "never", "--output-dir", dir)
	if code := p.wait(t); code != exitDone {
		t.Fatalf("exit code %d\n%s", code, &p.errout)
	}
	run, err := store.ReadRun(dir)
	if err != nil || run.Provenance != profile.Measured {
		t.Fatalf("%v, %v", run.Provenance, err)
	}

	// The server has a name of its own for its model.
	q := ran(t, exitUsage, "calibrate", "--output", ours, dir)
	if want := `unknown model "house-llama"; --model NAME says which of the catalog's it is`; !strings.Contains(q.errout.String(), want) {
		t.Errorf("stderr lacks %q:\n%s", want, &q.errout)
	}
	q = ran(t, exitDone, "calibrate", "--model", "llama-3.1-8b", "--output", ours, dir)
	t.Logf("\n%s", &q.out)

	fit, err := latency.ParseFit([]byte(readFile(t, ours)))
	if err != nil {
		t.Fatal(err)
	}
	run.Points = unbatched(run.Points) // they are no TTFT of one prompt
	if fit.Calibrated != len(run.Points) {
		t.Errorf("calibrated on %d of %d points", fit.Calibrated, len(run.Points))
	}
	complaints = append(complaints, wrongAt(t, "the points themselves", seenErrors(t, run.Points, fit), seenErrors(t, run.Points, latency.DefaultFit()))...)
	return append(complaints, wrongAt(t, "new lengths and loads", unseenErrors(t, "--fit", ours), unseenErrors(t))...)
}

// wrongAt wants a median error within 5 % and all within 30 %, and the median
// of the prior beyond 20 %. The far ones are short prompts: the fit takes a
// millisecond of this machine's for more.
func wrongAt(t *testing.T, what string, fitted, prior map[string]float64) (complaints []string) {
	t.Helper()
	median := func(errs map[string]float64) float64 {
		var es []float64
		for _, e := range errs {
			es = append(es, math.Abs(e))
		}
		slices.Sort(es)
		return es[len(es)/2]
	}
	t.Logf("%s: median error %.1f %%, before %.1f %%", what, 100*median(fitted), 100*median(prior))
	if m := median(fitted); m > 0.05 {
		complaints = append(complaints, fmt.Sprintf("%s: median error %.1f %%", what, 100*m))
	}
	if m := median(prior); m < 0.2 {
		complaints = append(complaints, fmt.Sprintf("%s: the prior's median error is %.1f %%: this shows nothing", what, 100*m))
	}
	for id, e := range fitted {
		if math.Abs(e) > 0.3 {
			complaints = append(complaints, fmt.Sprintf("%s: %s is predicted %+.1f %% off", what, id, 100*e))
		}
	}
	return complaints
}

// seenErrors are the errors of a fit at measured points.
func seenErrors(t *testing.T, points []profile.Point, fit latency.Fit) map[string]float64 {
	t.Helper()
	out := map[string]float64{}
	for _, p := range points {
		o, ok := pointObservation(p)
		if !ok {
			t.Fatalf("%s is no observation", p.ID)
		}
		c := p.Config
		c.Model = simModel
		out[p.ID] = fitted(t, c, fit).Predict(o)/o.Seconds - 1
	}
	return out
}

// unseenErrors profiles by the latency model and compares its points with what
// the server takes by definition.
func unseenErrors(t *testing.T, more ...string) map[string]float64 {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "estimated")
	executed(t, exitDone, append([]string{
		"profile-sla", "--engine", "estimate", "--model", "llama-3.1-8b", "--gpu", "h100-sxm", "--tp", "1",
		"--isl", "1200", "--osl", "40", "--ttft", "200", "--itl", "15", "--max-num-seqs", "24", "--quiet",
		"--prefill-interpolation-granularity", "3", "--decode-interpolation-granularity", "3", "--max-context-length", "1800", "--verify", "never", "--output-dir", dir,
	}, more...)...)
	run, err := store.ReadRun(dir)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]float64{}
	for _, p := range unbatched(run.Points) {
		n := math.Round(p.InFlight)
		want := affineStep + time.Duration(n*float64(affineSeq)+n*p.Context*float64(affineContext))
		if p.Phase == profile.Prefill {
			want = affineStep + affineSeq + time.Duration(p.ISL)*(affinePrompt+affineContext)
		}
		out[p.ID] = float64(p.Latency(profile.SLA{}))/float64(want) - 1
	}
	return out
}

func fitted(t *testing.T, c engine.Config, fit latency.Fit) latency.Model {
	t.Helper()
	cat, err := catalog.Default()
	if err != nil {
		t.Fatal(err)
	}
	m, g, err := ranOn{}.of(profile.Point{Config: c}, "", cat)
	if err != nil {
		t.Fatal(err)
	}
	model, err := latency.NewWith(m, g, c, fit)
	if err != nil {
		t.Fatal(err)
	}
	return model
}
