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
	"plimsoll/engine/enginetest"
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
	p := ran(t, exitDone, importing(dir, src, "--ttft", "200", "--itl", "10")...)
	was := readFile(t, filepath.Join(dir, store.RecommendationFile))
	rec, err := store.ReadRecommendation(dir)
	if err != nil {
		t.Fatal(err)
	}
	if want := thousands(rec.Prefill.SustainedRPS * float64(rec.Workload.ISL)); !strings.Contains(p.out.String(), want) || want == thousands(rec.Prefill.ThroughputPerGPU) {
		t.Errorf("the card lacks the %s tokens/s of the rate beside it:\n%s", want, &p.out)
	}
	for _, args := range [][]string{
		importing(dir, src, "--ttft", "300", "--itl", "20"),
		{"profile-sla", "--engine", "estimate", "--model", "llama-3.1-8b", "--gpu", "h100-sxm", "--tp", "1", "--verify", "never", "--output-dir", dir},
	} {
		p := ran(t, exitUsage, args...)
		if want := "the folder holds another run"; !strings.Contains(p.errout.String(), want) || strings.Contains(p.errout.String(), "--resume") != (args[1] != "import") {
			t.Errorf("stderr lacks %q, or names a flag that the command does not have:\n%s", want, &p.errout)
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
	p := ran(t, exitInfeasible, importing(dir, src, "--isl", "30000", "--ttft", "200", "--itl", "4", "--details")...)
	for _, want := range []string{"  Warning: import/prefill: " + beyond + "\n", "  Warning: import/decode/n1: " + context + "\n", "  Warning: taken from imported surfaces"} {
		if strings.Count(p.out.String(), want) != 1 {
			t.Errorf("stdout lacks %q:\n%s", want, &p.out)
		}
	}
	for _, want := range []string{
		"  Promise  --ttft 768, if it goes on as measured: " + beyond + "\n",
		"  Promise  --itl 5.35, if it goes on as measured: " + context + "\n",
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
	if last := rec.Warnings[len(rec.Warnings)-1]; last.Code != importedCode {
		t.Errorf("the least important warning is %v", last)
	}
}

// tenfold is a profile of which the tokenizer made prompts ten times as short as it said:
// upstream published one. It agrees with itself.
func tenfold(t *testing.T) string {
	t.Helper()
	return withPrefill(t, func(s *profile.PrefillSample) {
		s.TTFT /= 10
		s.ThroughputPerGPU *= 10
	})
}

// withPrefill is Dynamo's profile with other prefill samples.
func withPrefill(t *testing.T, change func(*profile.PrefillSample)) string {
	t.Helper()
	src := dynamoFolder(t)
	s, err := store.LoadPrefill(src, store.LoadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range s.Samples {
		change(&s.Samples[i])
	}
	if err := store.WritePrefill(src, s); err != nil {
		t.Fatal(err)
	}
	return src
}

// flatProfile is one whose prompts came from a cache.
func flatProfile(t *testing.T) string {
	t.Helper()
	return withPrefill(t, func(x *profile.PrefillSample) {
		x.TTFT = 20*time.Millisecond + time.Duration(x.ISL)*time.Microsecond
		x.ThroughputPerGPU = float64(x.ISL) / x.TTFT.Seconds()
	})
}

// overfullProfile is one whose KV usage is in percent.
func overfullProfile(t *testing.T) string {
	t.Helper()
	src := dynamoFolder(t)
	s, err := store.LoadDecode(src, store.LoadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range s.Samples {
		s.Samples[i].KVUsage *= 100
	}
	if err := store.WriteDecode(src, s); err != nil {
		t.Fatal(err)
	}
	return src
}

// Figures that no GPU can have end an import, by name and by how much, and nothing is
// written. What is accepted says so first, wherever it is read.
func TestImportRefusesTheImpossible(t *testing.T) {
	t.Parallel()
	on := []string{"--model", "llama-3.1-8b", "--gpu", "h200-sxm", "--ttft", "200", "--itl", "10"}
	for name, c := range map[string]struct {
		src      string
		flags    []string
		want, by string
	}{
		"tenfold":  {tenfold(t), on, "prefill throughput is above what the GPU can compute, at ISL 1117, ISL 2134, ", " is 4.09 times its peak of 123,159 "},
		"flat":     {flatProfile(t), on[4:], "TTFT hardly grows with ISL: from 21.12 ms at ISL 1117 to 36.37 ms at ISL 16372, 1.7× for a prompt 14.7× as long (expected: at least 2.9×)", ""},
		"overfull": {overfullProfile(t), on[4:], "KV usage is above 2, at row ", " times what the cache holds"},
	} {
		dir := filepath.Join(t.TempDir(), "prof")
		p := ran(t, exitUsage, importing(dir, c.src, c.flags...)...)
		if got := p.errout.String(); !strings.HasPrefix(got, "plimsoll: error: import: the figures are implausible: "+c.want) || !strings.Contains(got, c.by) || !strings.Contains(got, "hint: --accept implausible imports them anyway") {
			t.Errorf("%s: %s", name, got)
		}
		if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: %s is there: %v", name, dir, err)
		}
		p = ran(t, exitDone, importing(dir, c.src, append([]string{"--accept", "implausible"}, c.flags...)...)...)
		first(t, name+": stdout", p.out.String(), "IMPLAUSIBLE — "+c.want)
		readers(t, name, dir, c.want)
	}
	if p := ran(t, exitUsage, importing(filepath.Join(t.TempDir(), "prof"), tenfold(t), "--accept", "everything")...); !strings.Contains(p.errout.String(), `--accept "everything": want implausible`) {
		t.Error(p.errout.String())
	}
}

// readers looks at what every command that reads a profile begins with.
func readers(t *testing.T, name, dir, want string) {
	t.Helper()
	cannot := "the profile's figures are implausible: " + want
	all, err := parsedPlanner(t, "--profile", dir, "--accept-provenance", "published")
	if err != nil {
		t.Fatal(err)
	}
	ws := all[0].surfaces.caveats("")
	if len(ws) < 2 || !strings.HasPrefix(ws[0].Message, cannot) || ws[len(ws)-1].Code != store.ProfileDoubts {
		t.Errorf("%s: planner serve warns of %v", name, ws)
	}
	p := ran(t, exitUsage, "planner", "serve", "--profile", dir, "--accept-provenance", "published", "--slots", "2", "--state-file", "none")
	first(t, name+": serve", p.errout.String(), "plimsoll: warning: dynamo: "+cannot)
	replay := []string{"planner", "replay", "--profile", dir, "--rate", "1", "--duration", "3m", "--isl", "3000", "--osl", "100", "--policy", "load"}
	if !enginetest.Full {
		if name == "overfull" {
			return // its replay takes seconds, too
		}
		first(t, name+": replay", ran(t, exitDone, replay...).out.String(), "IMPLAUSIBLE — "+cannot)
		return // the others take seconds
	}
	for what, args := range map[string][]string{
		"plan":     {"capacity", "plan", "--profile", dir, "--rate", "2", "--isl", "3000", "--osl", "300", "--cost-per-gpu-hour", "2", "--ttft-p99", "1000", "--itl-p99", "50", "--strategy", "disaggregated"},
		"simulate": {"engine", "simulate", "--profile", dir, "--prefill-replicas", "1", "--decode-replicas", "1", "--rate", "1", "--requests", "20", "--isl", "3000", "--osl", "100"},
		"replay":   replay,
	} {
		first(t, name+": "+what, ran(t, exitDone, args...).out.String(), "IMPLAUSIBLE — "+cannot)
	}
	for _, args := range [][]string{{"plot", dir}, {"report", dir}} {
		first(t, name+": "+args[0], ran(t, exitDone, args...).errout.String(), "plimsoll: warning: "+dir+": "+cannot)
	}
	page, picture := readFile(t, filepath.Join(dir, reportFileName)), readFile(t, filepath.Join(dir, "prefill_performance.svg"))
	if i, j := strings.Index(page, "<strong>implausible</strong> – "), strings.Index(page, "<strong>published</strong>"); i < 0 || i > j {
		t.Errorf("%s: the page does not begin with it: at %d, the provenance at %d", name, i, j)
	}
	if !strings.Contains(picture, "IMPLAUSIBLE — ") {
		t.Errorf("%s: the picture does not say it", name)
	}
}

// first wants a text to begin with another.
func first(t *testing.T, what, text, want string) {
	t.Helper()
	if !strings.HasPrefix(text, want) {
		t.Errorf("%s: it begins with\n%.300s\nwant\n%s", what, text, want)
	}
}

// Surfaces without a recommendation are looked at by the planner itself, which refuses
// what import refuses, and repeats what it doubts.
func TestPlannerDoubtsSurfaces(t *testing.T) {
	_, err := parsedPlanner(t, "--profile", flatProfile(t), "--accept-provenance", "published")
	if err == nil || !strings.Contains(err.Error(), "the figures are implausible: TTFT hardly grows with ISL") {
		t.Errorf("%v", err)
	}
	all, err := parsedPlanner(t, "--profile", dynamoFolder(t), "--accept-provenance", "published", "--ttft", "500", "--itl", "50")
	if err != nil {
		t.Fatal(err)
	}
	if ws := all[0].surfaces.caveats(""); !slices.ContainsFunc(ws, func(w profile.Warning) bool { return w.Code == "itl_not_rising" }) {
		t.Errorf("%v", ws)
	}
}

// What is suspicious and happens is imported: one slow outlier among published TTFTs.
func TestImportTakesAnOutlier(t *testing.T) {
	t.Parallel()
	src, dir := dynamoFolder(t), filepath.Join(t.TempDir(), "prof")
	s, err := store.LoadPrefill(src, store.LoadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	s.Samples[6].TTFT, s.Samples[6].ThroughputPerGPU = 498*time.Millisecond, float64(s.Samples[6].ISL)/0.498
	if err := store.WritePrefill(src, s); err != nil {
		t.Fatal(err)
	}
	p := ran(t, exitDone, importing(dir, src, "--ttft", "200", "--itl", "10", "--details")...)
	for _, want := range []string{"Warning: TTFT falls although the prompt is longer at ISL ", "Warning: throughput was not checked against the GPU's peak: no --model and --gpu were given"} {
		if !strings.Contains(p.out.String(), want) {
			t.Errorf("stdout lacks %q:\n%s", want, &p.out)
		}
	}
}

// An import whose rows Dynamo's planner interpolates badly is taken, and says so: contexts
// as they were seen, or rows that begin at a high load.
func TestImportWarnsOfUnevenRows(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, want string
		change     func([]profile.DecodeSample) []profile.DecodeSample
	}{
		{"as published", "", func(s []profile.DecodeSample) []profile.DecodeSample { return s }},
		{"contexts as seen", "contexts differ within a row (", func(s []profile.DecodeSample) []profile.DecodeSample {
			for i := range s {
				s[i].Context *= 1 + float64(i%5)/1000
			}
			return s
		}},
		{"no low load", "low load was not measured (the lowest: ", func(s []profile.DecodeSample) []profile.DecodeSample {
			return slices.DeleteFunc(s, func(p profile.DecodeSample) bool { return p.Context > 10_000 && p.KVUsage < 0.2 })
		}},
	} {
		src, dir := dynamoFolder(t), filepath.Join(t.TempDir(), "prof")
		s, err := store.LoadDecode(src, store.LoadOptions{})
		if err != nil {
			t.Fatal(err)
		}
		s.Samples = c.change(s.Samples)
		if err := store.WriteDecode(src, s); err != nil {
			t.Fatal(err)
		}
		ran(t, exitDone, importing(dir, src, "--isl", "3000", "--ttft", "200", "--itl", "10", "--quiet")...)
		rec, err := store.ReadRecommendation(dir)
		if err != nil {
			t.Fatal(err)
		}
		said := ""
		for _, w := range rec.Warnings {
			if w.Code == "uneven_rows" {
				said += w.Message + "; "
			}
		}
		if !strings.HasPrefix(said, c.want) || c.want == "" && said != "" {
			t.Errorf("%s: %q, want %q", c.name, said, c.want)
		}
	}
}
