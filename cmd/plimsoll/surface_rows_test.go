package main

import (
	"cmp"
	"math"
	"path"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"plimsoll/engine"
	"plimsoll/engine/catalog"
	"plimsoll/profile"
	"plimsoll/profile/store"
	"plimsoll/sweep"
)

// A fresh decode surface is one that readers can interpolate (Clough-Tocher over KV use
// and context, unscaled): rows of one context, and a hull that holds the operating range.
func TestSurfacesHoldWhatReadersNeed(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		contest
		layout engine.Parallelism
		search sweep.Search
	}{
		{contest{model: "llama-3.1-8b", gpu: "h100-sxm"}, engine.TP(1), sweep.Adaptive},
		{contest{model: "llama-3.1-8b", gpu: "h100-sxm"}, engine.TP(1), sweep.Grid},
		{contest{model: "llama-3.1-70b", gpu: "h200-sxm"}, engine.TP(4), sweep.Adaptive},
		{contest{model: "mixtral-8x7b", gpu: "h100-sxm"}, engine.TP(2), sweep.Adaptive},
		{contest{model: "deepseek-r1", gpu: "h200-sxm"}, engine.Parallelism{TP: 1, DP: 8, EP: 8}, sweep.Adaptive},
	} {
		t.Run(c.String()+" "+c.layout.Label()+" "+string(c.search), func(t *testing.T) {
			t.Parallel()
			c.ttft, c.itl = 2*time.Second, 100*time.Millisecond
			s := c.seeker(t)
			s.opts.noise, s.opts.limits.MaxNumSeqs, s.opts.layouts = 0, 16, []engine.Parallelism{c.layout}
			s.opts.weights = "" // as the model comes
			cat, err := catalog.Default()
			if err != nil {
				t.Fatal(err)
			}
			if s.dep, err = resolve(&s.opts, cat, nil); err != nil {
				t.Fatal(err)
			}
			res := s.search(t, c.search)
			dir := t.TempDir()
			if err := store.WriteDecode(dir, res.DecodeSurface); err != nil {
				t.Fatal(err)
			}
			rowsHold(t, dir, res.Points, res.Engines, c.search)
			rowsRise(t, dir)
		})
	}
}

// rowsHold checks the decode surface in a profile's folder against the points that it was
// made of.
func rowsHold(t *testing.T, dir string, points []profile.Point, engines map[string]profile.EngineFacts, search sweep.Search) {
	t.Helper()
	ds, err := store.ReadDecode(filepath.Join(dir, store.SurfaceNPZ(profile.Decode)), store.LoadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	meant := map[float64]profile.Point{}
	for _, p := range points {
		if p.Phase == profile.Decode && p.Stage != profile.StageVerify {
			meant[float64(p.ISL)+float64(p.OSL)/2] = p
		}
	}
	rows := map[float64][]profile.DecodeSample{}
	for _, p := range ds.Samples {
		if _, ok := meant[p.Context]; !ok {
			t.Fatalf("a row has the context %v, which no point was asked at", p.Context)
		}
		rows[p.Context] = append(rows[p.Context], p)
	}
	lowest, highest := math.Inf(1), 0.0
	for context, row := range rows {
		lowest, highest = min(lowest, context), max(highest, context)
		slices.SortFunc(row, func(a, b profile.DecodeSample) int { return cmp.Compare(a.KVUsage, b.KVUsage) })
	}
	for _, context := range []float64{lowest, highest} {
		row, p := rows[context], meant[context]
		f, dp := factsOfPoint(t, engines, p), p.Config.Parallelism.Normal().DP
		room := f.Replica(dp)
		room.MaxNumSeqs = f.MaxNumSeqs / dp
		load := func(s profile.DecodeSample) float64 { return s.KVUsage * float64(ds.MaxKVTokens) / context }
		if n := load(row[0]); n > float64(dp)*1.001 {
			t.Errorf("context %v: the lowest load is %.1f requests on %d ranks", context, n, dp)
		}
		if n, top := load(row[len(row)-1]), room.MaxInFlight(p.ISL, p.OSL, 0)*dp; n < float64(top)/1.15 {
			t.Errorf("context %v: the highest load is %.1f requests, %d have room", context, n, top)
		}
	}
	first, last := meant[lowest], meant[highest]
	longest := factsOfPoint(t, engines, last)
	end := min(longest.MaxModelLen, longest.Replica(last.Config.Parallelism.Normal().DP).Longest())
	if least := map[sweep.Search]float64{sweep.Grid: 0.8}[search]; float64(last.ISL+last.OSL) < cmp.Or(least, 0.999)*float64(end) {
		t.Errorf("the longest row has %d + %d tokens, and %d fit", last.ISL, last.OSL, end)
	}
	if first.ISL > 100 {
		t.Errorf("the shortest row has prompts of %d tokens", first.ISL)
	}
}

// rowsRise wants ITL to rise with KV use in each row, as it does in virtual time; what a
// busy machine measures may fall.
func rowsRise(t *testing.T, dir string) {
	t.Helper()
	ds, err := store.ReadDecode(filepath.Join(dir, store.SurfaceNPZ(profile.Decode)), store.LoadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(ds.Samples, func(a, b profile.DecodeSample) int {
		return cmp.Or(cmp.Compare(a.Context, b.Context), cmp.Compare(a.KVUsage, b.KVUsage))
	})
	for i, b := range ds.Samples[1:] {
		if a := ds.Samples[i]; a.Context == b.Context && float64(b.ITL) < 0.98*float64(a.ITL)-float64(a.Half+b.Half) {
			t.Errorf("context %v: ITL falls from %v to %v as KV use rises from %.3f to %.3f", a.Context, a.ITL, b.ITL, a.KVUsage, b.KVUsage)
		}
	}
}

// factsOfPoint are the facts of the engine that a point was measured on.
func factsOfPoint(t *testing.T, engines map[string]profile.EngineFacts, p profile.Point) profile.EngineFacts {
	t.Helper()
	for key, f := range engines {
		if key == p.Config.Slug() || key == string(p.Phase)+"/"+p.Config.Slug() {
			return f
		}
	}
	t.Fatalf("no facts of %s among %d engines, of %s", p.Config.Slug(), len(engines), path.Base(p.ID))
	return profile.EngineFacts{}
}
