package main

import (
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"plimsoll/capacity"
	"plimsoll/engine/field"
	"plimsoll/profile/trace"
)

func capacityAutoscaleCommand() *cli.Command {
	flags := slices.Concat(dayFlags(), latencyFlags(), moneyFlags(), engineFlags(), stringFlags("autoscaling", [][3]string{
		{"start-up", "15s,5m", "`times` from the decision to start an engine until it serves, to compare"},
		{"min-gpus", "", "fewest `GPUs`, of all pools together (default: one engine in each)"},
		{"max-gpus", "", "most `GPUs`, of all pools together (default: those of the static fleet)"},
		{"plot", "", "picture of the day into `FILE`, .png or .svg"},
	}), []cli.Flag{detailsFlag()})
	return &cli.Command{
		Name: "autoscale", Usage: "GPU-hours, money and attainment of a static peak against an autoscaled fleet",
		Description: "Takes the first row of capacity plan, sized for the peak, and replays a day (--pattern, from midnight) or a\n" +
			"trace on it, as planner replay does: as it is (static-peak), and for each start-up time under Kubernetes'\n" +
			"autoscaler (hpa:sla) and by the thresholds of an article (article). GPU-hours are from the decision to start an engine until it is gone. Rates per second, lengths in\n" +
			"tokens, latencies in ms, money in USD. planner replay compares more policies.\n\n" +
			"   plimsoll capacity autoscale --model llama-3.1-8b --gpu h100-sxm --rate 50 --isl 3000 --osl 150 --ttft-p99 1000 --itl-p99 50 --plot day.png",
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
	o.fleet = p.engines()
	o.gpus = parseGPUs(p, o.fleet)
	o.asked, o.maxEngine = p.layouts(), p.integer("max-gpus-per-engine", 1, maxGPUs, mostEngineGPUs)
	p.needs(o.asked == nil, "without --tp and --parallelism, which say it", "max-gpus-per-engine")
	o.strategy = capacity.Strategy(p.choice("strategy", "disaggregated", "aggregated", "auto", "colocated"))
	if o.strategy == "colocated" {
		o.strategy = capacity.Aggregated
	}
	o.seed = uint64(p.integer("seed", 0, 1<<53, 1)) //nolint:gosec // not negative
	p.needs(o.fleet.Profile == "", "without --profile, which says it", "model", "gpu", "gpus-per-node", "tp", "parallelism", "max-gpus-per-engine", "weights", "kv-dtype", "memory-fraction", "fit")
}

// autoscaleOptions are what the flags ask for.
type autoscaleOptions struct {
	capacityOptions
	startUps    []time.Duration
	least, most int // GPUs; 0 = the defaults
	plot        string
}

func parseAutoscale(p *parser) autoscaleOptions {
	o := autoscaleOptions{capacityOptions: capacityOptions{demand: parseDemand(p), money: parseMoney(p)}}
	parseEngines(p, &o.capacityOptions)
	o.caches = o.shared()
	o.startUps = p.durations("start-up", maxStartUp)
	o.least, o.most = p.integer("min-gpus", 1, maxPoolGPUs, 0), p.integer("max-gpus", 1, maxPoolGPUs, 0)
	if o.least > 0 && o.most > 0 && o.least > o.most {
		p.fail(field.Errorf("--min-gpus %d is above --max-gpus %d", o.least, o.most))
	}
	o.plot = p.writable("plot")
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
		if s, ok := f.(*cli.StringFlag); ok && s.Name == "pattern" {
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
	say, finished := progressLine(c)
	o.progress = say
	d, err := o.compare(say)
	finished()
	if err != nil {
		return err
	}
	if d.plan.Infeasible != nil {
		if err := showPlans(c, o.newPlans(d.plan)); err != nil {
			return err
		}
		return &infeasibleError{"no fleet holds the SLO"}
	}
	if err := writePicture(o.plot, d.picture); err != nil {
		return err
	}
	return showCard(c, d.file(), d.card, func() string { return d.plan.restsOn(o.demand) })
}
