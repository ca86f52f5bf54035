package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"plimsoll/capacity"
	"plimsoll/engine"
	"plimsoll/engine/enginetest"
	"plimsoll/engine/sim"
	"plimsoll/engine/sim/fleet"
	"plimsoll/planner/replay"
	"plimsoll/profile"
)

func autoscaledJSON(t *testing.T, args ...string) autoscaleFile {
	t.Helper()
	var f autoscaleFile
	if err := json.Unmarshal(mustPrint(t, append([]string{"capacity", "autoscale", "--format", "json", "--start-up", "30s"}, args...)...), &f); err != nil {
		t.Fatal(err)
	}
	return f
}

// One workload has one cheapest fleet, also where its pools have two layouts or another
// chunk than the engine's own. The static fleet costs what the plan says, in whole
// instances; single GPUs cost their price for each GPU-hour.
func TestAutoscaleTakesThePlansFleet(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{
		"pools of two layouts": {"--model", "llama-3.1-70b", "--gpu", "h100-sxm", "--strategy", "disaggregated", "--trace", evenTrace(t, 1500, 30, 3000, 150), "--ttft-p99", "300", "--itl-p99", "18"},
		"another chunk":        {"--model", "llama-3.1-8b", "--gpu", "h100-sxm", "--strategy", "aggregated", "--trace", evenTrace(t, 1000, 20, 2000, 150), "--ttft-p99", "2000", "--itl-p99", "15"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			plan, f := firstPlan(t, args...), autoscaledJSON(t, args...)
			var engines []int
			for _, p := range plan.Pools {
				engines = append(engines, p.Engines)
			}
			if f.Layout != plan.Layout || !slices.Equal(f.Engines, engines) {
				t.Errorf("autoscale has %v of %s, the plan %v of %s", f.Engines, f.Layout, engines, plan.Layout)
			}
			if two := strings.Contains(name, "two"); two == (len(plan.Pools) < 2 || plan.Pools[0].Engine == plan.Pools[1].Engine) || two == strings.Contains(plan.Layout, "chunk") {
				t.Errorf("the plan's layout is %s: want one of %s", plan.Layout, name)
			}
			near := func(got, want capacity.USD) bool { return math.Abs(float64(got/want-1)) < 1e-9 }
			if static := f.Policies[0]; !near(static.USD, capacity.USD(f.Hours)*plan.HourlyUSD) {
				t.Errorf("the static fleet costs $%v in %v hours, the plan $%v an hour", static.USD, f.Hours, plan.HourlyUSD)
			}
			for _, p := range autoscaledJSON(t, append([]string{"--cost-per-gpu-hour", "2.5"}, args...)...).Policies {
				if !near(p.USD, capacity.USD(2.5*p.GPUHours)) {
					t.Errorf("%s: %v GPU-hours at $2.5 cost $%v", p.Policy, p.GPUHours, p.USD)
				}
			}
		})
	}
}

// A fleet shrinks in a lull, to no fewer GPUs than asked for, and grows again: the later,
// the longer engines take to start.
func TestAutoscaleFollowsTheLoad(t *testing.T) {
	t.Parallel()
	var lull bytes.Buffer // of 8 minutes at 2/s, and 3 at 40/s
	lull.WriteString("arrival_s,isl,osl\n")
	for at := 0.0; at < 660; {
		fmt.Fprintf(&lull, "%.4f,2000,100\n", at)
		if at < 480 {
			at += 0.5
		} else {
			at += 0.025
		}
	}
	f := autoscaledJSON(t, "--model", "llama-3.1-8b", "--gpu", "h100-sxm", "--tp", "1", "--strategy", "aggregated", "--trace", written(t, "lull.csv", lull.String()),
		"--ttft-p99", "1000", "--itl-p99", "50", "--start-up", "0s,10m", "--min-gpus", "2")
	static, at, later := f.Policies[0], f.Policies[1], f.Policies[2]
	for i, policy := range []string{"static-peak", "hpa:sla", "hpa:sla", "article", "article"} {
		if p := f.Policies[i]; p.Policy != policy || (p.Claim != "") != (policy == "article") {
			t.Errorf("policy %d is %s and claims %q, want %s", i+1, p.Policy, p.Claim, policy)
		}
	}
	if f.Policies[3].GPUHours == at.GPUHours {
		t.Errorf("hpa:sla and article both take %v GPU-hours", at.GPUHours)
	}
	for _, p := range f.Policies[1:] {
		if p.Least != 2 || p.Most > static.Most || p.GPUHours >= static.GPUHours || p.Scalings < 2 {
			t.Errorf("start-up %v s: %d to %d GPUs, %v GPU-hours in %d scalings; static %d GPUs, %v GPU-hours", *p.StartUp, p.Least, p.Most, p.GPUHours, p.Scalings, static.Most, static.GPUHours)
		}
	}
	if !static.HoldsSLO || later.Attainment >= at.Attainment || at.Attainment >= static.Attainment {
		t.Errorf("attained: static %v, engines that start at once %v, in 10 min %v", static.Attainment, at.Attainment, later.Attainment)
	}
}

// Of a day with too many requests a part of the fleet is replayed under its share of
// them: scaled up it has the GPUs of the plan, and no pool is an engine out of proportion.
func TestAutoscaleReplaysAPart(t *testing.T) {
	enginetest.Check(t, func(t *rapid.T) {
		var plan sizedPlan
		for _, role := range []engine.Role{engine.RolePrefill, engine.RoleDecode} {
			plan.candidate.layout.Pools = append(plan.candidate.layout.Pools, capacity.EnginePool{Pool: fleet.Pool{Engine: sim.Config{Role: role}, GPUs: rapid.SampledFrom([]int{1, 2, 4, 8}).Draw(t, "gpus")}})
			plan.sized.Replicas = append(plan.sized.Replicas, rapid.IntRange(1, 200).Draw(t, "engines"))
		}
		o := autoscaleOptions{capacityOptions: capacityOptions{demand: demand{workload: capacity.Workload{Rate: rapid.Float64Range(1, 2000).Draw(t, "qps"), PeakToAverage: 1}}}}
		replicas, share := o.part(plan)
		l, all := plan.candidate.layout, plan.sized.Replicas
		if day := 86400 * o.workload.Rate; day <= mostReplayed && share < 1 || day > 4*mostReplayed && share > 0.5 && slices.Min(all) > 4 {
			t.Fatalf("%v requests: %v of %v", day, replicas, all)
		}
		if d := (autoscaled{share: share}); d.wholeFleet(l.GPUs(replicas)) != l.GPUs(all) {
			t.Fatalf("%v of %v is a share of %v", replicas, all, share)
		}
		for i, n := range replicas {
			if want := share * float64(all[i]); n < 1 || math.Abs(float64(n)-want) > 1 {
				t.Fatalf("%v of %v: %d engines in pool %d, in proportion %v", replicas, all, n, i, want)
			}
		}
	})
}

// Each promise is held at the 99th percentile: of TTFT and ITL by shares, of gaps and end
// to end by what was seen.
func TestAutoscaleHolds(t *testing.T) {
	for _, c := range []struct {
		ttft, itl  float64
		stall, e2e time.Duration // promised
		want       bool
	}{{0.99, 0.99, 0, 0, true}, {0.99, 0.98, 0, 0, false}, {0.98, 1, 0, 0, false}, {1, 1, time.Second, 3 * time.Second, true}, {1, 1, 0, 2 * time.Second, false}, {1, 1, time.Millisecond, 0, false}} {
		d := autoscaled{}
		d.options.slo.StallP99, d.options.slo.E2EP99 = c.stall, c.e2e
		r := replay.Result{Attainment: replay.Attainment{TTFT: c.ttft, ITL: c.itl}, Gaps: profile.Distribution{P99: time.Second}, E2E: profile.Distribution{P99: 3 * time.Second}}
		if got := d.holds(r); got != c.want {
			t.Errorf("%+v: holds %v", c, got)
		}
	}
}
