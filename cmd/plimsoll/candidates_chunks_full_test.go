//go:build full

package main

import (
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"plimsoll/engine"
	"plimsoll/engine/catalog"
	"plimsoll/engine/command"
	dep "plimsoll/engine/deployment"
	"plimsoll/engine/field"
	"plimsoll/engine/sim/build"
	"plimsoll/profile"
	"plimsoll/sweep"
)

// An aggregated engine is started again with the latency model's best chunks, of a
// measured run no more than two over all layouts.
func TestAggregatedEnginesAreStartedAgainWithOtherChunks(t *testing.T) {
	t.Parallel()
	cat, err := catalog.Load("")
	if err != nil {
		t.Fatal(err)
	}
	m, err := cat.Model("llama-3.1-8b")
	if err != nil {
		t.Fatal(err)
	}
	g, err := cat.GPU("h100-sxm")
	if err != nil {
		t.Fatal(err)
	}
	fit, err := build.LoadFit(field.Fit, "")
	if err != nil {
		t.Fatal(err)
	}
	gaps := profile.SLA{TTFT: 200 * time.Millisecond, ITL: 20 * time.Millisecond, Stat: profile.P99, Stall: 20 * time.Millisecond}
	of := func(kind engine.Kind, change func(*profileOptions, *deployment)) []engine.Config {
		t.Helper()
		o := profileOptions{mode: sweep.Aggregated, isl: 3000, osl: 150, sla: gaps, layouts: dep.PowersOfTwo(2), traffic: traffic{isl: 3000, osl: 150}}
		d := deployment{kind: kind, model: &m, gpu: &g, gpuCount: 2, fit: fit, weights: dep.StorageOf("", "", m)}
		if isReal(string(kind)) {
			if err := d.setServer(o); err != nil {
				t.Fatal(err)
			}
		}
		change(&o, &d)
		cs := []engine.Config{d.base(o), d.base(o)}
		for i := range cs {
			cs[i].Parallelism = engine.TP(i + 1)
		}
		all, err := d.withChunks(o, cs)
		if err != nil || !slices.Equal(all[:2], cs) {
			t.Fatalf("%s: %+v, %v: want those without a chunk first", kind, all, err)
		}
		return all[2:]
	}
	as := func(*profileOptions, *deployment) {}
	for _, kind := range []engine.Kind{engine.KindSim, engine.KindVLLM, engine.KindSGLang, engine.KindEstimate} {
		more := of(kind, as)
		if len(more) != 2 || !slices.Equal(more, of(kind, as)) {
			t.Errorf("%s: %+v: want two more, the same each time", kind, more)
		}
		names := map[string]bool{}
		for _, c := range more {
			names[c.Slug()] = true
			if !c.Chunked || c.Limits.MaxNumBatchedTokens >= 8192 || c.Label() == c.Parallelism.Label() {
				t.Errorf("%s: %+v: want a chunk below the default, and its name", kind, c)
			}
		}
		if len(names) != len(more) {
			t.Errorf("%s: %v: want names that differ", kind, names)
		}
	}
	for what, change := range map[string]func(*profileOptions, *deployment){
		"disaggregated":          func(o *profileOptions, _ *deployment) { o.mode = sweep.Disaggregated },
		"a chunk that is said":   func(o *profileOptions, _ *deployment) { o.limits.MaxNumBatchedTokens = 4096 },
		"one said to the engine": func(o *profileOptions, _ *deployment) { o.extra = []string{"--max-num-batched-tokens=4096"} },
		"no GPU known":           func(_ *profileOptions, d *deployment) { d.gpu = nil },
		"an engine without such a flag": func(_ *profileOptions, d *deployment) {
			d.kind, d.template = engine.KindCommand, command.Template{Argv: "serve {{.TP}}"}
		},
	} {
		if more := of(engine.KindVLLM, change); len(more) != 0 {
			t.Errorf("%s: %+v: want none", what, more)
		}
	}
}

// Where stalls are promised another chunk holds a multiple of the default's rate, and the files
// say which; a value that is given is kept.
func TestAggregatedEstimateFindsAChunk(t *testing.T) {
	t.Parallel()
	rps := map[string]float64{}
	for _, chunk := range []string{"", "8192"} {
		dir := filepath.Join(t.TempDir(), "results")
		args := []string{"--mode", "aggregated", "--tp", "1", "--isl", "3000", "--osl", "40", "--ttft", "400", "--itl", "30", "--sla-stat", "p99", "--stall-p99", "30", "--max-context-length", "4000"}
		if chunk != "" {
			args = append(args, "--max-num-batched-tokens", chunk)
		}
		ran(t, exitDone, estimatedOf(dir, args...)...)
		_, rec := results(t, dir)
		rps[chunk] = rec.Aggregated.SustainedRPS
		if searched := rec.Aggregated.MaxNumBatchedTokens > 0; searched != (chunk == "") {
			t.Errorf("--max-num-batched-tokens %q: picked %+v", chunk, rec.Aggregated)
		}
		// What takes the profile takes its engine's chunk, not its kind's default.
		told := chunk
		if chunk == "" {
			told = strconv.Itoa(rec.Aggregated.MaxNumBatchedTokens)
		}
		text := string(mustPrint(t, "engine", "simulate", "--profile", dir, "--replicas", "1", "--rate", "1", "--requests", "50", "--isl", "3000", "--osl", "40", "--ttft", "400", "--itl", "30", "--details"))
		if !strings.Contains(text, "max-num-batched-tokens "+told+",") {
			t.Errorf("want %s tokens in a step:\n%s", told, text)
		}
	}
	if rps[""] < 2*rps["8192"] {
		t.Errorf("%v requests/s: want twice those of the default", rps)
	}
}
