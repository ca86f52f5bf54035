package main

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"plimsoll/capacity"
	"plimsoll/capacity/prices"
	"plimsoll/planner/replay"
)

// The decode pool on spot GPUs is billed in the spot offer's instances.
func TestSpotDecodeIsBilledInSpotInstances(t *testing.T) {
	rows := "cloud,region,instance,gpu,gpus,kind,usd_per_gpu_hour,source,date\n" +
		"AWS,here,large,NEW-GPU,8,on_demand,9,test,2026-01-01\nAWS,here,small,NEW-GPU,4,spot,3,test,2026-01-01\n"
	table, err := prices.Table{}.With("prices.csv", strings.NewReader(rows))
	if err != nil {
		t.Fatal(err)
	}
	o := capacityOptions{spotDecode: true, money: money{cloud: "AWS", kind: prices.OnDemand, table: table}}
	first := o.money.of("NEW-GPU", 2)
	decode, words := o.decodePrice("NEW-GPU", 2, first)
	if first.usd != 9 || first.instance != 8 || decode.usd != 3 || decode.instance != 4 {
		t.Errorf("on demand %+v, spot %+v", first, decode)
	}
	if len(words) != 1 || !strings.Contains(words[0], "instances of 4") {
		t.Errorf("words %q", words)
	}
	o.spotDecode = false
	if got, words := o.decodePrice("NEW-GPU", 2, first); got != first || words != nil {
		t.Errorf("without spot %+v %q", got, words)
	}
}

// A canceled context ends what simulates for long at once, with nothing printed.
func TestInterruptedPlans(t *testing.T) {
	plan := written(t, "plan.yaml", "model: llama-3.1-8b\ngpu: h100-sxm\nrate: 20\nisl: 512\nosl: 256\nttft-p99: 500\nitl-p99: 50\n")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, args := range [][]string{{"plan", "--workload", plan}, {"compare", plan, plan}, {"autoscale", "--workload", plan}} {
		var out, errout bytes.Buffer
		code := run(ctx, append([]string{"plimsoll", "capacity"}, args...), streams{strings.NewReader(""), &out, &errout})
		if code != exitInterrupted || out.Len() > 0 {
			t.Errorf("%s: exit code %d, stdout %q, stderr %q", args[0], code, &out, &errout)
		}
	}
}

func TestFormulaSaysThatItIgnoresPrefixes(t *testing.T) {
	args := []string{"plimsoll", "capacity", "plan", "--method", "formula", "--throughput", "published", "--model", "llama-3.1-70b", "--rate", "20", "--isl", "512", "--osl", "256", "--ttft-p99", "500", "--itl-p99", "50", "--format", "json"}
	for _, with := range []bool{false, true} {
		var out, errout bytes.Buffer
		if with {
			args = append(args, "--prefix-groups", "10", "--prefix-tokens", "256")
		}
		if code := run(t.Context(), args, streams{strings.NewReader(""), &out, &errout}); code != exitDone {
			t.Fatalf("exit code %d: %s", code, &errout)
		}
		if got := strings.Contains(out.String(), "prefixes_ignored"); got != with {
			t.Errorf("with groups of prompts %v, warned %v", with, got)
		}
	}
}

// What an autoscaled day costs is the bill: in whole instances of the whole fleet, while
// its GPUs are there.
func TestDayIsBilledInWholeInstances(t *testing.T) {
	pool := capacity.EnginePool{GPU: "H200", USDPerGPUHour: 2, InstanceGPUs: 8}
	d := autoscaled{share: 0.5, plan: sizedPlan{candidate: candidate{layout: capacity.Layout{Strategy: capacity.Aggregated, Pools: []capacity.EnginePool{pool}}}}}
	r := replay.Result{Timeline: []replay.Point{
		{To: time.Hour, Pools: []replay.PoolPoint{{GPUs: 4}}},
		{From: time.Hour, To: 90 * time.Minute, Pools: []replay.PoolPoint{{GPUs: 4.5}}},
	}}
	if got, want := d.usd(r), capacity.USD(1*8*2+0.5*16*2.0); got != want {
		t.Errorf("$%v, want $%v", got, want)
	}
	d.plan.candidate.layout.Pools[0].InstanceGPUs = 0
	if got, want := d.usd(r), capacity.USD(1*8*2+0.5*9*2.0); got != want {
		t.Errorf("one by one $%v, want $%v", got, want)
	}
}

// Plans were ranked by their GPUs: one dear GPU came before two cheap ones.
func TestDefectCheapestWasOfFewestGPUs(t *testing.T) {
	t.Parallel()
	var plan sizedPlans
	if err := json.Unmarshal(mustPrint(t, "capacity", "plan", "--model", "llama-3.1-8b", "--gpu", "h100-sxm,l40s", "--strategy", "aggregated", "--tp", "1",
		"--isl", "500", "--osl", "50", "--ttft-p99", "2000", "--itl-p99", "100", "--rate", "60", "--format", "json"), &plan); err != nil {
		t.Fatal(err)
	}
	for i, p := range plan.Plans {
		if i == 0 && (p.Pools[0].GPU != "L40S" || p.TotalGPUsFinal < 2) || i > 0 && p.HourlyUSD < plan.Plans[i-1].HourlyUSD {
			t.Errorf("place %d: %d × %s at $%g an hour: want the cheapest first, several L40S", i, p.TotalGPUsFinal, p.Pools[0].GPU, p.HourlyUSD)
		}
	}
	if len(plan.Plans) < 2 {
		t.Errorf("%d plans: want those on both GPUs", len(plan.Plans))
	}
}

// The card shows a layout of each kind of GPU, and counts those that it leaves out.
func TestCardShowsEveryKindOfGPU(t *testing.T) {
	t.Parallel()
	var out sizedPlans
	for i := range 12 {
		gpu := "H100-SXM"
		if i == 10 {
			gpu = "L4"
		}
		out.Plans = append(out.Plans, sizedPlan{Plan: capacity.Plan{Pools: []capacity.PoolPlan{{GPU: gpu}}}})
	}
	rows, more := out.shown()
	if len(rows) != mostLayouts || more != 12-mostLayouts || rows[mostLayouts-1].gpus() != "L4" {
		t.Errorf("%d rows, the last of %s, and %d more", len(rows), rows[len(rows)-1].gpus(), more)
	}
}

// Fleets that cost the same tie, however many of the GPUs of their instances they use.
func TestComparedPlansTie(t *testing.T) {
	t.Parallel()
	plan := func(file string, gpus, billed int, usd capacity.USD) comparedPlan {
		p := comparedPlan{File: file, Plan: capacity.Plan{Pools: []capacity.PoolPlan{{GPU: "H100-SXM"}}, TotalGPUsFinal: gpus, BilledGPUs: billed}}
		p.HourlyUSD, p.Per1kQueriesUSD = usd, usd/3.6
		return p
	}
	unknown := capacity.UnknownUSD()
	for _, c := range []struct {
		what  string
		plans comparedPlans
		want  string
	}{
		{"cheaper", comparedPlans{plan("a", 24, 24, 30), plan("b", 12, 16, 20)}, "b takes least: 12 (16 billed) × H100-SXM, $20.00 an hour"},
		{"billed the same", comparedPlans{plan("a", 16, 16, 0.3), plan("b", 12, 16, 0.1+0.2), plan("c", 24, 24, 3)}, "a and b take the same: 16 × H100-SXM and 12 (16 billed) × H100-SXM, $0.30 an hour"},
		{"owned", comparedPlans{plan("a", 16, 16, 0), plan("b", 12, 16, 0)}, "b takes least: 12 (16 billed) × H100-SXM"},
		{"no price of one", comparedPlans{plan("a", 12, 12, 9), plan("b", 12, 12, unknown)}, "a and b take the same: 12 × H100-SXM, $9.00 an hour"},
	} {
		if got := c.plans.card().facts[0].text; got != c.want {
			t.Errorf("%s: %s\nwant %s", c.what, got, c.want)
		}
	}
}

// One price of several kinds of GPUs is warned of, unless all are owned.
func TestOnePriceOfSeveralKinds(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int{"2.1": 1, "0": 0, "H100-SXM=2.1": 0} {
		said, err := prices.ParseGiven(text, func(gpu string) (string, error) { return gpu, nil })
		if err != nil {
			t.Fatal(err)
		}
		m := money{said: said}
		if got := m.onePrice([]string{"H100-SXM", "L4"}); len(got) != want || want > 0 && got[0].Message != "--cost-per-gpu-hour 2.10 is taken for H100-SXM and L4. Use h100-sxm=2.10 to price one" {
			t.Errorf("%s: %v", text, got)
		}
		if got := m.onePrice([]string{"L4"}); got != nil {
			t.Errorf("%s of one kind: %v", text, got)
		}
	}
}

// What the default chunk would cost is said in dollars where there are any.
func TestChunkWordsPrice(t *testing.T) {
	for usd, want := range map[capacity.USD]string{6.88: "it takes ≈ 2 GPUs, $6.88 an hour", 0: "it takes ≈ 2 GPUs", capacity.UnknownUSD(): "it takes ≈ 2 GPUs"} {
		words := planChunk{Tokens: 512, Default: 8192, AtDefault: &defaultChunk{GPUs: 2, HourlyUSD: usd}}.words(0)
		if !strings.HasSuffix(words, "; at the default of 8192 "+want) {
			t.Errorf("%v: %s", usd, words)
		}
	}
}
