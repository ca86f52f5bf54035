package main

import (
	"math"
	"slices"
	"testing"

	"plimsoll/profile"
	"plimsoll/profile/store"
)

// A row of short contexts of a model with sliding windows had levels that did not fit in
// the KV cache: they were void, and the surface ended at a KV use of 0.2.
func TestDefectWindowedSurface(t *testing.T) {
	dir := t.TempDir()
	ran(t, exitDone, "profile-sla", "--engine", "estimate", "--model", "gemma-3-27b", "--gpu", "h100-sxm", "--parallelism", "TP:2",
		"--isl", "3000", "--osl", "150", "--ttft", "1000", "--itl", "40", "--verify", "never", "--quiet", "--output-dir", dir)
	run, err := store.ReadRun(dir)
	if err != nil {
		t.Fatal(err)
	}
	most, room := map[[2]int]int{}, map[[2]int]int{} // in flight, by lengths
	for _, x := range run.Points {
		if x.Phase != profile.Decode {
			continue
		}
		if x.Invalid != "" || x.Discarded != "" || x.KVUsage > 1 {
			t.Errorf("%s: KV use %.3f, %s%s", x.ID, x.KVUsage, x.Invalid, x.Discarded)
		}
		if target := x.WindowedKV.TokensAt(3150); x.MaxKV != target {
			t.Errorf("%s: max_kv_tokens %d, the capacity at ISL + OSL is %d", x.ID, x.MaxKV, target)
		}
		at := [2]int{x.ISL, x.OSL}
		most[at], room[at] = max(most[at], x.Asked), min(x.MaxSeqs, x.WindowedKV.Sequences(x.ISL+x.OSL))
	}
	for at, n := range most {
		if n != room[at] {
			t.Errorf("the row of %v tokens ends at %d in flight, %d fit", at, n, room[at])
		}
	}
	rec, err := store.ReadRecommendation(dir)
	if err != nil {
		t.Fatal(err)
	}
	warns := func(code string) bool {
		return slices.ContainsFunc(rec.Warnings, func(w profile.Warning) bool { return w.Code == code })
	}
	if !warns("windowed_kv") || warns("kv_usage_above_one") || warns("void") {
		t.Errorf("warnings %v", rec.Warnings)
	}
	surface, err := store.LoadDecode(dir, store.LoadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if surface.MaxKVTokens != rec.Surfaces.Decode.MaxKVTokens || surface.MaxKVTokens <= rec.Surfaces.Decode.WindowedKV.TokensAt(3150) {
		t.Errorf("max_kv_tokens %d beside %+v", surface.MaxKVTokens, rec.Surfaces.Decode)
	}
	// Dynamo's planner clips x at 1. By the capacity at ISL + OSL it would not find the
	// fullest levels of longer rows.
	clipped := func(max int) bool {
		return slices.ContainsFunc(surface.Samples, func(s profile.DecodeSample) bool {
			return s.KVUsage*float64(surface.MaxKVTokens) > float64(max)
		})
	}
	if clipped(surface.MaxKVTokens) || !clipped(rec.Surfaces.Decode.WindowedKV.TokensAt(3150)) {
		t.Errorf("x is above 1 by max_kv_tokens, or is not by the capacity at ISL + OSL")
	}
	for _, s := range surface.Samples {
		if n := s.KVUsage * float64(surface.MaxKVTokens) / s.Context; s.KVUsage > 1 || math.Abs(n-math.Round(n)) > 1e-6 {
			t.Errorf("x %.3f at context %.0f reads as %v in flight", s.KVUsage, s.Context, n)
		}
	}
	if d := rec.Decode; math.Abs(d.KVUsage*float64(rec.Surfaces.Decode.WindowedKV.TokensAt(3075))/3075/d.InFlight-1) > 0.03 {
		t.Errorf("KV use of the pick is %.3f at %.0f in flight", d.KVUsage, d.InFlight)
	}
}
