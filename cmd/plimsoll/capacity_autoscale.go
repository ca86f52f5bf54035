package main

import (
	"cmp"
	"fmt"
	"iter"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/urfave/cli/v2"

	"plimsoll/capacity"
	"plimsoll/capacity/autoscale"
	"plimsoll/engine"
	"plimsoll/engine/field"
	"plimsoll/engine/sim/build"
	"plimsoll/engine/sim/fleet"
	"plimsoll/planner/policy"
	"plimsoll/profile"
	"plimsoll/profile/trace"
)

func capacityAutoscaleCommand() *cli.Command {
	flags := slices.Concat(dayFlags(), latencyFlags(), moneyFlags(), engineFlags(), stringFlags("autoscaling", [][3]string{
		{"start-up", "15s,5m", "`times` from the decision to start an engine until it serves, to compare"},
		{"min-gpus", "", "fewest `GPUs`, of all pools together (default: one engine in each)"},
		{"max-gpus", "", "most `GPUs`, of all pools together (default: those of the static fleet)"},
		{"plot", "", "picture of the day into `FILE`, .png or .svg"},
	}))
	return &cli.Command{
		Name: "autoscale", Usage: "GPU-hours, money and attainment of a static peak against an autoscaled fleet",
		Description: "Sizes a fleet for the peak as capacity plan does, then simulates it through a day (--pattern, from midnight)\n" +
			"or through a trace: once as it is, and once for each start-up time under a simple rule. Every two minutes at\n" +
			"most it takes 4 GPUs more if utilisation > 0.85, misses > 1 % or queue > 100 (8 above 5 % misses), and 4 fewer if\n" +
			"utilisation < 0.40, no misses and queue < 10; in whole engines, each pool by itself. Rates per second, lengths in\n" +
			"tokens, latencies in ms, money in USD.\n\n" +
			"   plimsoll capacity autoscale --model llama-3.1-8b --gpu h100-sxm --peak-qps 50 --avg-isl 3000 --avg-osl 150 --ttft-p99 1000 --itl-p99 50 --plot day.png",
		Flags: flags, Action: autoscaleCapacity,
	}
}

// engineFlags are those of capacity plan that say which engines to size.
func engineFlags() []cli.Flag {
	return slices.DeleteFunc(planFlags(), func(f cli.Flag) bool {
		return slices.Contains([]string{"method", "throughput", "utilization-target", "emit", "plot", "report", "mixed-gpus", "gpu-count"}, f.Names()[0])
	})
}

// parseEngines reads what engineFlags say.
func parseEngines(p *parser, o *capacityOptions) {
	o.fleet = build.Options{
		Profile: p.name("profile"), Model: p.name("model"), Catalog: p.name("catalog"), Fit: p.name("fit"),
		Weights: p.weights(), KV: p.kvDType(),
		Limits: engine.Limits{
			MaxNumSeqs: p.integer("max-num-seqs", 1, 1_000_000, 0), MaxNumBatchedTokens: p.integer("max-num-batched-tokens", 1, maxTokens, 0),
			MaxModelLen: p.integer("max-model-len", 2, maxTokens, 0),
		},
	}
	o.gpus = parseGPUs(p, o.fleet)
	o.asked, o.maxEngine = p.layouts(), p.integer("max-gpus-per-engine", 1, maxGPUs, 16)
	p.needs(o.asked == nil, "without --tp and --parallelism, which say it", "max-gpus-per-engine")
	o.strategy = capacity.Strategy(p.choice("strategy", "disaggregated", "aggregated", "auto", "colocated"))
	if o.strategy == "colocated" {
		o.strategy = capacity.Aggregated
	}
	o.seed = uint64(p.integer("seed", 0, 1<<53, 1)) //nolint:gosec // not negative
	p.needs(o.fleet.Profile == "", "without --profile, which says it", "model", "gpu", "tp", "parallelism", "max-gpus-per-engine", "weights", "kv-dtype", "fit")
}

// autoscaleOptions are what the flags ask for.
type autoscaleOptions struct {
	capacityOptions
	startUps    []time.Duration
	least, most int // GPUs; 0 = the defaults
	plot        string
	cells       int // equal parts of the traffic, of which one is simulated
}

// ruleEvery is how often the rule looks.
const ruleEvery = 30 * time.Second

// mostDayRequests bounds what one run simulates: some seconds of it.
const mostDayRequests = 2_500_000

func parseAutoscale(p *parser) autoscaleOptions {
	o := autoscaleOptions{capacityOptions: capacityOptions{demand: parseDemand(p), money: parseMoney(p)}, cells: 1}
	parseEngines(p, &o.capacityOptions)
	o.caches = o.shared()
	o.startUps = p.durations("start-up", maxStartUp)
	o.least, o.most = p.integer("min-gpus", 1, maxPoolGPUs, 0), p.integer("max-gpus", 1, maxPoolGPUs, 0)
	if o.least > 0 && o.most > 0 && o.least > o.most {
		p.fail(field.Errorf("--min-gpus %d is above --max-gpus %d", o.least, o.most))
	}
	o.plot = p.writable("plot")
	if p.err == nil && o.arrivals == nil {
		day := o.workload.AverageQPS() * 86400
		o.cells = max(1, int(math.Ceil(day/mostDayRequests)))
		o.workload.PeakQPS /= float64(o.cells)
	}
	return o
}

// maxPoolGPUs and maxStartUp bound what is asked for; more is a mistake in units.
const (
	maxPoolGPUs = 1_000_000
	maxStartUp  = 24 * time.Hour
)

// dayFlags are a workload's, with a day that has something to scale by default.
func dayFlags() []cli.Flag {
	flags := workloadFlags()
	for _, f := range flags {
		if s, _ := f.(*cli.StringFlag); s.Name == "pattern" {
			s.Value = string(trace.BusinessHours)
		}
	}
	return flags
}

// durations reads times with commas between, 0 included.
func (p *parser) durations(name string, most time.Duration) []time.Duration {
	var out []time.Duration
	for s := range strings.SplitSeq(p.c.String(name), ",") {
		d, err := parseTime(s, time.Millisecond)
		if err != nil || d < 0 || d > most {
			p.fail(field.Errorf("--%s %q: want times from 0s to %v, such as 15s,2m, or milliseconds", name, s, most))
			return nil
		}
		out = append(out, d)
	}
	if len(out) > mostStartUps {
		p.fail(field.Errorf("--%s names %d times: want at most %d", name, len(out), mostStartUps))
	}
	return out
}

// mostStartUps have room in a picture beside the static fleet.
const mostStartUps = 3

func autoscaleCapacity(c *cli.Context) error {
	p := &parser{c: c}
	o := parseAutoscale(p)
	if p.err != nil {
		return p.err
	}
	var finished func()
	o.progress, finished = progressLine(c)
	cand, sized, err := o.cheapest()
	finished()
	if err != nil {
		return err
	}
	if sized.Infeasible != nil {
		fmt.Fprintf(c.App.Writer, "no static fleet holds the SLO: %s: %s\n", cand.name(), sized.Infeasible.Why) //nolint:errcheck // the exit code says it
		return &infeasibleError{"no fleet holds the SLO"}
	}
	seen, simulated := simulationProgress(c)
	d, err := o.day(cand, sized, seen)
	simulated()
	if err != nil {
		return err
	}
	if o.plot != "" {
		if err := d.draw(o.plot); err != nil {
			return err
		}
	}
	return d.show(c)
}

// cheapest is the layout that holds the SLO at the peak for the least money, at
// its size; where none does, an infeasible one.
func (o capacityOptions) cheapest() (candidate, capacity.Sized, error) {
	cs, _, err := o.candidates()
	if err != nil {
		return candidate{}, capacity.Sized{}, err
	}
	traffic, err := o.traffic()
	if err != nil {
		return candidate{}, capacity.Sized{}, err
	}
	all := make([]capacity.Variants, len(cs))
	for i, cand := range cs {
		all[i] = cand.variants()
	}
	options := o.sizeOptions(cs[0], capacity.SizeOptions{AtOnce: atOnce, Begin: o.sizing})
	at, sized, err := capacity.Cheapest(all, traffic, o.slo, options)
	if err != nil {
		return candidate{}, capacity.Sized{}, err
	}
	return cs[at].chosen(sized[at]), sized[at], nil
}

// day runs the static fleet, whose progress is seen, and the autoscaled one with
// each start-up time.
func (o autoscaleOptions) day(cand candidate, sized capacity.Sized, seen func(requests int, at time.Duration)) (autoscaledDay, error) {
	d := autoscaledDay{options: o, candidate: cand, replicas: sized.Replicas, provenance: profile.Weakest(cand.provenance, profile.Simulated)}
	base, err := o.run(cand.layout, sized)
	if err != nil {
		return d, err
	}
	d.rules = base.Rules
	runs := []autoscale.Options{base}
	runs[0].Rules = nil
	for _, startUp := range o.startUps {
		r := base
		r.Fleet.Pools = slices.Clone(base.Fleet.Pools)
		for i := range r.Fleet.Pools {
			r.Fleet.Pools[i].StartUp = engine.FromDuration(startUp)
		}
		runs = append(runs, r)
	}
	results, errs := make([]autoscale.Result, len(runs)), make([]error, len(runs))
	var wg sync.WaitGroup
	for i, r := range runs {
		wg.Go(func() {
			requests, err := o.requests(cand.layout)
			if i == 0 {
				requests = counted(requests, seen)
			}
			if err == nil {
				results[i], err = autoscale.Run(requests, r)
			}
			errs[i] = err
		})
	}
	wg.Wait()
	if i := slices.IndexFunc(errs, func(err error) bool { return err != nil }); i >= 0 {
		return d, errs[i]
	}
	d.static, d.autoscaled = results[0], results[1:]
	return d, nil
}

// counted tells of every thousandth request as it goes by.
func counted(requests iter.Seq[fleet.Request], seen func(requests int, at time.Duration)) iter.Seq[fleet.Request] {
	return func(yield func(fleet.Request) bool) {
		n := 0
		for r := range requests {
			if n++; n%1000 == 0 {
				seen(n, r.At.Duration())
			}
			if !yield(r) {
				return
			}
		}
	}
}

func (o autoscaleOptions) requests(l capacity.Layout) (iter.Seq[fleet.Request], error) {
	if o.arrivals != nil {
		return autoscale.Requests(trace.Of(o.arrivals...), l.PrefixBlock()), nil
	}
	return autoscale.Day(o.workload, o.seed, l.PrefixBlock())
}

// run is the static fleet with the rules that may scale it.
func (o autoscaleOptions) run(l capacity.Layout, sized capacity.Sized) (autoscale.Options, error) {
	r := autoscale.Options{SLO: o.slo, Every: ruleEvery, For: 24 * time.Hour, Fleet: fleet.Config{Transfer: l.Transfer}}
	if o.arrivals != nil {
		r.For = o.stats.Duration.Truncate(ruleEvery) + ruleEvery
	}
	for i, p := range l.Pools {
		pool := p.Pool
		pool.Replicas, pool.Engine.Seed = sized.Replicas[i], o.seed
		r.Fleet.Pools = append(r.Fleet.Pools, pool)
		full := 0.0
		if pool.Engine.Role != engine.RolePrefill {
			full = sized.At.Pools[i].Running / float64(sized.At.Replicas[i])
		}
		r.Full = append(r.Full, full)
		part := float64(sized.Replicas[i]*pool.GPUs) / float64(sized.GPUs) / float64(o.cells) // of a bound on all GPUs
		rule := policy.DefaultSimple(pool.GPUs, max(pool.GPUs, whole(part*float64(o.least))), whole(part*float64(cmp.Or(o.most, o.cells*sized.GPUs))))
		if err := rule.Check(); err != nil {
			return r, field.Errorf("--min-gpus and --max-gpus leave the %s pool %d to %d GPUs: %v", pool.Engine.Role, o.cells*rule.MinGPUs, o.cells*rule.MaxGPUs, err).
				Hint("the bounds are shared as the static fleet's %d GPUs are, in whole engines", o.cells*sized.GPUs)
		}
		r.Rules = append(r.Rules, rule)
	}
	return r, nil
}

// whole is the GPUs of a part, a rounding error forgiven.
func whole(gpus float64) int { return int(gpus + 1e-6) }
