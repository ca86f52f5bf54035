package main

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"plimsoll/engine"
	"plimsoll/profile"
	"plimsoll/profile/store"
)

// dynamoFolder is a profile as Dynamo leaves it.
func dynamoFolder(t *testing.T) string {
	t.Helper()
	src := t.TempDir()
	for _, phase := range []string{"prefill", "decode"} {
		b, err := os.ReadFile(filepath.Join("..", "..", "testdata", "npz", "h200-8b-fp8-tp1-"+phase+".npz"))
		if err != nil {
			t.Fatal(err)
		}
		folder := filepath.Join(src, "selected_"+phase+"_interpolation")
		if err := os.Mkdir(folder, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(folder, "raw_data.npz"), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return src
}

// importing is the command line that imports src into dir, with more flags before src.
func importing(dir, src string, flags ...string) []string {
	args := append([]string{"profile-sla", "import", "--tp", "1", "--osl", "300", "--output-dir", dir}, flags...)
	return append(args, src)
}

// An import is no run that knew nothing, though no point is in its journal: only
// --force replaces it, and what was there stays readable.
func TestImportIsNotOverwritten(t *testing.T) {
	t.Parallel()
	src, dir := dynamoFolder(t), filepath.Join(t.TempDir(), "prof")
	ran(t, exitDone, importing(dir, src, "--ttft", "200", "--itl", "10")...)
	was := readFile(t, filepath.Join(dir, store.RecommendationFile))
	for _, args := range [][]string{
		importing(dir, src, "--ttft", "300", "--itl", "20"),
		{"profile-sla", "--engine", "estimate", "--model", "llama-3.1-8b", "--gpu", "h100-sxm", "--tp", "1", "--verify", "never", "--output-dir", dir},
	} {
		p := ran(t, exitUsage, args...)
		if want := "the folder holds another run"; !strings.Contains(p.errout.String(), want) {
			t.Errorf("stderr lacks %q:\n%s", want, &p.errout)
		}
	}
	if now := readFile(t, filepath.Join(dir, store.RecommendationFile)); now != was {
		t.Errorf("the import's recommendation became\n%s", now)
	}
	ran(t, exitDone, importing(dir, src, "--ttft", "300", "--itl", "20", "--force")...)
	if moved := readFile(t, filepath.Join(dir+".1", store.RecommendationFile)); moved != was {
		t.Errorf("what was moved aside is\n%s", moved)
	}
}

// What is sustained rises with the ITL that is allowed, a little at a time: the surface
// is read where a load that comes on its own takes the engine, not at one load alone.
func TestImportedRateRisesWithITL(t *testing.T) {
	t.Parallel()
	src, in := dynamoFolder(t), imported{layout: engine.TP(1)}
	var perr, derr error
	in.prefill, perr = store.LoadPrefill(src, store.LoadOptions{})
	in.decode, derr = store.LoadDecode(src, store.LoadOptions{})
	if err := errors.Join(perr, derr); err != nil {
		t.Fatal(err)
	}
	const exact = 0.002 // to which share a rate is found, twice
	type found struct{ itl, rate, use float64 }
	var was found
	for _, itl := range []float64{6, 8, 9.99, 10, 10.01, 10.02, 10.03, 10.05, 10.5, 11, 12, 14, 17, 20, 30} {
		o := profileOptions{isl: 3000, osl: 300, sla: profile.SLA{TTFT: 200 * time.Millisecond, ITL: time.Duration(itl * float64(time.Millisecond)), Stat: profile.Mean}}
		points, err := in.points(o)
		if err != nil {
			t.Fatal(err)
		}
		res, _, err := in.result(points, o)
		if err != nil {
			t.Fatal(err)
		}
		now := found{itl, res.Decode.Picked.RPS, decodeUse(res)}
		share := now.rate * 300 / res.Decode.Picked.Point.ThroughputPerGPU
		if !res.Decode.Feasible || share < 0.8 || share > 1 {
			t.Errorf("ITL %g ms: feasible %v, sustained %.3f of the throughput", itl, res.Decode.Feasible, share)
		}
		if was.itl > 0 && (now.rate < was.rate*(1-exact) || now.use < was.use*(1-exact) || now.rate > was.rate*(1+3*(itl/was.itl-1)+exact)) {
			t.Errorf("%+v, and before %+v", now, was)
		}
		was = now
	}
}

// What was read off beyond the measured range says so before the result and wherever
// it is offered.
func TestImportSaysItsCaveats(t *testing.T) {
	t.Parallel()
	src, dir := dynamoFolder(t), filepath.Join(t.TempDir(), "prof")
	const beyond, context = "ISL 30000 is outside the measured 100–16372", "context 30150 is outside the measured 350–13585"
	p := ran(t, exitInfeasible, importing(dir, src, "--isl", "30000", "--ttft", "200", "--itl", "4", "--quiet")...)
	for _, want := range []string{"warning: import/prefill: " + beyond + "\n", "warning: import/decode/n1: " + context + "\n", "warning: read off surfaces made elsewhere"} {
		if strings.Count(p.errout.String(), want) != 1 {
			t.Errorf("stderr lacks %q:\n%s", want, &p.errout)
		}
	}
	for _, want := range []string{
		"could be promised: --ttft 768, if it goes on as measured: " + beyond + "\n",
		"could be promised: --itl 5.35, if it goes on as measured: " + context + "\n",
	} {
		if !strings.Contains(p.out.String(), want) {
			t.Errorf("stdout lacks %q:\n%s", want, &p.out)
		}
	}
	rec, err := store.ReadRecommendation(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, code := range []string{"isl_out_of_range", "context_out_of_range", "imported"} {
		if !slices.ContainsFunc(rec.Warnings, func(w profile.Warning) bool { return w.Code == code }) {
			t.Errorf("recommendation.json lacks %s: %v", code, rec.Warnings)
		}
	}
}
