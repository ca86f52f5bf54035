//go:build full

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"plimsoll/profile"
)

// Every command does without a price, and says nothing of money that nobody knows.
func TestNoPriceIsNoMoney(t *testing.T) {
	t.Parallel()
	common := []string{"--gpu", "h100-nvl", "--tp", "4", "--strategy", "aggregated", "--rate", "2", "--isl", "500", "--osl", "50", "--ttft-p99", "1s", "--itl-p99", "50"}
	plan := written(t, "plan.json", string(mustPrint(t, append([]string{"capacity", "plan", "--format", "json"}, common...)...)))
	rows := "arrival_s,isl,osl\n"
	for i := range 1000 {
		rows += fmt.Sprintf("%g,%d,50\n", float64(i)/8, 500+i%7)
	}
	trace := written(t, "trace.csv", rows)
	demand := written(t, "demand.yaml", "gpu: h100-nvl\ntp: 4\nstrategy: aggregated\nrate: 2\nisl: 500\nosl: 50\nttft-p99: 1s\nitl-p99: 50\n")
	for _, args := range [][]string{
		append([]string{"plan"}, common...), append([]string{"plan", "--method", "formula", "--throughput", "50000,8000"}, common...), append([]string{"plan", "--method", "formula", "--throughput", "50000,8000", "--format", "json"}, common...),
		append([]string{"autoscale", "--format", "json"}, common...), append([]string{"autoscale"}, common...),
		{"compare", demand, demand},
		{"compare", "--format", "csv", demand, demand},
		{"compare", "--format", "json", demand, demand},
		{"review", "--trace", trace, plan},
		{"review", "--trace", trace, "--format", "json", plan},
	} {
		if got := string(mustPrint(t, append([]string{"capacity"}, args...)...)); strings.Contains(got, "NaN") || strings.Contains(got, "$no") {
			t.Errorf("%v:\n%s", args, got)
		}
	}
}

// A plan at spot prices says so in every format; both kinds of spot at once are refused.
func TestSpotIsSaid(t *testing.T) {
	common := []string{
		"capacity", "plan", "--model", "llama-3.1-8b", "--gpu", "h100-sxm", "--tp", "1", "--strategy", "aggregated", "--cloud", "gcp",
		"--rate", "2", "--isl", "500", "--osl", "50", "--ttft-p99", "500", "--itl-p99", "20",
	}
	with := func(more ...string) []string { return append(slices.Clone(common), more...) }
	const said = "can be taken back at any time"
	for _, more := range [][]string{nil, {"--format", "json"}, {"--emit", "kubernetes"}, {"--method", "formula", "--throughput", "50000,8000"}} {
		if got := mustPrint(t, with(append(more, "--spot")...)...); !bytes.Contains(got, []byte(said)) {
			t.Errorf("%v: not said in\n%s", more, got)
		}
		if got := mustPrint(t, with(more...)...); bytes.Contains(got, []byte(said)) {
			t.Errorf("%v: said on demand in\n%s", more, got)
		}
	}
	var out, errout bytes.Buffer
	args := append([]string{"plimsoll"}, with("--strategy", "disaggregated", "--spot", "--spot-decode")...)
	if code := run(t.Context(), args, streams{strings.NewReader(""), &out, &errout}); code != exitUsage || !strings.Contains(errout.String(), "--spot-decode and --spot: want one of them") {
		t.Errorf("both: exit code %d, %s", code, &errout)
	}
}

// A GPU without a price has a row without a price, and GPUs that are owned cost
// nothing; neither ends a plan.
func TestPlansWithoutPrices(t *testing.T) {
	t.Parallel()
	common := []string{"capacity", "plan", "--model", "llama-3.1-8b", "--strategy", "aggregated", "--rate", "2", "--isl", "500", "--osl", "50", "--ttft-p99", "2s", "--itl-p99", "200", "--format", "json"}
	plan := func(more ...string) sizedPlans {
		t.Helper()
		out, err := readPlan(bytes.NewReader(mustPrint(t, append(slices.Clone(common), more...)...)))
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	all := plan("--gpu", "h100-nvl,gb200", "--tp", "1,4", "--cost-per-gpu-hour", "gb200=0")
	known := func(p sizedPlan) bool { return p.HourlyUSD.Known() }
	if first := slices.IndexFunc(all.Plans, func(p sizedPlan) bool { return !known(p) }); first < 0 || slices.ContainsFunc(all.Plans[first:], known) {
		t.Errorf("%d of %d plans are the first without a price, none with one comes later", first, len(all.Plans))
	}
	for _, p := range all.Plans { // the table has single H100-NVL only
		pool := p.Pools[0]
		if free := pool.GPU == "GB200"; free && p.HourlyUSD != 0 || known(p) != (free || pool.Engine == "TP:1") {
			t.Errorf("%s on %s costs $%v an hour", pool.Engine, pool.GPU, p.HourlyUSD)
		}
	}
	owned := plan("--gpu", "h100-sxm,l40s", "--tp", "1", "--cost-per-gpu-hour", "0")
	for i := 1; i < len(owned.Plans); i++ {
		if owned.Plans[i-1].TotalGPUsFinal > owned.Plans[i].TotalGPUsFinal {
			t.Errorf("plan %d takes %d GPUs, the next %d", i-1, owned.Plans[i-1].TotalGPUsFinal, owned.Plans[i].TotalGPUsFinal)
		}
	}
}

// The row of a kind of GPU is that of its best layout, whichever others are asked for, and no
// row breaks the SLO.
func TestKindsDoNotChangeEachOther(t *testing.T) {
	for _, ask := range [][]string{
		{"--model", "llama-3.1-70b", "--gpu", "h200-sxm,b200,h100-sxm", "--rate", "20", "--isl", "1500", "--osl", "150", "--ttft-p99", "800", "--itl-p99", "15"},
		{"--model", "llama-3.1-8b", "--gpu", "l40s,h100-sxm", "--rate", "5", "--isl", "3000", "--osl", "350", "--ttft-p99", "1500", "--itl-p99", "25"},
		{"--model", "llama-3.1-8b", "--gpu", "h100-sxm,a100-80-sxm", "--gpu-count", "8", "--isl", "3000", "--osl", "500", "--ttft-p99", "2000", "--itl-p99", "30"},
		{"--model", "qwen3-32b", "--gpu", "a100-80-sxm,h200-sxm", "--gpu-count", "16", "--isl", "1500", "--isl-p99", "6000", "--osl", "350", "--osl-p99", "1000", "--ttft-p99", "800", "--itl-p99", "40"},
	} {
		plan := func(gpus string) (out sizedPlans) {
			t.Helper()
			args := append([]string{"capacity", "plan", "--format", "json"}, ask...)
			args[slices.Index(args, "--gpu")+1] = gpus
			if err := json.Unmarshal(mustPrint(t, args...), &out); err != nil {
				t.Fatal(err)
			}
			for _, p := range out.Plans {
				if p.EstimatedTTFTP99Ms > profile.Milliseconds(out.SLO.TTFT) || p.EstimatedITLP99Ms > profile.Milliseconds(out.SLO.ITL) || p.Attainment < 0.99 {
					t.Errorf("%v: %s on %s at %g requests/s: TTFT %g ms, ITL %g ms, %g attained", args, p.Layout, p.Pools[0].GPU, p.RPS, p.EstimatedTTFTP99Ms, p.EstimatedITLP99Ms, p.Attainment)
				}
			}
			return out
		}
		all := plan(ask[3])
		for _, gpu := range strings.Split(ask[3], ",") {
			alone := plan(gpu).Plans[0]
			i := slices.IndexFunc(all.Plans, func(p sizedPlan) bool { return strings.EqualFold(p.Pools[0].GPU, alone.Pools[0].GPU) })
			if i < 0 {
				t.Fatalf("%v: no row of %s", ask, gpu)
			}
			row, engine := all.Plans[i], 0
			for _, pool := range alone.Pools {
				engine = max(engine, pool.GPUs/pool.Engines)
			}
			if more := row.TotalGPUsFinal - alone.TotalGPUsFinal; max(more, -more) > engine || row.RPS < 0.93*alone.RPS || row.RPS > 1.07*alone.RPS {
				t.Errorf("%v: %s on %s takes %d GPUs at %g requests/s, alone %s takes %d at %g", ask, row.Layout, gpu, row.TotalGPUsFinal, row.RPS, alone.Layout, alone.TotalGPUsFinal, alone.RPS)
			}
		}
	}
}

// Every kind of GPU that was asked for has a row, however dear it is, and no layout is both
// sized and left out.
func TestEveryKindOfGPUHasARow(t *testing.T) {
	t.Parallel()
	for _, of := range [][]string{{"--rate", "20"}, {"--gpu-count", "2"}} {
		var plan sizedPlans
		if err := json.Unmarshal(mustPrint(t, append([]string{
			"capacity", "plan", "--model", "llama-3.1-8b", "--gpu", "h100-sxm,b200,l40s", "--cost-per-gpu-hour", "h100-sxm=0.01", "--strategy", "aggregated", "--max-gpus-per-engine", "2",
			"--isl", "500", "--osl", "50", "--ttft-p99", "2000", "--itl-p99", "100", "--format", "json",
		}, of...)...), &plan); err != nil {
			t.Fatal(err)
		}
		kinds := map[string]bool{}
		for _, p := range plan.Plans {
			kinds[p.Pools[0].GPU] = true
			for _, s := range plan.LeftOut {
				if s.Label == p.Layout+" on "+p.Pools[0].GPU {
					t.Errorf("%v: %s is sized, and left out: %s", of, s.Label, s.Reason)
				}
			}
		}
		if len(kinds) != 3 {
			t.Errorf("%v: plans of %v: want one of each kind", of, kinds)
		}
	}
}
