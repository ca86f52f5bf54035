package main

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/urfave/cli/v2"

	"plimsoll/capacity"
	"plimsoll/capacity/prices"
	"plimsoll/engine"
	"plimsoll/engine/field"
	"plimsoll/engine/sim/build"
	"plimsoll/engine/sim/fleet"
	"plimsoll/plots"
	"plimsoll/profile"
)

func capacityCommand() *cli.Command {
	return &cli.Command{
		Name: "capacity", Usage: "plan the GPUs for a workload: how many, which kind, which layout, what they cost, and where the plan may be wrong",
		Subcommands: []*cli.Command{capacityPlanCommand(), capacityRatioCommand(), capacityCatalogCommand(), capacityAutoscaleCommand(), capacityCompareCommand(), capacityReviewCommand()},
	}
}

func capacityPlanCommand() *cli.Command {
	return &cli.Command{
		Name: "plan", Usage: "the fleet that a workload takes within an SLO",
		Description: "Sizes pools by simulating whole fleets at the offered load, and checks that one engine fewer is too few.\n" +
			"Step times come from a measured profile (--profile), or from the latency model; --method formula gives the\n" +
			"closed formulas of published or given tokens/s instead, to be checked by hand, and says where they mislead. --gpu-count asks the other way\n" +
			"round: for the highest rate that so many GPUs hold.\n\n" +
			"   plimsoll capacity plan --model llama-3.1-70b --gpu h100-sxm,h200-sxm --rate 50 --isl 3000 --osl 150 --ttft-p99 1000 --itl-p99 50\n" +
			"   plimsoll capacity plan --profile profiling_results --trace azure.csv --ttft-p99 500 --itl-p99 40 --availability 0.999 --replica-availability 0.995\n" +
			"   plimsoll capacity plan --model llama-3.1-8b --gpu h100-sxm --gpu-count 8 --isl 3000 --osl 150 --ttft-p99 1000 --itl-p99 50",
		Flags:  append(append(append(workloadFlags(), sloFlags()...), moneyFlags()...), append(planFlags(), append(whatIfFlags(), detailsFlag())...)...),
		Action: planCapacity,
	}
}

func planFlags() []cli.Flag {
	return append(stringFlags("engines", [][3]string{
		{"model", simModel, "model, a catalog `name` or a config.json"},
		{"gpu", simGPU, "GPUs to compare, catalog `names` with commas between"},
		{"gpus-per-node", "", perNodeUsage},
		{"tp", "", "tensor-parallel sizes to compare, `N,N` (default: the layouts that profile-sla tries, those that hold the longest request)"},
		{"parallelism", "", "layouts to compare instead, `TP:4,TEP:8,DEP:8`"},
		{"max-gpus-per-engine", itoa(mostEngineGPUs), "`N` GPUs that one engine may have"},
		{"weights", published, weightsUsage},
		{"kv-dtype", "", kvUsage},
		{"memory-fraction", "", memoryUsage},
		{"max-num-seqs", "", "sequences at once per engine, `N` (default: the engine's for the GPU, or the profile's)"},
		{"max-num-batched-tokens", "", "tokens in one step, `N` (default: those with which an aggregated layout costs least; the engine's for the GPU for others, and with --profile)"},
		{"max-model-len", "", "prompt and output together that an engine has to hold, `tokens`: longer requests miss the SLO (default: the longest request, rounded up to 1024)"},
		{"fit", "", fitUsage},
		{"catalog", "", catalogUsage},
		{"profile", "", "step times from the profile in `DIR`, the best source there is"},
		{"strategy", "auto", "`disaggregated|aggregated|auto`: prefill on engines of its own or not (colocated = aggregated)"},
		{"gpu-count", "", "instead of --rate: the highest rate that `N` GPUs hold; a --trace is scaled to it"},
		{"method", "sized", "`sized|formula`"},
		{"throughput", "published", "formula: `published|PREFILL,DECODE`, a published row, which has its own GPU, tensor-parallel size and price, or an engine's tokens/s"},
		{"utilization-target", "0.70", "formula: `share` of throughput to plan with"},
		{"seed", "1", "sized: seed of arrivals and lengths, `N`"},
		{"emit", "", "sized: YAML of the cheapest plan instead, `kubernetes|planner`: replica counts and engine arguments, or the planner's configuration"},
		{"plot", "", "sized: picture of the GPUs that the cheapest layout takes at other rates and within other latencies, `FILE` (.png or .svg)"},
	}), &cli.BoolFlag{Name: "mixed-gpus", Usage: "let prefill and decode have different ones of --gpu", Category: "engines"})
}

// mostEngineGPUs is how many GPUs one engine has at most where nobody says it.
const mostEngineGPUs = 16

// capacityOptions are a plan as the flags ask for it.
type capacityOptions struct {
	demand
	money       money
	fleet       build.Options // model, fit, storage, catalog, profile
	gpus        []string
	asked       []engine.Parallelism // layouts; nil = those worth trying
	maxEngine   int                  // GPUs of one engine
	strategy    capacity.Strategy
	method      string
	given       *givenThroughput // nil = a published row's
	utilization float64
	seed        uint64
	emitAs      string // kubernetes or planner; "" = the plan itself
	plot        string // file of the picture; "" = none
	gpuCount    int    // whose highest rate is asked for; 0 = GPUs are
	mixedGPUs   bool   // prefill and decode may have different ones

	caches        caches
	spotDecode    bool
	interruptions capacity.Interruptions

	progress func(what string) // is told what is being sized; nil = nobody is
}

func parseCapacity(p *parser) capacityOptions {
	o := capacityOptions{demand: parseDemand(p), money: parseMoney(p)}
	parseEngines(p, &o)
	o.mixedGPUs = p.c.Bool("mixed-gpus")
	p.needs(len(o.gpus) > 1, "with several in --gpu", "mixed-gpus")
	if o.mixedGPUs && o.money.cloud == "" && !o.money.pricesGiven(o.gpus) {
		p.fail(field.Errorf("--mixed-gpus: both pools must be in one cloud, as KV moves between them: want --cloud NAME"))
	}
	parseWhatIf(p, &o)
	o.method = p.choice("method", "sized", "formula")
	o.given = p.throughput()
	p.needs(o.method == "sized", "with --method sized; the formulas are of p99", "sla-stat")
	p.needs(o.slo.Allowed() < 1, "with a percentile in --sla-stat, as interruptions are counted by requests", "spot-decode")
	o.gpuCount = p.integer("gpu-count", 1, maxGPUs, 0)
	p.needs(o.gpuCount == 0, "without --gpu-count, which asks for the rate", "rate", "availability", "spot-decode", "mixed-gpus", "plot")
	p.needs(o.method == "sized", "with --method sized", "gpu-count")
	o.utilization = p.number("utilization-target", 0.01, 1)
	p.needs(o.method == "formula", "with --method formula", "throughput", "utilization-target")
	p.needs(o.method == "sized", "with --method sized", "seed", "emit", "plot")
	o.emitAs, o.plot = emitted(p), p.writable("plot")
	return o
}

// pricesGiven reports whether the price of every GPU was said.
func (m money) pricesGiven(gpus []string) bool {
	return !slices.ContainsFunc(gpus, func(gpu string) bool {
		_, ok := m.given(gpu)
		return !ok
	})
}

func planCapacity(c *cli.Context) error {
	p := &parser{c: c}
	o := parseCapacity(p)
	if p.err != nil {
		return p.err
	}
	if o.method == "formula" {
		return o.planByFormula(c)
	}
	return o.planSized(c)
}

// sizedPlans are the plans of all candidates, the cheapest first.
type sizedPlans struct {
	Workload capacity.Workload `json:"workload"`
	SLO      capacity.SLO      `json:"slo"`
	Traffic  string            `json:"traffic"`
	Trace    *measuredTrace    `json:"trace,omitempty"`
	GPUCount int               `json:"gpu_count,omitempty"` // whose highest rate was looked for; 0 = the rate was given
	Inputs   planInputs        `json:"inputs"`
	Plans    []sizedPlan       `json:"plans"`
	WhatIf   []whatIf          `json:"what_if,omitempty"`

	Infeasible []infeasiblePlan `json:"infeasible,omitempty"`

	LeftOut []profile.Skip `json:"left_out"`

	gpus []string // kinds to compare; nil: a profile's
}

// planInputs are what the engines of a plan were made from, so that a review can
// size them again.
type planInputs struct {
	Model   string       `json:"model,omitempty"`
	Weights engine.DType `json:"weights,omitempty"`
	KV      engine.DType `json:"kv,omitempty"`
	PerNode int          `json:"gpus_per_node,omitzero"` // of one server; left out: as the catalog says

	MaxNumSeqs          int     `json:"max_num_seqs,omitempty"`
	MaxNumBatchedTokens int     `json:"max_num_batched_tokens,omitempty"`
	MemoryFraction      float64 `json:"memory_fraction,omitempty"`

	Fit     string `json:"fit,omitempty"`
	Catalog string `json:"catalog,omitempty"`
	Profile string `json:"profile,omitempty"`
	Seed    uint64 `json:"seed"`

	ReplicaAvailability float64 `json:"replica_availability,omitempty"`
	DomainGPUs          int     `json:"failure_domain,omitempty"`

	Caches planCaches `json:"caches"`
}

// planCaches are caches in a file.
type planCaches struct {
	Reuse         bool         `json:"prefix_reuse"`
	Router        fleet.Router `json:"router,omitempty"` // of the pool that takes prompts
	DRAMBytes     float64      `json:"kv_dram_bytes,omitempty"`
	DRAMPerSecond float64      `json:"kv_dram_bytes_per_second,omitempty"`
}

// recorded are caches as a file has them: of those that keep nothing only that.
func (c caches) recorded() planCaches {
	if !c.reuse {
		return planCaches{}
	}
	p := planCaches{Reuse: true, Router: c.router}
	if c.dram.Bytes > 0 {
		p.DRAMBytes, p.DRAMPerSecond = c.dram.Bytes, c.dram.BytesPerSecond
	}
	return p
}

// infeasiblePlan is a layout that holds the SLO at no size.
type infeasiblePlan struct {
	Strategy capacity.Strategy `json:"strategy"`
	Layout   string            `json:"layout"`
	GPU      string            `json:"gpu"` // of its first pool

	FromDataSheet bool `json:"from_data_sheet,omitzero"` // its step times
	capacity.Infeasible
}

// sizedPlan is one candidate's.
type sizedPlan struct {
	capacity.Plan
	Rough  bool     `json:"rough"`  // sized by short trials, to an engine or so
	Source string   `json:"source"` // of step times
	Prices []string `json:"prices"` // where they are from
	// Others are prices of its GPUs that it is not ranked by.
	Others []prices.Price `json:"other_prices,omitempty"`

	Chunk *planChunk `json:"chunk,omitempty"` // nil: it was not searched
	// RPS is the highest rate that it holds, in requests/s; 0 = it was sized for one.
	RPS float64 `json:"highest_rps,omitzero"`
	// TraceScale is how many times as fast as recorded a trace is at that rate.
	TraceScale float64    `json:"trace_scale,omitzero"`
	RateRange  *rateRange `json:"highest_rps_range,omitempty"` // nil: the step times' error is not known

	candidate candidate
	sized     capacity.Sized
	dearer    bool // than the cheapest, or of no higher rate than the best, by long trials
}

// ranked is what it costs an hour for comparing it, spares included: capacity.Layout.Ranked.
func (p sizedPlan) ranked() capacity.USD {
	if p.Infeasible != nil {
		return 0
	}
	var gpus []float64
	for _, pool := range p.Pools {
		gpus = append(gpus, float64(pool.GPUs))
	}
	_, usd := p.candidate.layout.Ranked().Billed(gpus)
	return usd
}

func (o capacityOptions) planSized(c *cli.Context) error {
	var finished func()
	o.progress, finished = progressLine(c)
	out, err := o.find()
	if err == nil && feasible(out.Plans) { // else the report says why
		err = writePicture(o.plot, func() (*plots.Picture, error) { return o.picture(out.Plans[0]) })
	}
	finished()
	if err != nil {
		return err
	}
	print := showPlans
	if o.emitAs != "" {
		print = o.emit
	}
	if err := print(c, out); err != nil {
		return err
	}
	if !feasible(out.Plans) {
		return &infeasibleError{"no fleet holds the SLO"}
	}
	return nil
}

// feasible reports whether the first plan holds the SLO, so that there is an answer.
func feasible(plans []sizedPlan) bool { return len(plans) > 0 && plans[0].Infeasible == nil }

// find sizes the fleet, or looks for the highest rate of the one that there is.
func (o capacityOptions) find() (sizedPlans, error) {
	if o.gpuCount > 0 {
		return o.highest()
	}
	return o.size()
}

// newPlans are plans with their inputs.
func (o capacityOptions) newPlans(plans ...sizedPlan) sizedPlans {
	out := sizedPlans{Plans: plans, Trace: o.trace, GPUCount: o.gpuCount, Workload: o.workload, SLO: o.slo, Inputs: planInputs{MaxNumSeqs: o.fleet.Limits.MaxNumSeqs, MaxNumBatchedTokens: o.fleet.Limits.MaxNumBatchedTokens, MemoryFraction: o.fleet.MemoryFraction, Fit: o.fleet.Fit, Catalog: o.fleet.Catalog, Profile: o.fleet.Profile, Seed: o.seed, ReplicaAvailability: o.failures.ReplicaAvailability, DomainGPUs: o.failures.DomainGPUs, Caches: o.caches.recorded()}}
	if o.fleet.Profile == "" {
		out.Inputs.Model, out.Inputs.Weights, out.Inputs.KV, out.Inputs.PerNode = o.fleet.Model, o.fleet.Weights, o.fleet.KV, o.fleet.PerNode
	}
	return out
}

func (o capacityOptions) size() (sizedPlans, error) {
	out := o.newPlans()
	out.gpus = o.gpus
	z, err := o.chosen()
	if err != nil {
		return out, err
	}
	if err := errors.Join(z.addRange(), z.addDefault(), z.addNear()); err != nil {
		return out, err
	}
	out.Traffic, out.Plans, out.LeftOut = z.traffic.Words, z.plans, z.leftOut
	out.WhatIf, err = z.whatIfs()
	for _, w := range out.WhatIf {
		if w.Risk != nil && w.this && w.Risk.Missed > o.slo.Allowed() {
			out.Plans[0].Warnings = append(out.Plans[0].Warnings, profile.Warnf("interruptions",
				"with interruptions of its spot engines, %.2g %% of requests miss the SLO, so the plan does not hold", 100*w.Risk.Missed))
		}
	}
	return out, err
}

func (d demand) traffic() (capacity.Traffic, error) {
	if d.arrivals != nil {
		t, err := capacity.RecordedTraffic(d.arrivals, d.stats)
		if err != nil {
			return t, field.Errorf("--trace: %v", err)
		}
		return t, nil
	}
	t, err := d.workload.PeakTraffic()
	if err != nil {
		return t, field.Errorf("%v", err)
	}
	return t, nil
}

// hourly is ", $6.88 an hour"; empty for GPUs that are owned, or have no price.
func hourly(usd capacity.USD) string {
	if !(usd > 0) {
		return ""
	}
	return ", $" + amount(usd) + " an hour"
}

// perUnit is dollars per unit of work.
func perUnit(usd capacity.USD) string {
	if !usd.Known() {
		return amount(usd)
	}
	return fmt.Sprintf("%.4f", usd)
}

// amount is dollars with as many digits as they deserve.
func amount[T ~float64](of T) string {
	usd := float64(of)
	switch {
	case math.IsNaN(usd):
		return "no price"
	case usd < 100:
		return strconv.FormatFloat(usd, 'f', 2, 64)
	}
	return thousands(usd)
}
