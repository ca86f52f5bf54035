package sweep

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"plimsoll/engine"
	"plimsoll/profile"
)

// upstreamPlan is what testdata/grid_plan.py wrote.
type upstreamPlan struct {
	Counts [][]json.RawMessage
	Plans  map[string][]upstreamLaunch
}

type upstreamLaunch struct {
	Launch string
	Cache  bool
	Loads  [][4]int // ISL, OSL, requests, in flight
}

func readUpstreamPlan(t *testing.T) (p upstreamPlan) {
	t.Helper()
	b, err := os.ReadFile("testdata/grid_plan.json")
	if err == nil {
		err = json.Unmarshal(b, &p)
	}
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// gridLab has engines of which only the KV cache bounds what runs at once, as
// upstream's arithmetic has it.
func gridLab(labels ...string) (*lab, Options) {
	kv := map[string]int{"TP:1": 9_500, "TP:2": 400_000, "DEP:4": 130_000}
	layout := map[string]engine.Parallelism{"TP:1": engine.TP(1), "TP:2": engine.TP(2), "DEP:4": {TP: 1, PP: 1, DP: 4, EP: 4}}
	laws := map[string]law{}
	for _, label := range labels {
		l := affine(layout[label].TP)
		l.kv, l.seqs, l.block = kv[label], 0, 1
		if layout[label].DP > 1 { // a burst's decoding has to fit between its prompts
			l.itl = func(n int, c float64) time.Duration { return time.Duration(n)*100*time.Microsecond + time.Duration(c) }
		}
		laws[label] = l
	}
	b := newLab(laws)
	o := options(b)
	o.Search, o.SLA.TTFT, o.PrefillGranularity, o.DecodeGranularity = Grid, time.Second, 16, 6
	for _, label := range labels {
		o.Candidates = append(o.Candidates, engine.Config{Kind: engine.KindSim, Model: "m", Parallelism: layout[label]})
	}
	return b, o
}

// What the grid sends, engine by engine and load by load, is what upstream does,
// by a transcription of its arithmetic.
func TestGridAgainstUpstream(t *testing.T) {
	plans := readUpstreamPlan(t).Plans
	check := func(t *testing.T, b *lab, o Options, want []upstreamLaunch) {
		t.Helper()
		if _, _, err := run(t, b, o, Known{}); err != nil {
			t.Fatal(err)
		}
		var launches []string
		var loads [][4]int
		for _, l := range want {
			launches = append(launches, fmt.Sprintf("%s cache=%v", l.Launch, l.Cache))
			loads = append(loads, l.Loads...)
		}
		if !slices.Equal(b.launches, launches) {
			t.Errorf("launched %v, want %v", b.launches, launches)
		}
		var got [][4]int
		for _, w := range b.measured {
			got = append(got, [4]int{w.ISL, w.OSL, w.Requests, w.InFlight})
		}
		for i := range max(len(got), len(loads)) {
			if i >= len(got) || i >= len(loads) || got[i] != loads[i] {
				t.Fatalf("%d loads, want %d; from the %d. on %v, want %v", len(got), len(loads), i, got[min(i, len(got)):], loads[min(i, len(loads)):])
			}
		}
	}
	t.Run("two sizes", func(t *testing.T) {
		b, o := gridLab("TP:1", "TP:2")
		check(t, b, o, plans["TP:2"])
	})
	t.Run("a KV cache that ends before the context", func(t *testing.T) {
		b, o := gridLab("TP:1")
		o.PrefillGranularity, o.DecodeGranularity = 5, 4
		check(t, b, o, plans["TP:1"])
	})
	t.Run("attention replicas", func(t *testing.T) {
		b, o := gridLab("DEP:4")
		o.PrefillGranularity, o.DecodeGranularity, o.MaxContext = 4, 3, 9000
		check(t, b, o, plans["DEP:4"])
	})
}

// The request list is upstream's. Where floating-point arithmetic loses upstream
// the top of its list, ours has it.
func TestGridCountsAgainstUpstream(t *testing.T) {
	for _, row := range readUpstreamPlan(t).Counts {
		var dp, most, g int
		var want []int
		for i, v := range []any{&dp, &most, &g, &want} {
			if err := json.Unmarshal(row[i], v); err != nil {
				t.Fatal(err)
			}
		}
		o := Options{DecodeGranularity: g}
		got := o.gridCounts(engine.Config{Parallelism: engine.Parallelism{DP: dp}}, profile.EngineFacts{KVTokens: most * 100}, 90, 10)
		if top := min(most, gridMost) / dp * dp; len(want) == g && want[g-1] == top-dp {
			want[g-1] = top // 14.999… for 15 times a fifteenth
		}
		if !slices.Equal(got, want) {
			t.Errorf("DP %d, %d fit, granularity %d: %v, want %v", dp, most, g, got, want)
		}
	}
}

// The second of a decode point's runs finds in the prefix cache what the first
// left there, and no other point's prompts.
func TestGridPromptsAreSharedWithinAPointOnly(t *testing.T) {
	b, o := gridLab("TP:2")
	if _, _, err := run(t, b, o, Known{}); err != nil {
		t.Fatal(err)
	}
	seen := map[uint64]int{}
	for _, w := range b.measured {
		if w.Warmup {
			t.Errorf("%+v costs a simulated engine nothing, and upstream's engine as much as any", w)
		}
		seen[w.Seed]++
	}
	for _, w := range b.measured {
		if want := map[bool]int{true: 4, false: 2}[w.SharedPrompts]; seen[w.Seed] != want {
			t.Errorf("%+v: %d loads have its prompts, want %d", w, seen[w.Seed], want)
		}
	}
}

// Upstream divides by granularity − 1, steps by 0 where a context is short, and
// ends with an error below 613 tokens.
func TestDefectGridStepsByZero(t *testing.T) {
	for context := 8; context < 3000; context += 7 {
		for _, g := range []int{1, 2, 6, 16} {
			osl := gridShare(gridOSL, context)
			for _, isls := range [][]int{gridPrefillISLs(context, g), gridDecodeISLs(context, osl, g)} {
				if len(isls) == 0 || isls[0] < 1 || slices.Max(isls) >= context || !slices.IsSorted(isls) || len(slices.Compact(isls)) != len(isls) {
					t.Fatalf("context %d, granularity %d: %v", context, g, isls)
				}
			}
		}
	}
}

// Upstream's only request has no percentile. The grid takes as many as there need
// to be; a burst has one TTFT whatever it is asked for, which is never picked.
func TestGridPercentiles(t *testing.T) {
	for _, c := range []struct {
		label    string
		stat     profile.Statistic
		requests int
		err      error
	}{
		{"TP:2", profile.Mean, 1, nil},
		{"TP:2", profile.P99, SamplesFor(profile.P99), nil},
		{"DEP:4", profile.P99, 16, ErrNothing},
	} {
		b, o := gridLab(c.label)
		o.SLA.Stat, o.PrefillGranularity, o.DecodeGranularity = c.stat, 3, 2
		res, _, err := run(t, b, o, Known{})
		if !errors.Is(err, c.err) {
			t.Fatalf("%s at %s: %v, want %v", c.label, c.stat, err, c.err)
		}
		p := res.Points[0]
		if p.Requests != c.requests || p.Undecided(o.SLA) != (c.err != nil) {
			t.Errorf("%s at %s: %d requests", c.label, c.stat, p.Requests)
		}
	}
}

// A curve needs three points: with fewer the run says that it is not whole.
func TestGridNeedsThreePoints(t *testing.T) {
	b, o := gridLab("TP:2")
	o.PrefillGranularity, o.DecodeGranularity = 3, 2
	b.cancel = func(n int) {
		if n < 2 {
			return
		}
		l := b.laws["TP:2"] // of the engines that are launched from the decode sweep on
		l.failEvery = 1
		b.laws["TP:2"] = l
	}
	res, _, err := run(t, b, o, Known{})
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(res.Partial, "it has 0 grid points, a curve needs 3") {
		t.Errorf("partial %q", res.Partial)
	}
}

// Nothing is measured twice, though upstream does: a point that the sweep has
// already is the surface's, too.
func TestGridReusesTheSweepsPoint(t *testing.T) {
	b, o := gridLab("TP:2")
	o.ISL, o.OSL = 100, gridOSL // where both lists begin
	res, _, err := run(t, b, o, Known{})
	if err != nil {
		t.Fatal(err)
	}
	at := map[string]int{}
	for _, p := range res.Points {
		at[fmt.Sprint(p.Phase, p.ISL, p.OSL, p.Asked)]++
	}
	for k, n := range at {
		if n > 1 {
			t.Errorf("%s measured %d times", k, n)
		}
	}
}
