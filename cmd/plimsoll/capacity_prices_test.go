package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"plimsoll/capacity"
	"plimsoll/capacity/autoscale"
	"plimsoll/capacity/prices"
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

// A GPU without a price has a row without a price, and GPUs that are owned cost
// nothing; neither ends a plan.
func TestPlansWithoutPrices(t *testing.T) {
	long(t)
	t.Parallel()
	common := []string{"capacity", "plan", "--model", "llama-3.1-8b", "--strategy", "aggregated", "--peak-qps", "2", "--avg-isl", "500", "--avg-osl", "50", "--ttft-p99", "2s", "--itl-p99", "200", "--format", "json"}
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
	owned := plan("--gpu", "h100-sxm,l4", "--tp", "1", "--cost-per-gpu-hour", "0")
	for i := 1; i < len(owned.Plans); i++ {
		if owned.Plans[i-1].TotalGPUsFinal > owned.Plans[i].TotalGPUsFinal {
			t.Errorf("plan %d takes %d GPUs, the next %d", i-1, owned.Plans[i-1].TotalGPUsFinal, owned.Plans[i].TotalGPUsFinal)
		}
	}
}

// Every command does without a price, and says nothing of money that nobody knows.
func TestNoPriceIsNoMoney(t *testing.T) {
	long(t)
	t.Parallel()
	dir := t.TempDir()
	common := []string{"--gpu", "h100-nvl", "--tp", "4", "--strategy", "aggregated", "--peak-qps", "2", "--avg-isl", "500", "--avg-osl", "50", "--ttft-p99", "1s", "--itl-p99", "50"}
	plan := filepath.Join(dir, "plan.json")
	if err := os.WriteFile(plan, mustPrint(t, append([]string{"capacity", "plan", "--format", "json"}, common...)...), 0o600); err != nil {
		t.Fatal(err)
	}
	rows := "arrival_s,isl,osl\n"
	for i := range 1000 {
		rows += fmt.Sprintf("%g,%d,50\n", float64(i)/8, 500+i%7)
	}
	trace, demand := filepath.Join(dir, "trace.csv"), filepath.Join(dir, "demand.yaml")
	for file, text := range map[string]string{trace: rows, demand: "gpu: h100-nvl\ntp: 4\nstrategy: aggregated\npeak-qps: 2\navg-isl: 500\navg-osl: 50\nttft-p99: 1s\nitl-p99: 50\n"} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range [][]string{
		append([]string{"plan"}, common...), append([]string{"plan", "--method", "formula"}, common...), append([]string{"plan", "--method", "formula", "--format", "json"}, common...),
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

// A canceled context ends what simulates for long at once, with nothing printed.
func TestInterruptedPlans(t *testing.T) {
	plan := filepath.Join(t.TempDir(), "plan.yaml")
	if err := os.WriteFile(plan, []byte("model: llama-3.1-8b\ngpu: h100-sxm\npeak-qps: 20\navg-isl: 512\navg-osl: 256\nttft-p99: 500\nitl-p99: 50\n"), 0o600); err != nil {
		t.Fatal(err)
	}
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
	args := []string{"plimsoll", "capacity", "plan", "--method", "formula", "--model", "llama-3.1-8b", "--gpu", "h100-sxm", "--peak-qps", "20", "--avg-isl", "512", "--avg-osl", "256", "--ttft-p99", "500", "--itl-p99", "50", "--format", "json"}
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

// What an autoscaled day costs is the bill: in whole instances, of all cells
// together, while its GPUs are there.
func TestDayIsBilledInWholeInstances(t *testing.T) {
	pool := capacity.EnginePool{GPU: "H200", USDPerGPUHour: 2, InstanceGPUs: 8}
	d := autoscaledDay{options: autoscaleOptions{cells: 2}, candidate: candidate{layout: capacity.Layout{Strategy: capacity.Aggregated, Pools: []capacity.EnginePool{pool}}}}
	r := autoscale.Result{Held: []autoscale.Held{{Hours: 1, GPUs: []float64{4}}, {Hours: 0.5, GPUs: []float64{4.5}}}}
	if got, want := d.usd(r), capacity.USD(1*8*2+0.5*16*2.0); got != want {
		t.Errorf("$%v, want $%v", got, want)
	}
	d.candidate.layout.Pools[0].InstanceGPUs = 0
	if got, want := d.usd(r), capacity.USD(1*8*2+0.5*9*2.0); got != want {
		t.Errorf("one by one $%v, want $%v", got, want)
	}
}

// A plan at spot prices says so in every format; both kinds of spot at once are refused.
func TestSpotIsSaid(t *testing.T) {
	long(t)
	common := []string{
		"capacity", "plan", "--model", "llama-3.1-8b", "--gpu", "h100-sxm", "--tp", "1", "--strategy", "aggregated", "--cloud", "gcp",
		"--peak-qps", "2", "--avg-isl", "500", "--avg-osl", "50", "--ttft-p99", "500", "--itl-p99", "20",
	}
	with := func(more ...string) []string { return append(slices.Clone(common), more...) }
	const said = "such GPUs are taken back at any time"
	for _, more := range [][]string{nil, {"--format", "json"}, {"--emit", "kubernetes"}, {"--method", "formula"}} {
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

// Plans were ranked by their GPUs: one dear GPU came before two cheap ones.
func TestDefectCheapestWasOfFewestGPUs(t *testing.T) {
	long(t)
	t.Parallel()
	var plan sizedPlans
	if err := json.Unmarshal(mustPrint(t, "capacity", "plan", "--model", "llama-3.1-8b", "--gpu", "h100-sxm,l4", "--strategy", "aggregated", "--tp", "1",
		"--avg-isl", "500", "--avg-osl", "50", "--ttft-p99", "2000", "--itl-p99", "100", "--peak-qps", "12", "--format", "json"), &plan); err != nil {
		t.Fatal(err)
	}
	for i, p := range plan.Plans {
		if i == 0 && (p.Pools[0].GPU != "L4" || p.TotalGPUsFinal < 2) || i > 0 && p.HourlyUSD < plan.Plans[i-1].HourlyUSD {
			t.Errorf("place %d: %d × %s at $%g an hour: want the cheapest first, several L4", i, p.TotalGPUsFinal, p.Pools[0].GPU, p.HourlyUSD)
		}
	}
	if len(plan.Plans) < 2 {
		t.Errorf("%d plans: want those on both GPUs", len(plan.Plans))
	}
}
