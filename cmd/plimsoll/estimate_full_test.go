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
func TestEstimateAgreesWithSim(t *testing.T) {
	timed(t)
	const runs = 3
	args := []string{
		"--model", "llama-3.1-8b", "--gpu", "h100-sxm", "--gpu-count", "2", "--max-num-seqs", "16", "--isl", "8000", "--osl", "40",
		"--ttft", "400", "--itl", "9", "--prefill-interpolation-granularity", "2", "--decode-interpolation-granularity", "2",
		"--max-context-length", "8040", "--quiet", "--verify", "never",
	}
	profiled := func(kind string) (store.Recommendation, map[string]profile.Point) {
		dir := filepath.Join(t.TempDir(), kind)
		p := start(t, nil, append([]string{"profile-sla", "--engine", kind, "--output-dir", dir}, args...)...)
		if code := p.wait(t); code != exitDone {
			t.Fatalf("exit code %d\n%s", code, &p.errout)
		}
		run, rec := results(t, dir)
		points := map[string]profile.Point{}
		for _, pt := range unbatched(run.Points) {
			points[pt.ID] = pt
		}
		return rec, points
	}
	want, estimates := profiled("estimate")
	for i := range runs {
		got, points := profiled("sim")
		complaints := disagreements(t, estimates, points)
		if got.Prefill.Label != want.Prefill.Label || got.Decode.Label != want.Decode.Label || math.Abs(got.Decode.InFlight-want.Decode.InFlight) > 1 {
			complaints = append(complaints, fmt.Sprintf("picked %s and %s at %.1f; estimated %s and %s at %.1f", got.Prefill.Label, got.Decode.Label,
				got.Decode.InFlight, want.Prefill.Label, want.Decode.Label, want.Decode.InFlight))
		}
		if len(complaints) == 0 {
			return
		}
		for _, c := range complaints {
			if i == runs-1 {
				t.Error(c)
			} else {
				t.Logf("run %d: %s", i+1, c)
			}
		}
	}
}

// disagreements compares the points that both runs have, which are most.
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
	if both < len(estimates)*2/3 {
		out = append(out, fmt.Sprintf("only %d of %d points are in both runs", both, len(estimates)))
	}
	return out
}
