//go:build full

package main

import (
	"encoding/json"
	"fmt"
	"math"
	"path/filepath"
	"regexp"
	"strings"
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

// With --format json stdout is recommendation.json, with the terms of the picks
// where they were asked for; they add up to the latencies.
func TestExplain(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "results")
	p := ran(t, exitDone, estimated(dir, "--format", "json", "--explain")...)
	var got explained
	if err := json.Unmarshal([]byte(p.out.String()), &got); err != nil {
		t.Fatal(err)
	}
	if len(got.Explain) != 2 || got.Prefill == nil {
		t.Fatalf("stdout:\n%s", &p.out)
	}
	for i, want := range []float64{got.Prefill.TTFTMillis, got.Decode.ITLMillis} {
		x := got.Explain[i]
		sum, share := 0.0, 0.0
		for _, term := range x.Operators {
			sum, share = sum+term.Millis, share+term.Share
			if term.Name == "" || term.Millis <= 0 {
				t.Errorf("%s: %+v", x.Phase, term)
			}
		}
		if math.Abs(sum/want-1) > 0.005 || math.Abs(share-1) > 1e-9 || math.Abs(sum-x.Millis) > 1e-9 {
			t.Errorf("%s: the terms add up to %.4f ms (%.4f, shares %.4f), the pick has %.4f ms", x.Phase, sum, x.Millis, share, want)
		}
	}
	text := ran(t, exitDone, estimated(dir, "--resume", "--explain")...).out.String()
	for _, want := range []string{"\nWhere TTFT of one prompt of 500 tokens goes at TP:", "\nWhere ITL of ", "operator", "TFLOP/s/GPU"} {
		if !strings.Contains(text, want) {
			t.Errorf("stdout lacks %q:\n%s", want, text)
		}
	}
}

// Two runs are the same byte for byte, but for when they ran.
func TestEstimateIsDeterministic(t *testing.T) {
	t.Parallel()
	when := regexp.MustCompile(`"(started|ended|elapsed_ns)":\s*("[^"]*"|[0-9.e+-]+)|<dt>Made</dt><dd>[^<]*`)
	trees := make([]map[string]string, 2)
	for i := range trees {
		dir := filepath.Join(t.TempDir(), "results")
		p := ran(t, exitDone, estimated(dir, "--noise", "0.05")...)
		trees[i] = tree(t, dir)
		trees[i]["stdout"] = strings.ReplaceAll(p.out.String(), dir, "DIR")
		for name, text := range trees[i] {
			trees[i][name] = when.ReplaceAllString(text, `"$1":0`)
		}
	}
	same(t, trees[0], trees[1])
}
