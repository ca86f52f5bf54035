//go:build full

package main

import (
	"fmt"
	"math"
	"path/filepath"
	"testing"

	"plimsoll/profile"
	"plimsoll/profile/store"
)

// The same model in real time over HTTP: the same picks, and the latencies to
// within 3 % or 1 ms. Other processes disturb the machine that this runs on, so
// the slow run may be repeated.
func estimateAgreesWithSim(t *testing.T) {
	// By 300 ms TP:2 sustains a sixth more prefill than TP:1; by 400 ms they are tied.
	args := []string{
		"--model", "llama-3.1-8b", "--gpu", "h100-sxm", "--gpu-count", "2", "--max-num-seqs", "16", "--isl", "8000", "--osl", "40",
		"--ttft", "300", "--itl", "9", "--prefill-interpolation-granularity", "2", "--decode-interpolation-granularity", "2",
		"--max-context-length", "8040", "--quiet", "--verify", "never",
	}
	profiled := func(kind string) (rec store.Recommendation, points map[string]profile.Point, complaints []string) {
		dir := filepath.Join(t.TempDir(), kind)
		p := start(t, nil, append([]string{"profile-sla", "--engine", kind, "--output-dir", dir}, args...)...)
		if code := p.wait(t); code != exitDone { // 4 too: points that could not be measured
			return rec, nil, []string{fmt.Sprintf("exit code %d\n%s", code, &p.errout)}
		}
		run, rec := results(t, dir)
		points = map[string]profile.Point{}
		for _, pt := range unbatched(run.Points) {
			points[pt.ID] = pt
		}
		return rec, points, nil
	}
	want, estimates, failed := profiled("estimate")
	if len(failed) > 0 {
		t.Fatal(failed)
	}
	once(t, func() []string {
		got, points, failed := profiled("sim")
		if len(failed) > 0 {
			return failed
		}
		complaints := disagreements(t, estimates, points)
		if got.Prefill.Label != want.Prefill.Label || got.Decode.Label != want.Decode.Label || math.Abs(got.Decode.InFlight-want.Decode.InFlight) > 1 {
			complaints = append(complaints, fmt.Sprintf("picked %s and %s at %.1f; estimated %s and %s at %.1f", got.Prefill.Label, got.Decode.Label,
				got.Decode.InFlight, want.Prefill.Label, want.Decode.Label, want.Decode.InFlight))
		}
		return complaints
	})
}

// disagreements compares the points that both runs have: those of both sweeps, and the
// surfaces' rows at the ends. Between these, rows are spaced by context, and an
// estimate's answers are longer.
func disagreements(t *testing.T, estimates, points map[string]profile.Point) []string {
	t.Helper()
	var out []string
	both := 0
	for id, e := range estimates {
		p, ok := points[id]
		if !ok {
			continue
		}
		both++
		d := deviation{undisturbed(p), e.Latency(profile.SLA{})}
		if !d.agrees() {
			out = append(out, id+": "+d.String())
		}
	}
	if both < len(estimates)/3 {
		out = append(out, fmt.Sprintf("only %d of %d points are in both runs", both, len(estimates)))
	}
	return out
}
