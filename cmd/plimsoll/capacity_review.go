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
	"plimsoll/capacity/autoscale"
	"plimsoll/engine"
	"plimsoll/engine/field"
	"plimsoll/engine/sim/fleet"
	"plimsoll/profile"
	"plimsoll/profile/trace"
)

func capacityReviewCommand() *cli.Command {
	return &cli.Command{
		Name: "review", Usage: "measured traffic against a plan, and what to change", ArgsUsage: "PLAN.json",
		Description: "PLAN.json is what capacity plan --format json printed. Its fleet is simulated under the trace and sized again for\n" +
			"it, on the same engines at the same prices. Rates per second, lengths in tokens, latencies in ms.\n\n" +
			"With --prometheus the traffic is what a Prometheus server saw: its busiest window, mean and p99 lengths,\n" +
			"taken as log-normal. The latencies that it saw stand beside those that the fleet has in simulation.\n\n" +
			"   plimsoll capacity plan --workload chatbot.yaml --format json > plan.json\n" +
			"   plimsoll capacity review --trace azure.csv plan.json\n" +
			"   plimsoll capacity review --prometheus http://prometheus:9090 --since 24h --served-model-name llama plan.json",
		Flags: append(stringFlags("", [][3]string{
			{"trace", "", "arrivals and lengths that came, from `FILE`, gzip or not"},
			{"trace-format", "auto", "`auto|azure|mooncake|request-trace|servegen|csv`"},
		}), prometheusFlags()...),
		Action: reviewPlan,
	}
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
	want := map[capacity.Strategy]int{capacity.Aggregated: 1, capacity.Disaggregated: 2}[p.Strategy]
	if want == 0 || len(p.Pools) != want {
		errs = append(errs, fmt.Errorf("a plan of %d pools, %q: want one aggregated or two disaggregated", len(p.Pools), p.Strategy))
	}
	if p.TotalGPUsFinal < 1 || p.HourlyUSD < 0 || p.HourlyUSD > 1e12 {
		errs = append(errs, fmt.Errorf("total_gpus_final %d and hourly_cost_usd %v: want 1 GPU at least, and a price", p.TotalGPUsFinal, p.HourlyUSD))
	}
	if c := p.Chunk; c != nil && (c.Tokens < 64 || c.Tokens > maxTokens) {
		errs = append(errs, fmt.Errorf("chunk.max_num_batched_tokens is %d: want 64 to %d", c.Tokens, int(maxTokens)))
	}
	for _, pool := range p.Pools {
		if pool.USDPerGPUHour < 0 || pool.USDPerGPUHour > 1e6 || pool.InstanceGPUs < 0 || pool.InstanceGPUs > maxGPUs {
			errs = append(errs, fmt.Errorf("GPUs at $%v in instances of %d in the %s pool: want a price, and 0 to %d", pool.USDPerGPUHour, pool.InstanceGPUs, pool.Role, maxGPUs))
		}
		if pool.Engines < 1 || pool.Engines > maxReplicas || pool.SpareEngines < 0 || pool.SpareEngines > maxReplicas {
			errs = append(errs, fmt.Errorf("%d engines and %d spare ones in the %s pool: want 1 to %d, and 0 or more", pool.Engines, pool.SpareEngines, pool.Role, maxReplicas))
		} else if n := pool.Engines + pool.SpareEngines; pool.GPUs < n || pool.GPUs%n != 0 || pool.GPUs/n > maxGPUs {
			errs = append(errs, fmt.Errorf("%d GPUs of %d engines in the %s pool: want as many for each, 1 to %d", pool.GPUs, n, pool.Role, maxGPUs))
		}
	}
	return out, errors.Join(errs...)
}

// review is a plan and the traffic that came.
type review struct {
	file  string
	plans sizedPlans
	plan  sizedPlan
	demand

	came    came
	load    []trace.Arrival  // that the planned fleet is simulated under
	seen    *seen            // by Prometheus; nil = a trace
	run     autoscale.Result // of the planned fleet, spares left out
	resized sizedPlan

	warnings []profile.Warning // of what the plan counts on and the traffic does not say
}

// came is what traffic is measured by, beside its lengths.
type came struct {
	rate        float64 // requests/s
	peaks       []peak
	busiestHour float64 // over the mean; NaN = not known
}

// peak is the highest rate in windows of one length.
type peak struct {
	window time.Duration
	rate   float64 // requests/s
}

func reviewPlan(c *cli.Context) error {
	p := &parser{c: c}
	r := review{file: c.Args().First()}
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
	p.needs(server != "", "with --prometheus", prometheusFlagNames()...)
	p.needs(file != "", "with --trace", "trace-format")
	if p.err != nil {
		return p.err
	}
	if err := r.measure(p, file); err != nil {
		return err
	}
	if err := r.size(); err != nil {
		return err
	}
	if err := r.show(c); err != nil {
		return err
	}
	if r.resized.Infeasible != nil {
		return &infeasibleError{"no number of these engines holds the SLO under this traffic"}
	}
	return nil
}

// measure reads what came: the file of a trace, or else Prometheus.
func (r *review) measure(p *parser, file string) error {
	window := cmp.Or(r.plans.Workload.PeakWindow, time.Minute)
	if file == "" {
		return r.observe(p, window)
	}
	if r.read(p, file, window); p.err != nil {
		return p.err
	}
	windows := append([]time.Duration{window}, trace.PeakWindows()...)
	windows = slices.Compact(slices.Sorted(slices.Values(windows)))
	var err error
	if r.stats, err = trace.Summarize(trace.Of(r.arrivals...), windows...); err != nil {
		return field.Errorf("--trace %s: %v", file, err)
	}
	r.load, r.came = r.arrivals, came{rate: r.stats.Rate, busiestHour: r.busiestHour()}
	for i, w := range windows {
		r.came.peaks = append(r.came.peaks, peak{w, float64(r.stats.Peaks[i].Requests) / w.Seconds()})
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
	if r.slo.ITLOf == "" { // of before the plan said so
		r.slo.ITLOf = profile.OfGap
	}
	return nil
}

// size simulates the planned fleet under the trace, and sizes its engines for it.
func (r *review) size() error {
	in := r.plans.Inputs
	r.failures = capacity.Failures{ReplicaAvailability: in.ReplicaAvailability, DomainGPUs: in.DomainGPUs}
	o := r.options()
	cs, err := r.remade(o)
	if err != nil {
		return err
	}
	cand, ok := find(cs, r.plan.Plan)
	if !ok {
		return field.Errorf("%s: its layout %q is not to be made from its inputs: %s", r.file, r.plan.Layout, cs[0].name())
	}
	r.pricedAsPlanned(&cand)
	traffic, err := o.traffic()
	if err != nil {
		return err
	}
	if r.resized, err = o.sizeOne(cand, traffic, false); err != nil {
		return err
	}
	if r.seen != nil {
		if err := r.compareLatencies(cand, o.caches, in.Seed); err != nil {
			return err
		}
	}
	r.run, err = r.simulate(cand.layout, in.Seed)
	return err
}

// simulate is the planned fleet under the traffic, without its spares.
func (r *review) simulate(l capacity.Layout, seed uint64) (autoscale.Result, error) {
	o := autoscale.Options{
		Fleet: fleet.Config{Transfer: l.Transfer}, Full: make([]float64, len(l.Pools)), SLO: r.slo,
		Every: time.Minute, For: r.load[len(r.load)-1].At.Truncate(time.Minute) + time.Minute,
	}
	for i, p := range l.Pools {
		pool := p.Pool
		pool.Replicas, pool.Engine.Seed = r.plan.Pools[i].Engines, seed
		o.Fleet.Pools = append(o.Fleet.Pools, pool)
	}
	run, err := autoscale.Run(autoscale.Requests(trace.Of(r.load...), l.PrefixBlock()), o)
	if err != nil {
		return run, fmt.Errorf("simulating the planned fleet: %w", err)
	}
	return run, nil
}

// provenance of the review's latencies.
func (r *review) provenance() profile.Provenance {
	return profile.Weakest(profile.Simulated, r.resized.Provenance)
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
