package main

import (
	"archive/zip"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"plimsoll/engine/enginetest"
	"plimsoll/plots"
	"plimsoll/profile"
	"plimsoll/profile/store"
	"plimsoll/sweep"
)

// pictures are the six that a profile draws, each as PNG and SVG.
func pictures() []string {
	return []string{
		"prefill_performance", "decode_performance", "prefill_ttft_interpolation", "prefill_throughput_interpolation",
		"decode_itl_interpolation", "decode_throughput_interpolation",
	}
}

// The whole job on the embedded engine, and everything that can be done with
// the folder afterwards.
func TestProfile(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "results")
	p := executed(t, exitDone, small(dir, "--details")...)
	p.noOrphans(t)
	rec, err := store.ReadRecommendation(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Run("files", func(t *testing.T) { checkFiles(t, dir, rec) })
	t.Run("provenance", func(t *testing.T) { checkSimulated(t, dir, p) })
	t.Run("model error", func(t *testing.T) { checkModelError(t, dir, p, rec) })
	t.Run("suggested", func(t *testing.T) { checkSuggested(t, p.out.String(), rec) })
	t.Run("again", func(t *testing.T) {
		before := tree(t, dir)
		p := executed(t, exitUsage, small(dir)...)
		want := "plimsoll: error: --output-dir: " + dir + ": the folder holds another run: --resume continues it, --force moves it aside\n"
		if !strings.HasSuffix(p.errout.String(), want) {
			t.Errorf("stderr:\n%s", &p.errout)
		}
		same(t, before, tree(t, dir))
	})
	t.Run("changed input", func(t *testing.T) {
		before := tree(t, dir)
		p := executed(t, exitUsage, small(dir, "--resume", "--isl", "600", "--seed", "7")...)
		for _, want := range []string{"--isl was 500, now 600", "--seed was 1, now 7"} {
			if !strings.Contains(p.errout.String(), want) {
				t.Errorf("stderr does not name %q:\n%s", want, &p.errout)
			}
		}
		same(t, before, tree(t, dir))
	})
	t.Run("resume", func(t *testing.T) { checkResumeOfFinished(t, p, small(dir, "--resume", "--details"), dir) })
	t.Run("plot", func(t *testing.T) { checkPlot(t, dir) })
	t.Run("force", func(t *testing.T) {
		if !enginetest.Full {
			return // it is another profile
		}
		before := tree(t, dir)
		executed(t, exitDone, small(dir, "--force", "--quiet")...)
		same(t, before, tree(t, dir+".1"))
		if _, err := store.ReadRecommendation(dir); err != nil {
			t.Error(err)
		}
	})
}

// rawRecords are the records of a point's requests.
func rawRecords(t *testing.T, dir, point string) []profile.Request {
	t.Helper()
	f, err := os.Open(filepath.Join(dir, store.RequestsDir, strings.ReplaceAll(point, "/", "_")+".jsonl.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close() //nolint:errcheck // read only
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	var rs []profile.Request
	for d := json.NewDecoder(z); ; {
		var r profile.Request
		if err := d.Decode(&r); err == io.EOF {
			return rs
		} else if err != nil {
			t.Fatal(err)
		}
		rs = append(rs, r)
	}
}

// checkFiles reads every file of the contract back.
func checkFiles(t *testing.T, dir string, rec store.Recommendation) {
	run, err := store.ReadRun(dir)
	if err != nil {
		t.Fatal(err)
	}
	if !run.Complete || run.SLA.Stat != profile.Mean || len(run.GPUs) == 0 || len(run.Engines) == 0 || run.Inputs["--isl"] != itoa(rec.Workload.ISL) {
		t.Errorf("run.json: complete %v, SLA %+v, %d GPUs, %d engines, isl %q", run.Complete, run.SLA, len(run.GPUs), len(run.Engines), run.Inputs["--isl"])
	}
	log, err := store.ReadJournal(filepath.Join(dir, store.JournalFile))
	if err != nil {
		t.Fatal(err)
	}
	if len(log.Points) != len(run.Points)+len(run.Discarded) || len(log.Points) < 8 {
		t.Errorf("%d points in the journal, %d in run.json", len(log.Points), len(run.Points)+len(run.Discarded))
	}
	for _, p := range log.Points {
		if p.Provenance == profile.Estimated {
			if _, err := os.Stat(filepath.Join(dir, store.RequestsDir)); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("an estimate keeps records: %v", err)
			}
			break
		}
		if p.Stage == profile.StageVerify {
			continue // what is beyond its window is kept too, and one that is certain to miss is stopped
		}
		n := 0
		for _, r := range rawRecords(t, dir, p.ID) {
			if n++; !r.OK() && p.Discarded == "" {
				t.Errorf("%s: request %d: %s %s", p.ID, r.Index, r.Failure, r.Error)
			}
		}
		if n != p.Requests {
			t.Errorf("%s: %d records of %d requests", p.ID, n, p.Requests)
		}
	}
	checkSurfaces(t, dir, rec)
	engines := map[string]profile.EngineFacts{}
	for _, e := range run.Engines {
		engines[e.Key] = e.EngineFacts
	}
	if run.Inputs["--endpoint"] == "" { // whose loads are as few as --max-in-flight allows
		rowsHold(t, dir, run.Points, engines, sweep.Adaptive)
	}
	for _, name := range pictures() {
		if img, err := png.Decode(strings.NewReader(readFile(t, filepath.Join(dir, name+".png")))); err != nil {
			t.Errorf("%s.png: %v", name, err)
		} else if n := coloursOf(img); img.Bounds().Dx() != 1200*plots.DPI/96 || n < 20 {
			t.Errorf("%s.png: %v, %d colours", name, img.Bounds(), n)
		}
		if svg := readFile(t, filepath.Join(dir, name+".svg")); !strings.Contains(svg, "<svg") || !strings.HasSuffix(strings.TrimSpace(svg), "</svg>") {
			t.Errorf("%s.svg: %d bytes", name, len(svg))
		}
	}
}

func coloursOf(img image.Image) int {
	colours := map[color.Color]bool{}
	for y := range img.Bounds().Dy() {
		for x := range img.Bounds().Dx() {
			colours[img.At(x, y)] = true
		}
	}
	return len(colours)
}

// checkSurfaces wants the NPZ, its JSON twin and its link to hold the same.
func checkSurfaces(t *testing.T, dir string, rec store.Recommendation) {
	picks := map[profile.Phase]*store.Pick{profile.Prefill: rec.Prefill, profile.Decode: rec.Decode}
	for phase, pick := range picks {
		npzPath := filepath.Join(dir, store.SurfaceNPZ(phase))
		link := filepath.Join(dir, store.LinkName(phase, pick.Parallelism().Slug()), "raw_data.npz")
		if readFile(t, npzPath) != readFile(t, link) {
			t.Errorf("%s: the link holds something else", phase)
		}
		if _, err := os.Stat(filepath.Join(dir, string(phase)+"_"+strings.NewReplacer(":", "", " ", "").Replace(strings.ToLower(pick.Label))+"_interpolation")); err != nil {
			t.Error(err)
		}
	}
	ps, err := store.ReadPrefill(filepath.Join(dir, store.SurfaceNPZ(profile.Prefill)), store.LoadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	twin, err := store.ReadPrefill(filepath.Join(dir, store.SurfaceJSON(profile.Prefill)), store.LoadOptions{})
	if err != nil || !slices.Equal(ps.Samples, twin.Samples) || len(ps.Samples) != rec.Surfaces.Prefill.Points || len(ps.Samples) < 3 {
		t.Errorf("prefill: NPZ %v, JSON %v, %v", ps, twin, err)
	}
	ds, err := store.ReadDecode(filepath.Join(dir, store.SurfaceNPZ(profile.Decode)), store.LoadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	dtwin, err := store.ReadDecode(filepath.Join(dir, store.SurfaceJSON(profile.Decode)), store.LoadOptions{})
	if err != nil || !slices.Equal(ds.Samples, dtwin.Samples) || ds.MaxKVTokens != dtwin.MaxKVTokens || len(ds.Samples) != rec.Surfaces.Decode.Points {
		t.Errorf("decode: NPZ %v, JSON %v, %v", ds, dtwin, err)
	}
}

// checkSimulated wants the word on the terminal and in every file.
func checkSimulated(t *testing.T, dir string, p *program) {
	if !strings.HasPrefix(p.out.String(), "SIMULATED") || !strings.Contains(p.out.String(), "(simulated)") {
		t.Errorf("stdout does not say it:\n%s", &p.out)
	}
	if !strings.Contains(p.errout.String(), "plimsoll: warning: SIMULATED: ") {
		t.Errorf("stderr does not say it:\n%s", &p.errout)
	}
	checkSimulatedFiles(t, dir)
}

func checkSimulatedFiles(t *testing.T, dir string) {
	t.Helper()
	for name, text := range tree(t, dir) {
		switch filepath.Ext(name) {
		case ".json":
			var file struct{ Provenance any }
			if err := json.Unmarshal([]byte(text), &file); err != nil || file.Provenance == nil {
				t.Errorf("%s: provenance %v, %v", name, file.Provenance, err)
			}
			if s := fmt.Sprint(file.Provenance); s != "simulated" && s != "1" {
				t.Errorf("%s: provenance %s", name, s)
			}
		case ".npz":
			if b := npyBytes(t, text, "provenance.npy"); !strings.Contains(b, "'|i1'") || !strings.HasSuffix(b, "\n\x01") {
				t.Errorf("%s: provenance is %q", name, b)
			}
		case ".svg":
			if !strings.Contains(strings.ToLower(text), "simulated") {
				t.Errorf("%s does not say it", name)
			}
		case ".jsonl":
			for line := range strings.Lines(text) {
				if strings.Contains(line, `"type":"point"`) && !strings.Contains(line, `"provenance":"simulated"`) {
					t.Errorf("%s: %s", name, line)
				}
			}
		}
	}
}

// npyBytes is one array of an NPZ, as it lies in the file.
func npyBytes(t *testing.T, npz, name string) string {
	t.Helper()
	z, err := zip.NewReader(strings.NewReader(npz), int64(len(npz)))
	if err != nil {
		t.Fatal(err)
	}
	f, err := z.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(f)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// checkSuggested wants the four lines last, with the numbers of the file.
func checkSuggested(t *testing.T, stdout string, rec store.Recommendation) {
	lines := strings.Split(strings.TrimSuffix(stdout, "\n"), "\n")
	pre, dec, th := rec.Prefill, rec.Decode, rec.Thresholds
	want := []string{
		fmt.Sprintf("Suggested prefill TP:%d (TTFT %.2f ms, throughput %.2f tokens/s/GPU)", pre.TP, pre.TTFTMillis, pre.ThroughputPerGPU),
		fmt.Sprintf("Suggested planner upper/lower bound for prefill queue size: %.2f/%.2f", th.PrefillQueueSize.Upper, th.PrefillQueueSize.Lower),
		fmt.Sprintf("Suggested decode TP:%d (ITL %.2f ms, throughput %.2f tokens/s/GPU)", dec.TP, dec.ITLMillis, dec.ThroughputPerGPU),
		fmt.Sprintf("Suggested planner upper/lower bound for decode kv cache utilization: %.2f/%.2f", th.DecodeKVUtilization.Upper, th.DecodeKVUtilization.Lower),
	}
	if len(lines) < 4 || !slices.Equal(lines[len(lines)-4:], want) {
		t.Errorf("stdout ends in\n%s\nwant\n%s", strings.Join(lines[max(0, len(lines)-4):], "\n"), strings.Join(want, "\n"))
	}
	rates := fmt.Sprintf("\nRecommended for each engine: prefill %s %.4g requests/s with means within the SLA, %.4g with 95 %% of requests within it; decode %s %.4g requests/s with means within the SLA, %.4g with 95 %% of requests within it\n",
		pre.Label, pre.SustainedRPS, pre.MostRPS, dec.Label, dec.SustainedRPS, dec.MostRPS)
	if !strings.Contains(stdout, rates) {
		t.Errorf("stdout lacks %q", rates)
	}
	if strings.Contains(stdout, "INFEASIBLE") {
		t.Error("a feasible pick is called infeasible")
	}
}

// ofThisRun is what says when a run ended, and its cost: what an engine took to stop
// is in no journal.
var ofThisRun = regexp.MustCompile(`"(engine|gpu)_seconds": [0-9.]+|<dt>Made</dt><dd>[^<]*`)

// checkResumeOfFinished wants no engine to start and no measured file to change. A point
// that could not be measured, because the machine was too busy, is measured again; the
// journal then keeps all its lines.
func checkResumeOfFinished(t *testing.T, first *program, args []string, dir string) {
	run, err := store.ReadRun(dir)
	if err != nil {
		t.Fatal(err)
	}
	unmeasured := slices.ContainsFunc(run.Points, func(p profile.Point) bool { return p.FailsTooOften || p.Unmeasured() })
	if unmeasured && raceDetector {
		t.Log("NOT RUN: under the race detector the client was too slow for some points, and those are measured again")
		return
	}
	before := tree(t, dir)
	p := executed(t, exitDone, args...)
	after := tree(t, dir)
	if unmeasured {
		t.Log("some points could not be measured, and are measured again")
		if !strings.HasPrefix(after["journal.jsonl"], before["journal.jsonl"]) {
			t.Error("the journal has lost lines")
		}
		return
	}
	if n := strings.Count(after["journal.jsonl"], "\n"); after["journal.jsonl"] != before["journal.jsonl"] {
		t.Errorf("the journal has %d lines now, %d before", n, strings.Count(before["journal.jsonl"], "\n"))
	}
	for name, text := range before {
		if name == store.RunFile { // when it ended, and what it cost
			continue
		}
		if ofThisRun.ReplaceAllString(after[name], "") != ofThisRun.ReplaceAllString(text, "") {
			t.Errorf("%s changed", name)
		}
	}
	if a, b := suggestedPart(p.out.String()), suggestedPart(first.out.String()); a != b {
		t.Errorf("now it suggests\n%s\nfirst it did\n%s", a, b)
	}
}

func suggestedPart(stdout string) string {
	_, after, _ := strings.Cut(stdout, "\nSuggested ")
	return after
}

// checkPlot removes the pictures and has them drawn from the files alone.
func checkPlot(t *testing.T, dir string) {
	was := map[string]string{}
	for _, name := range pictures() {
		for _, ext := range []string{".svg", ".png"} {
			path := filepath.Join(dir, name+ext)
			was[path] = readFile(t, path)
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
		}
	}
	p := ran(t, exitDone, "plot", dir)
	if want := "six pictures in " + dir + ", as PNG and SVG\n"; p.out.String() != want || p.errout.String() != "" {
		t.Errorf("stdout %q, stderr %q", &p.out, &p.errout)
	}
	for path, want := range was {
		if readFile(t, path) != want {
			t.Errorf("%s differs from the one of the run", filepath.Base(path))
		}
	}
}

// same wants two trees to hold the same files with the same content.
func same(t *testing.T, before, after map[string]string) {
	t.Helper()
	a, b := slices.Sorted(maps.Keys(before)), slices.Sorted(maps.Keys(after))
	if !slices.Equal(a, b) {
		t.Errorf("files were %v, are %v", a, b)
	}
	for name, text := range before {
		if after[name] != text {
			t.Errorf("%s changed", name)
		}
	}
}
