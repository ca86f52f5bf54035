package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"plimsoll/engine"
	"plimsoll/profile"
)

func plannerReplayCommand() *cli.Command {
	return &cli.Command{
		Name: "replay", Usage: "show beforehand, on a trace, what planner serve would do, beside other rules",
		Description: "The planner of planner serve, with the same flags and the same --config, scales a simulated fleet through the\n" +
			"requests of a trace (--trace) or of a generator (--rate …) in virtual time: replicas start in --replica-startup\n" +
			"and drain, metrics are looked at as serve does. Every policy gets the same requests. One table says which share\n" +
			"of them met TTFT and ITL, each request by itself, and what that took in GPU-hours, from the decision to start a\n" +
			"replica until its process is gone. Rates are per second, latencies in ms, lengths in tokens.\n\n" +
			"   plimsoll planner replay --model llama-3.1-8b --gpu h100-sxm --trace azure.csv --ttft 500 --itl 20\n" +
			"   plimsoll planner replay --trace azure.csv --to-rate 60 --profile profiling_results --policy default,upstream,hpa,static-peak --max-gpu-budget 64 --output-dir replay\n" +
			"   plimsoll planner replay --config planner.yaml --arrival daily --rate 20 --isl 2000 --osl 200 --duration 24h --policy all --seeds 5\n\n" +
			"The engines are a profile's (--profile), or the latency model's (--model, --gpu). Without --tp their layout is\n" +
			"that of capacity plan's first row for the load, and without --mode so is their mode. Nothing bounds the fleet unless --max-gpu-budget does. Traces may\n" +
			"be of any format that engine simulate reads. Flags and keys of planner serve that say where replicas and metrics\n" +
			"are, and how it serves, are read and have no effect; this help leaves them out.\n\n" +
			"Policies:\n\n   " + strings.Join(ruleLines(), "\n   "),
		Flags:  append(replayFlags(), detailsFlag()),
		Action: replayPlanner,
	}
}

func replayPlanner(c *cli.Context) error {
	one, err := oneDeployment(c)
	if err != nil {
		return err
	}
	arguments, _ := c.App.Metadata[argumentsKey].([]string)
	o, err := parseReplay(&parser{c: one}, arguments)
	if err != nil {
		return err
	}
	if _, err := o.checkDir(); err != nil {
		return err
	}
	say, done := progressLine(c)
	say("reading the load")
	all, err := newComparison(o, say)
	if err == nil {
		err = o.takeDir()
	}
	if err == nil {
		err = all.run(say)
	}
	done()
	if err != nil {
		return err
	}
	return all.show(c)
}

// show prints the comparison, and writes it where that was asked for.
func (c comparison) show(ctx *cli.Context) error {
	file := c.file()
	err := showCard(ctx, file, func() card { return file.card(c.options) }, func() string { return c.detailed(file) })
	if err != nil {
		return err
	}
	if c.options.dir == "" {
		return nil
	}
	if err := c.write(file); err != nil {
		return err
	}
	return sayWritten(ctx, fmt.Sprintf("%s: %s and %s", c.options.dir, replayFileName, reportFileName))
}

// sayWritten says what was written, below a result that people read.
func sayWritten(c *cli.Context, what string) error {
	if c.String("format") == "json" {
		return nil
	}
	if _, err := fmt.Fprintf(c.App.Writer, "Written to %s\n", what); err != nil {
		return fmt.Errorf("printing what was written: %w", err)
	}
	return nil
}

// caveats are what a reader has to know before the figures.
func (c *comparison) caveats() {
	o := c.options
	c.warnings = profile.ImplausibleFirst(slices.Concat(c.warnings, c.fleet.Warnings, c.facts.warnings, c.fleet.OfFit(int(c.facts.stats.ISL.Mean), int(c.facts.stats.OSL.Mean))))
	warn := func(code, format string, args ...any) {
		c.warnings = append(c.warnings, profile.Warnf(code, format, args...))
	}
	if o.deployment().SLA.Stat.Quantile() == 0 {
		warn("sla_by_mean", "policies plan for mean TTFT and ITL, but attainment counts each request. Use --sla-stat p99 to plan for nearly all of them")
	}
	for _, x := range c.outcomes {
		s := x.policy.settings
		if n := int(c.length() / s.pulse); n < leastDecisions && !strings.HasPrefix(x.policy.name, "static") {
			warn("few_decisions", "%s decides only %s in %s (every %s), too few to judge it. Use a longer load", x.policy.name, engine.Count(n, "time"), short(c.length()), short(s.pulse))
		}
		if ahead := s.careful.Ahead; x.policy.policy == "default" && o.slowestStart() > ahead {
			warn("startup_underestimated", "replicas start in %s, but the default policy assumes %s. Set --startup-time", short(o.slowestStart()), short(ahead))
		}
	}
}

// leastDecisions are enough to see a policy at work.
const leastDecisions = 10

// notModelled is what a replay leaves out.
func notModelled() []string {
	return []string{
		"GPUs that are unavailable when a replica is requested", "slow replicas after their start",
		"clients that retry or give up", "a frontend of limited speed", "two Prometheus samples that are needed for a rate",
		"the age of samples between scrapes, but for --metric-delay", "a scheduler that holds requests back, whose queue llm-d's rules look at: they wait at engines",
		"a choice between kinds of GPU", "Dynamo's planner of 2026-03 on, by load every 5 s",
	}
}
