package main

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"plimsoll/capacity"
	"plimsoll/engine"
	"plimsoll/profile"
)

// smallPlan is a plan as capacity plan prints it.
func smallPlan() sizedPlans {
	return sizedPlans{
		Workload: capacity.Workload{Rate: 2, ISL: 10, ISLP99: 10, OSL: 5, OSLP99: 5, Pattern: "flat", PeakToAverage: 1, PeakWindow: time.Minute},
		SLO:      capacity.SLO{TTFT: time.Second, ITL: time.Second},
		Plans: []sizedPlan{{Plan: capacity.Plan{
			Strategy: capacity.Aggregated, Layout: "TP:1", TotalGPUsFinal: 2, Costs: capacity.Costs{HourlyUSD: 4}, Provenance: profile.Measured,
			Pools: []capacity.PoolPlan{{Role: engine.RoleAggregated, Engine: "TP:1", GPU: "L4", Engines: 2, GPUs: 2}},
		}}},
	}
}

func encoded(t testing.TB, p sizedPlans) string {
	t.Helper()
	b, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// What is printed is read again as it was.
func TestReadPlan(t *testing.T) {
	want := encoded(t, smallPlan())
	got, err := readPlan(strings.NewReader(want))
	if err != nil {
		t.Fatal(err)
	}
	if again := encoded(t, got); again != want {
		t.Errorf("read as\n%s\nwant\n%s", again, want)
	}
}

func TestReadPlanRefuses(t *testing.T) {
	for _, c := range []struct {
		change func(*sizedPlans)
		want   string
	}{
		{func(p *sizedPlans) { p.Plans = nil }, "it holds no sized plan"},
		{func(p *sizedPlans) { p.Plans[0].Infeasible = &capacity.Infeasible{Why: "too slow"} }, "its plan is infeasible: too slow"},
		{func(p *sizedPlans) { p.Workload.Rate = 0 }, "rate is 0"},
		{func(p *sizedPlans) { p.SLO.ITL = -1 }, "--itl-p99 is -1ns"},
		{func(p *sizedPlans) { p.Plans[0].Pools = nil }, `a plan of 0 pools, "aggregated"`},
		{func(p *sizedPlans) { p.Plans[0].Strategy = "auto" }, `a plan of 1 pools, "auto"`},
		{func(p *sizedPlans) { p.Plans[0].TotalGPUsFinal = 0 }, "total_gpus_final 0"},
		{func(p *sizedPlans) { p.Plans[0].HourlyUSD = -1 }, "hourly_cost_usd -1"},
		{func(p *sizedPlans) { p.Plans[0].Pools[0].Engines = 0 }, "0 engines and 0 spare ones in the aggregated pool"},
		{func(p *sizedPlans) { p.Plans[0].Pools[0].SpareEngines = -2 }, "2 engines and -2 spare ones"},
		{func(p *sizedPlans) { p.Plans[0].Pools[0].InstanceGPUs = -8 }, "GPUs at $0 in instances of -8 in the aggregated pool"},
		{func(p *sizedPlans) { p.Plans[0].Pools[0].GPUs = 3 }, "3 GPUs of 2 engines in the aggregated pool"},
	} {
		p := smallPlan()
		c.change(&p)
		if _, err := readPlan(strings.NewReader(encoded(t, p))); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("error %v lacks %q", err, c.want)
		}
	}
	if _, err := readPlan(strings.NewReader(strings.Repeat(" ", maxPlanBytes+1))); err == nil || !strings.Contains(err.Error(), "more than 64 MiB") {
		t.Errorf("a file of 64 MiB is read: %v", err)
	}
}

func FuzzReadPlan(f *testing.F) {
	f.Add(encoded(f, smallPlan()))
	f.Add(`{"plans":[{}]}`)
	f.Add(`{"plans":[{"strategy":"aggregated","pools":[{"engines":1}],"total_gpus_final":1}]}`)
	f.Fuzz(func(t *testing.T, text string) {
		p, err := readPlan(strings.NewReader(text))
		if err != nil {
			return
		}
		if gpus := gpusPerEngine(p.Plans[0].Pools[0]); p.Plans[0].TotalGPUsFinal < 1 || math.IsNaN(p.Workload.AverageRate()) {
			t.Errorf("%d GPUs an engine, %d in all, %v requests/s", gpus, p.Plans[0].TotalGPUsFinal, p.Workload.AverageRate())
		}
	})
}

// A plan of engines whose profile cannot be right says so before what its traffic shows.
func TestReviewSaysTheImplausibleFirst(t *testing.T) {
	p := smallPlan()
	r := review{plans: p, plan: p.Plans[0], resized: p.Plans[0], warnings: []profile.Warning{{Code: "other", Message: "other"}}}
	r.resized.Warnings = []profile.Warning{{Code: "third"}, {Code: profile.CodeTTFTFlat, Message: "TTFT hardly grows"}}
	f := r.report()
	first(t, "review", string(r.card(f).text()), "IMPLAUSIBLE — TTFT hardly grows")
	if len(f.Warnings) != 2 {
		t.Errorf("%+v", f.Warnings)
	}
}

// A fleet that stays still needs engines that take the longest request that came.
func TestReviewSaysALongerContext(t *testing.T) {
	t.Parallel()
	of := func(context int) sizedPlan {
		return sizedPlan{Plan: capacity.Plan{TotalGPUsFinal: 1, Pools: []capacity.PoolPlan{{Engines: 1, MaxModelLen: context}}}}
	}
	for _, c := range []struct {
		planned, now int
		assumed      string
		said         bool
	}{{2048, 4096, "", true}, {2048, 2048, "", false}, {4096, 2048, "", false}, {0, 4096, "", false}, {2048, 4096, "not known", false}} {
		r := review{plan: of(c.planned), resized: of(c.now), assumed: map[string]string{"max-model-len": c.assumed}}
		if a := r.answer(); strings.Contains(a, "--max-model-len 4096") != c.said || !strings.HasPrefix(a, "the fleet stays") {
			t.Errorf("%+v: %q", c, a)
		}
	}
}
