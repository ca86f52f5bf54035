package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"plimsoll/capacity"
	"plimsoll/engine"
	"plimsoll/engine/field"
	"plimsoll/engine/sim/build"
	"plimsoll/engine/sim/fleet"
	"plimsoll/profile"
)

func capacityReviewCommand() *cli.Command {
	return &cli.Command{
		Name: "review", Usage: "measured traffic against a plan, and what to change", ArgsUsage: "PLAN.json",
		Description: "PLAN.json is what capacity plan --format json printed. Its engines are sized again, at the same prices, for the\n" +
			"requests of a trace, or for what a Prometheus server saw: its busiest window, mean and p99 lengths, taken as\n" +
			"log-normal. Rates per second, lengths in tokens.\n\n" +
			"   plimsoll capacity plan --workload chatbot.yaml --format json > plan.json\n" +
			"   plimsoll capacity review --trace azure.csv plan.json\n" +
			"   plimsoll capacity review --prometheus http://prometheus:9090 --since 24h --served-model-name llama plan.json",
		Flags: slices.Concat(stringFlags("", [][3]string{
			{"trace", "", "arrivals and lengths that came, from `FILE`, gzip or not"},
		}), traceFlags(""), stringFlags("Prometheus", [][3]string{
			{"prometheus", "", "traffic from the server at `URL`, http://USER:PASSWORD@HOST:9090 with basic authentication"},
			{"since", "24h", "look so far back, `time`"},
			{"served-model-name", "", "the model's `NAME` in the metrics, exactly (default: the only one there)"},
			{"prometheus-namespace", "", "only this `NAMESPACE`, exactly (default: all)"},
			{"prometheus-bearer-token-file", "", "bearer token for the server, in `FILE`"},
		}), []cli.Flag{detailsFlag()}),
		Action: reviewPlan,
	}
}

// review is a plan and the traffic that came.
type review struct {
	file   string
	plans  sizedPlans
	plan   sizedPlan
	demand // the traffic that came, within the plan's SLO

	rate     float64           // requests/s, the mean
	source   string            // of the traffic, in words; "" = a trace
	assumed  map[string]string // by figure: how one is filled in that the traffic does not say
	warnings []profile.Warning
	resized  sizedPlan
}

func reviewPlan(c *cli.Context) error {
	p := &parser{c: c}
	r := review{file: c.Args().First(), assumed: map[string]string{}}
	if r.file == "" {
		return field.Errorf("review needs a plan").Hint("plimsoll capacity review --trace azure.csv plan.json")
	}
	if err := r.open(); err != nil {
		return err
	}
	file, server := p.name("trace"), p.name("prometheus")
	switch {
	case p.err != nil:
	case file == "" && server == "":
		p.fail(field.Errorf("--trace is missing: want a file of the arrivals and lengths that came").Hint("or --prometheus URL, of a server that counted them"))
	case file != "" && server != "":
		p.fail(field.Errorf("--trace and --prometheus: want one of them"))
	}
	p.needs(server != "", "with --prometheus", "since", "served-model-name", "prometheus-namespace", "prometheus-bearer-token-file")
	p.needs(file != "", "with --trace", "trace-format", "time-unit", "spread-ticks")
	if window := cmp.Or(r.plans.Workload.PeakWindow, time.Minute); server != "" && p.err == nil {
		p.err = r.observe(p, window)
	} else if p.err == nil {
		r.read(p, file, window)
		r.rate = r.stats.Rate
	}
	if p.err != nil {
		return p.err
	}
	if err := r.size(); err != nil {
		return err
	}
	f := r.report()
	err := showCard(c, f, func() card { return r.card(f) }, func() string { return r.resized.restsOn(r.demand) })
	if err != nil {
		return err
	}
	if r.resized.Infeasible != nil {
		return &infeasibleError{"no number of these engines holds the SLO under this traffic"}
	}
	return nil
}

func (r *review) open() error {
	f, err := os.Open(r.file)
	if err != nil {
		return field.Errorf("%v", err)
	}
	defer f.Close() //nolint:errcheck // only read
	if r.plans, err = readPlan(f); err != nil {
		return field.Errorf("%s: %s", r.file, strings.ReplaceAll(err.Error(), "\n", "; "))
	}
	r.plan, r.slo = r.plans.Plans[0], r.plans.SLO
	r.failures = capacity.Failures{ReplicaAvailability: r.plans.Inputs.ReplicaAvailability, DomainGPUs: r.plans.Inputs.DomainGPUs}
	return nil
}

// size sizes the plan's engines for the traffic, at the plan's prices. They hold the
// longest request that came; where their GPUs have no room for it, that of the plan.
func (r *review) size() error {
	o := r.options()
	cs, _, err := o.candidates()
	if planned := r.plan.Pools[0].MaxModelLen; err != nil && planned > 0 {
		o.fleet.Limits.MaxModelLen = planned
		cs, _, err = o.candidates()
	}
	if err != nil {
		return fmt.Errorf("%s: making its engines again: %w", r.file, err)
	}
	cand, ok := find(cs, r.plan.Plan)
	if !ok {
		return field.Errorf("%s: cannot rebuild its layout %q from its inputs: %s", r.file, r.plan.Layout, cs[0].name())
	}
	cand.prices = r.plan.Prices
	for i, p := range r.plan.Pools {
		cand.layout.Pools[i].USDPerGPUHour, cand.layout.Pools[i].InstanceGPUs = p.USDPerGPUHour, p.InstanceGPUs
	}
	r.sayWhatIsShared()
	traffic, err := o.traffic()
	if err != nil {
		return err
	}
	r.resized, err = o.sizeOne(cand, traffic, capacity.SizeOptions{})
	return err
}

// options are those of the plan, its layout alone, for what came.
func (r *review) options() capacityOptions {
	in := r.plans.Inputs
	o := capacityOptions{
		demand: r.demand, strategy: r.plan.Strategy, seed: in.Seed,
		fleet:  build.Options{Profile: in.Profile, Model: in.Model, Catalog: in.Catalog, Fit: in.Fit, Weights: in.Weights, KV: in.KV, MemoryFraction: in.MemoryFraction, PerNode: in.PerNode, Limits: engine.Limits{MaxNumSeqs: in.MaxNumSeqs, MaxNumBatchedTokens: in.MaxNumBatchedTokens}},
		caches: caches{reuse: in.Caches.Reuse, router: in.Caches.Router, dram: build.KVTier{Bytes: in.Caches.DRAMBytes, BytesPerSecond: in.Caches.DRAMPerSecond}},
	}
	if c := r.plan.Chunk; c != nil && c.Kept == "" {
		o.fleet.Limits.MaxNumBatchedTokens = c.Tokens
	}
	for _, pool := range r.plan.Pools {
		o.gpus = append(o.gpus, pool.GPU)
		name, _, _ := strings.Cut(pool.Engine, " (")                  // its nodes
		if layout, err := engine.ParseParallelism(name); err == nil { // a profile's may have another name
			o.asked = append(o.asked, layout)
		}
	}
	o.gpus, o.asked = distinct(o.gpus), distinct(o.asked)
	return o
}

// sayWhatIsShared warns where the plan counts on what prompts share, and the traffic
// does not say it.
func (r *review) sayWhatIsShared() {
	if r.plans.Inputs.Caches.Reuse && r.stats.Blocks.Blocks == 0 && r.workload.Prefixes.Groups == 0 {
		r.warnings = append(r.warnings, profile.Warnf("prefixes_unknown",
			"shared prefixes are unknown, but the plan reuses them. Without reuse it needs more GPUs; give a --trace with block hashes"))
	}
}

// distinct drops what is there before.
func distinct[T comparable](all []T) []T {
	var out []T
	for _, x := range all {
		if !slices.Contains(out, x) {
			out = append(out, x)
		}
	}
	return out
}

// maxPlanBytes bounds a file that holds a plan; more is another file.
const maxPlanBytes = 64 << 20

// readPlan reads what capacity plan printed, and refuses what it never prints.
func readPlan(r io.Reader) (sizedPlans, error) {
	var out sizedPlans
	b, err := io.ReadAll(io.LimitReader(r, maxPlanBytes+1))
	if err != nil {
		return out, fmt.Errorf("reading the plan: %w", err)
	}
	if len(b) > maxPlanBytes {
		return out, fmt.Errorf("more than %d MiB: that is no plan", maxPlanBytes>>20)
	}
	if err := json.Unmarshal(b, &out); err != nil {
		return out, fmt.Errorf("not a plan in JSON: %w (hint: capacity plan --format json > plan.json writes one)", engine.PlainJSON("the file", err))
	}
	if len(out.Plans) == 0 && len(out.Infeasible) > 0 {
		return out, fmt.Errorf("its plan is infeasible: %s", out.Infeasible[0].Why)
	}
	if len(out.Plans) == 0 {
		return out, errors.New("it holds no sized plan: want what capacity plan --format json prints with --method sized")
	}
	p := out.Plans[0]
	if p.Infeasible != nil {
		return out, fmt.Errorf("its plan is infeasible: %s", p.Infeasible.Why)
	}
	errs := []error{out.Workload.Check(), out.SLO.Check(), out.Inputs.Caches.check()}
	want := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	pools := map[capacity.Strategy]int{capacity.Aggregated: 1, capacity.Disaggregated: 2}[p.Strategy]
	want(pools > 0 && len(p.Pools) == pools, "a plan of %d pools, %q: want one aggregated or two disaggregated", len(p.Pools), p.Strategy)
	want(p.TotalGPUsFinal > 0 && !(p.HourlyUSD < 0 || p.HourlyUSD > 1e12), "total_gpus_final %d and hourly_cost_usd %v: want 1 GPU at least, and a price", p.TotalGPUsFinal, p.HourlyUSD)
	want(p.Chunk == nil || p.Chunk.Kept != "" || p.Chunk.Tokens >= 64 && p.Chunk.Tokens <= maxTokens, "chunk.max_num_batched_tokens is not 64 to %d", int(maxTokens))
	for _, pool := range p.Pools {
		want(!(pool.USDPerGPUHour < 0 || pool.USDPerGPUHour > 1e6) && pool.InstanceGPUs >= 0 && pool.InstanceGPUs <= maxGPUs,
			"GPUs at $%v in instances of %d in the %s pool: want a price, and 0 to %d", pool.USDPerGPUHour, pool.InstanceGPUs, pool.Role, maxGPUs)
		want(pool.Engines > 0 && pool.Engines <= maxReplicas && pool.SpareEngines >= 0 && pool.SpareEngines <= maxReplicas,
			"%d engines and %d spare ones in the %s pool: want 1 to %d, and 0 or more", pool.Engines, pool.SpareEngines, pool.Role, maxReplicas)
		n := max(1, pool.Engines+pool.SpareEngines)
		want(pool.GPUs >= n && pool.GPUs%n == 0 && pool.GPUs/n <= maxGPUs, "%d GPUs of %d engines in the %s pool: want as many for each, 1 to %d", pool.GPUs, n, pool.Role, maxGPUs)
	}
	return out, errors.Join(errs...)
}

// check says what capacity plan never writes.
func (p planCaches) check() error {
	if !p.Reuse {
		return nil
	}
	if _, err := fleet.ParseRouter(string(p.Router)); err != nil {
		return fmt.Errorf("inputs.caches: %w", err)
	}
	if p.DRAMBytes < 0 || p.DRAMBytes > 1e9*(1<<30) || p.DRAMBytes > 0 && !(p.DRAMPerSecond > 0 && p.DRAMPerSecond <= 1e15) {
		return fmt.Errorf("inputs.caches: %v bytes of DRAM at %v bytes/s: want 0 or more, at a speed above 0", p.DRAMBytes, p.DRAMPerSecond)
	}
	return nil
}
