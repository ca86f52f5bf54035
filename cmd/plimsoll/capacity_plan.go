package main

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"github.com/urfave/cli/v2"

	"plimsoll/capacity"
	"plimsoll/engine"
	"plimsoll/profile"
)

func planFlags() []cli.Flag {
	return stringFlags("engines", [][3]string{
		{"model", simModel, "model, a catalog `name` or a config.json"},
		{"gpu", simGPU, "GPUs to compare, catalog `names` with commas between"},
		{"tp", "", "tensor-parallel sizes to compare, `N,N` (default: of 1, 2, 4 and 8 those that hold the model)"},
		{"weights", "bf16", "storage of the weights, `bf16|fp8|fp4`"},
		{"fit", "", fitUsage},
		{"catalog", "", catalogUsage},
		{"profile", "", "step times from the profile in `DIR`, the best source there is"},
		{"strategy", "auto", "`disaggregated|aggregated|auto`: prefill on engines of its own or not (colocated = aggregated)"},
		{"method", "sized", "`sized|formula`"},
		{"throughput", "model", "formula: `model|published`, where throughput comes from"},
		{"utilization-target", "0.70", "formula: `share` of throughput to plan with"},
		{"seed", "1", "sized: seed of arrivals and lengths, `N`"},
		{"emit", "", "sized: YAML of the cheapest plan instead, `kubernetes|planner`: replica counts, or the planner's configuration"},
		{"plot", "", "sized: pictures of the cheapest plan; plan.png makes plan-slo.png, plan-qps.png and plan-day.png, `FILE` (.png or .svg)"},
	})
}

// capacityOptions are a plan as the flags ask for it.
type capacityOptions struct {
	demand
	money       money
	fleet       fleetPlan // model, fit, weights, catalog, profile
	gpus        []string
	tps         []int
	strategy    capacity.Strategy
	method      string
	published   bool
	utilization float64
	seed        uint64
	emitAs      string // kubernetes or planner; "" = the plan itself
	plot        string // file that names the pictures; "" = none
}

func parseCapacity(p *parser) capacityOptions {
	o := capacityOptions{demand: parseDemand(p), money: parseMoney(p)}
	parseEngines(p, &o)
	o.method = p.choice("method", "sized", "formula")
	o.published = p.choice("throughput", "model", "published") == "published"
	o.utilization = p.number("utilization-target", 0.01, 1)
	p.needs(o.method == "formula", "with --method formula", "throughput", "utilization-target")
	p.needs(o.method == "sized", "with --method sized", "seed", "emit", "plot")
	o.emitAs, o.plot = emitted(p), p.picture("plot")
	return o
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
	Inputs   planInputs        `json:"inputs"`
	Plans    []sizedPlan       `json:"plans"`
	LeftOut  []profile.Skip    `json:"left_out"`
}

// planInputs are what the engines of a plan were made from, so that a review can
// size them again.
type planInputs struct {
	Model   string       `json:"model,omitempty"`
	Weights engine.DType `json:"weights,omitempty"`
	Fit     string       `json:"fit,omitempty"`
	Catalog string       `json:"catalog,omitempty"`
	Profile string       `json:"profile,omitempty"`
	Seed    uint64       `json:"seed"`

	ReplicaAvailability float64 `json:"replica_availability,omitempty"`
	DomainGPUs          int     `json:"failure_domain,omitempty"`
}

// sizedPlan is one candidate's.
type sizedPlan struct {
	capacity.Plan
	Source string   `json:"source"` // of step times
	Prices []string `json:"prices"` // where they are from
}

func (o capacityOptions) planSized(c *cli.Context) error {
	out, err := o.size()
	if err != nil {
		return err
	}
	if o.plot != "" {
		if err := o.drawPlan(o.plot, out); err != nil {
			return err
		}
	}
	print := showPlans
	if o.emitAs != "" {
		print = o.emit
	}
	if err := print(c, out); err != nil {
		return err
	}
	if len(out.Plans) == 0 || out.Plans[0].Infeasible != nil {
		return &infeasibleError{"no fleet holds the SLO"}
	}
	return nil
}

func (o capacityOptions) size() (sizedPlans, error) {
	out := sizedPlans{Workload: o.workload, SLO: o.slo, Inputs: planInputs{Fit: o.fleet.fit, Catalog: o.fleet.catalog, Profile: o.fleet.profile, Seed: o.seed, ReplicaAvailability: o.failures.ReplicaAvailability, DomainGPUs: o.failures.DomainGPUs}}
	if o.fleet.profile == "" {
		out.Inputs.Model, out.Inputs.Weights = o.fleet.model, o.fleet.weights
	}
	cs, skips, err := o.candidates()
	if err != nil {
		return out, err
	}
	traffic, err := o.traffic()
	if err != nil {
		return out, err
	}
	out.Traffic, out.LeftOut = traffic.Words, skips
	byFloor(cs, traffic, o.slo)
	cheapest := 0.0
	for _, cand := range cs {
		if floor := cand.layout.FloorUSD(traffic, o.slo); cheapest > 0 && floor >= cheapest {
			out.LeftOut = append(out.LeftOut, profile.Skip{Label: cand.name(), Reason: fmt.Sprintf("costs at least $%s/h whatever its latencies", amount(floor))})
			continue
		}
		p, err := o.sizeOne(cand, traffic)
		if err != nil {
			return out, err
		}
		if p.Infeasible == nil && (cheapest == 0 || p.HourlyUSD < cheapest) {
			cheapest = p.HourlyUSD
		}
		out.Plans = append(out.Plans, p)
	}
	slices.SortStableFunc(out.Plans, func(a, b sizedPlan) int {
		if (a.Infeasible == nil) != (b.Infeasible == nil) {
			if a.Infeasible == nil {
				return -1
			}
			return 1
		}
		return cmp.Or(cmp.Compare(a.HourlyUSD, b.HourlyUSD), cmp.Compare(a.TotalGPUsFinal, b.TotalGPUsFinal))
	})
	return out, o.addRange(&out, cs, traffic)
}

// name is the layout's, on its GPU.
func (c candidate) name() string { return c.layout.Name() + " on " + c.layout.Pools[0].GPU }

func (o capacityOptions) traffic() (capacity.Traffic, error) {
	if o.arrivals != nil {
		t, err := capacity.RecordedTraffic(o.arrivals, o.stats)
		if err != nil {
			return t, usagef("--trace: %v", err)
		}
		return t, nil
	}
	t, err := o.workload.PeakTraffic()
	if err != nil {
		return t, usagef("%v", flagged(err))
	}
	return t, nil
}

func (o capacityOptions) sizeOne(cand candidate, t capacity.Traffic) (sizedPlan, error) {
	s, err := capacity.Size(cand.layout, t, o.slo, capacity.SizeOptions{Seed: o.seed})
	if err != nil {
		return sizedPlan{}, fmt.Errorf("sizing %s: %w", cand.name(), err)
	}
	p, err := capacity.NewPlan(s, o.workload, o.slo, o.failures, cand.provenance)
	if err != nil {
		return sizedPlan{}, usagef("%v", flagged(err)).hint("--availability takes --replica-availability too: what share of the time one engine is up")
	}
	return sizedPlan{p, cand.source, cand.prices}, nil
}

// addRange gives the cheapest plan the GPUs that it would take if steps were as
// much faster or slower as nine of ten comparisons allow.
func (o capacityOptions) addRange(out *sizedPlans, cs []candidate, t capacity.Traffic) error {
	if len(out.Plans) == 0 || out.Plans[0].Infeasible != nil {
		return nil
	}
	best := &out.Plans[0]
	i := slices.IndexFunc(cs, func(c candidate) bool {
		return c.layout.Name() == best.Layout && c.layout.Pools[0].GPU == best.Pools[0].GPU
	})
	if cs[i].factor <= 1 {
		return nil
	}
	best.Range = capacity.Range{Factor: cs[i].factor}
	for by, into := range map[float64]*int{1 / cs[i].factor: &best.Range.Low, cs[i].factor: &best.Range.High} {
		l, err := cs[i].slower(by)
		if err != nil {
			return err
		}
		other := cs[i]
		other.layout = l
		p, err := o.sizeOne(other, t)
		if err != nil {
			return err
		}
		*into = p.TotalGPUsFinal // 0 where it is infeasible
	}
	return nil
}

// amount is dollars with as many digits as they deserve.
func amount(usd float64) string {
	if usd < 100 {
		return strconv.FormatFloat(usd, 'f', 2, 64)
	}
	s := strconv.FormatFloat(usd, 'f', 0, 64)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
