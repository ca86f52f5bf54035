package main

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"plimsoll/engine"
	"plimsoll/profile"
	"plimsoll/profile/store"
	"plimsoll/recommend"
	"plimsoll/sweep"
)

// The Suggested line has the KV use at the pick, by upstream's formula; the bounds at the
// recommended rate have a key of their own. A grid takes the requests that it asked for,
// and no attention replicas, as upstream does.
func TestThresholdsAreUpstreams(t *testing.T) {
	ms := func(v float64) time.Duration { return time.Duration(v * float64(time.Millisecond)) }
	res := sweep.Result{
		Prefill: recommend.Choice{Picked: recommend.Candidate{Point: profile.Point{
			Phase: profile.Prefill, Config: engine.Config{Parallelism: engine.Parallelism{TP: 1, DP: 4, EP: 4}}, TTFT: profile.Distribution{N: 1, Mean: ms(80)},
		}}},
		Decode: recommend.Choice{Picked: recommend.Candidate{
			Point:    profile.Point{Phase: profile.Decode, Asked: 61, InFlight: 60.5, MaxKV: 457_500, KVUsage: 0.4, Context: 3075},
			Together: 51,
		}},
	}
	for search, want := range map[sweep.Search]store.Thresholds{
		sweep.Grid:     {PrefillQueueSize: store.Bounds{Upper: 1.2*200/80 - 1, Lower: 0.8*200/80 - 1}, DecodeKVUtilization: store.Bounds{Upper: 0.61, Lower: 0.21}},
		sweep.Adaptive: {PrefillQueueSize: store.Bounds{Upper: 8, Lower: 4}, DecodeKVUtilization: store.Bounds{Upper: 0.2 + 60.5*3075/457_500, Lower: 60.5*3075/457_500 - 0.2}},
	} {
		got := thresholdsOf(res, profileOptions{isl: 3000, osl: 150, search: search, sla: profile.SLA{TTFT: ms(200), Stat: profile.Mean}})
		for what, x := range map[string][2]store.Bounds{
			"queue": {got.PrefillQueueSize, want.PrefillQueueSize}, "KV": {got.DecodeKVUtilization, want.DecodeKVUtilization},
			"KV at the rate": {*got.DecodeKVAtRate, store.Bounds{Upper: 0.2 + 0.4*51/60.5, Lower: 0.4*51/60.5 - 0.2}},
		} {
			if math.Abs(x[0].Upper-x[1].Upper) > 0.001 || math.Abs(x[0].Lower-x[1].Lower) > 0.001 {
				t.Errorf("%s: %s: %+v, want %+v", search, what, x[0], x[1])
			}
		}
	}
}

// Bounds around a KV use of 0 were suggested where the KV cache's capacity was not known.
func TestDefectBoundsOfUnknownCapacity(t *testing.T) {
	res := sweep.Result{
		Prefill: recommend.Choice{Picked: recommend.Candidate{Point: profile.Point{Phase: profile.Prefill, TTFT: profile.Distribution{N: 1, Mean: 80 * time.Millisecond}}}},
		Decode:  recommend.Choice{Picked: recommend.Candidate{Point: profile.Point{Phase: profile.Decode, Asked: 61, InFlight: 60.5, Context: 3075}, Together: 51}},
	}
	for _, search := range []sweep.Search{sweep.Grid, sweep.Adaptive} {
		got := thresholdsOf(res, profileOptions{isl: 3000, osl: 150, search: search, sla: profile.SLA{TTFT: 200 * time.Millisecond, Stat: profile.Mean}})
		if got.DecodeKVUtilization != (store.Bounds{}) || got.DecodeKVAtRate != nil || got.PrefillQueueSize.Upper == 0 {
			t.Errorf("%s: %+v", search, got)
		}
		written, err := json.Marshal(got)
		if err != nil || strings.Contains(string(written), "decode_kv") {
			t.Errorf("%s: %s, %v", search, written, err)
		}
		lines := strings.Join(suggestedLines(store.Recommendation{Feasible: true, Prefill: &store.Pick{}, Decode: &store.Pick{}, Thresholds: got}), "\n")
		if strings.Contains(lines, "kv cache") || !strings.Contains(lines, "Suggested decode") {
			t.Errorf("%s: %s", search, lines)
		}
	}
}

// The load policy scales by the bounds at the recommended rate, and by the only ones that
// there are where a profile is older.
func TestLoadPolicyTakesBoundsAtRate(t *testing.T) {
	at := plannerProfile(t, func(r *store.Recommendation) {
		r.Thresholds.DecodeKVAtRate = &store.Bounds{Upper: 0.55, Lower: 0.15}
	})
	for dir, want := range map[string][2]float64{at: {0.55, 0.15}, plannerProfile(t): {0.8, 0.4}} {
		all, err := parsedPlanner(t, "--profile", dir, "--policy", "load")
		if err != nil {
			t.Fatal(err)
		}
		if got := all[0].load; got.KVUp != want[0] || got.KVDown != want[1] {
			t.Errorf("%+v, want %v", got, want)
		}
	}
}
