package main

import (
	"context"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"plimsoll/capacity"
	"plimsoll/capacity/prices"
	"plimsoll/profile/trace"
)

func stringFlags(category string, rows [][3]string) []cli.Flag {
	var out []cli.Flag
	for _, r := range rows {
		out = append(out, &cli.StringFlag{Name: r[0], Value: r[1], Usage: r[2], Category: category})
	}
	return out
}

func workloadFlags() []cli.Flag {
	return stringFlags("workload", [][3]string{
		{"workload", "", "YAML `FILE` whose keys are flags of this command; flags win"},
		{"peak-qps", "", "requests per second at the peak, `R`"},
		{"avg-isl", "", "prompt `tokens`, the mean"},
		{"avg-osl", "", "output `tokens`, the mean"},
		{"p99-isl", "", "99th percentile of prompts, `tokens`: lengths are log-normal (default: all have the mean)"},
		{"p99-osl", "", "99th percentile of outputs, `tokens`: likewise"},
		{"peak-to-average", "", "the peak's rate over the day's mean, `N` (default: the pattern's own)"},
		{"peak-window", "60s", "the window over which the peak is counted, `time`"},
		{"pattern", "flat", "how the rate moves over a day: `flat|business_hours|global`"},
		{"prefix-groups", "", "`N` groups of prompts that begin alike"},
		{"prefix-tokens", "1024", "`tokens` that the prompts of a group share"},
		{"prefix-share", "1", "`fraction` of prompts that are in a group"},
		{"trace", "", "arrivals and lengths from `FILE` instead, gzip or not"},
		{"trace-format", "auto", "`auto|azure|mooncake|request-trace|servegen|csv`"},
	})
}

func sloFlags() []cli.Flag {
	return stringFlags("SLO", [][3]string{
		{"ttft-p99", "", "time to first token, 99th percentile, `ms`"},
		{"itl-p99", "", "gap between two tokens, 99th percentile, `ms`"},
		{"e2e-p99", "", "end-to-end latency, 99th percentile, `ms` (default: not promised)"},
		{"availability", "", "share of the time with all engines that the load takes, `fraction` (default: no spares)"},
		{"replica-availability", "", "share of the time that one engine is up, `fraction`: spares follow by the binomial distribution"},
		{"failure-domain", "", "how many `GPUs` fail together: 8 for servers of eight (default: one engine's)"},
	})
}

func moneyFlags() []cli.Flag {
	return append(stringFlags("cost", [][3]string{
		{"cost-per-gpu-hour", "", "`USD` (default: the cheapest of the price table)"},
		{"cloud", "", "prices of this cloud only, `NAME`: AWS, GCP, Azure, …"},
		{"prices", "", "CSV `FILE` of further prices"},
	}), &cli.BoolFlag{Name: "spot", Usage: "spot prices: such GPUs are taken back at any time", Category: "cost"})
}

// demand is a workload and an SLO as the flags say them.
type demand struct {
	workload capacity.Workload
	slo      capacity.SLO
	failures capacity.Failures
	arrivals []trace.Arrival // of a trace; nil = none
	stats    trace.Stats
}

// parseDemand reads a workload and an SLO; the file of --workload first.
func parseDemand(p *parser) demand {
	if file := p.name("workload"); file != "" && p.err == nil {
		if err := applyConfig(p.c, "workload", file); err != nil {
			p.err = err
		}
	}
	var d demand
	d.slo = capacity.SLO{TTFTP99: p.required("ttft-p99"), ITLP99: p.required("itl-p99"), E2EP99: p.optionalMillis("e2e-p99")}
	if p.c.IsSet("availability") {
		d.slo.Availability = p.number("availability", 0, 1)
	}
	d.failures = parseFailures(p, d.slo.Availability)
	file := p.name("trace")
	p.needs(file == "", "without --trace, whose file has arrivals and lengths", "peak-qps", "avg-isl", "avg-osl", "p99-isl", "p99-osl", "peak-to-average", "pattern", "prefix-groups")
	p.needs(p.c.IsSet("prefix-groups"), "with --prefix-groups", "prefix-tokens", "prefix-share")
	p.needs(file != "", "with --trace", "trace-format")
	window := p.duration("peak-window")
	switch {
	case p.err != nil:
	case file != "":
		d.read(p, file, window)
	default:
		d.workload = parseWorkload(p, window)
	}
	if p.err == nil {
		if err := d.slo.Check(); err != nil {
			p.fail(usagef("%v", flagged(err)))
		}
	}
	return d
}

// parseFailures reads how engines fail. Spares by the binomial distribution need
// it; the formulas' "N+1" does not.
func parseFailures(p *parser, availability float64) capacity.Failures {
	f := capacity.Failures{DomainGPUs: p.integer("failure-domain", 1, maxGPUs, 0)}
	p.needs(p.c.IsSet("availability"), "with --availability", "replica-availability", "failure-domain")
	if p.c.IsSet("replica-availability") {
		if f.ReplicaAvailability = p.number("replica-availability", 0.5, 1); f.ReplicaAvailability > mostAvailable {
			p.fail(usagef("--replica-availability %s: no engine is always up: want 0.5 to below 1, such as 0.99", p.c.String("replica-availability")))
		}
	} else if availability > 0 && p.c.String("method") != "formula" {
		p.fail(usagef("--availability %v takes --replica-availability too: what share of the time one engine is up, such as 0.99", availability).
			hint("without both, the plan has no spares"))
	}
	return f
}

// mostAvailable is the most that capacity.Spares can tell from 1.
const mostAvailable = 1 - 1e-12

func parseWorkload(p *parser, window time.Duration) capacity.Workload {
	for _, name := range []string{"peak-qps", "avg-isl", "avg-osl"} {
		if p.name(name) == "" {
			p.fail(usagef("--%s is missing", name).hint("--trace FILE measures a workload, --workload FILE.yaml holds one"))
		}
	}
	if p.err != nil {
		return capacity.Workload{}
	}
	w := capacity.Workload{
		PeakQPS: p.number("peak-qps", 1e-6, trace.MaxRate), AvgISL: p.number("avg-isl", 1, maxTokens), AvgOSL: p.number("avg-osl", 1, maxTokens),
		PeakWindow: window, Pattern: trace.Pattern(p.choice("pattern", "flat", "business_hours", "global")),
	}
	w.PeakToAverage = peakToAverage(p, w.Pattern)
	if n := p.integer("prefix-groups", 1, trace.MaxGroups, 0); n > 0 {
		w.Prefixes = trace.Prefixes{Groups: n, Tokens: p.integer("prefix-tokens", 1, maxTokens, 0), Share: p.number("prefix-share", 0, 1)}
	}
	w.P99ISL, w.P99OSL = w.AvgISL, w.AvgOSL
	if p.name("p99-isl") != "" {
		w.P99ISL = p.number("p99-isl", 1, maxTokens)
	}
	if p.name("p99-osl") != "" {
		w.P99OSL = p.number("p99-osl", 1, maxTokens)
	}
	if err := w.Check(); err != nil && p.err == nil {
		p.fail(usagef("%v", flagged(err)))
	}
	return w
}

// peakToAverage is what is given, or that of the pattern's busiest hour.
func peakToAverage(p *parser, pattern trace.Pattern) float64 {
	if p.name("peak-to-average") != "" {
		return p.number("peak-to-average", 1, 1e6)
	}
	hours, err := pattern.Hours()
	if err != nil {
		p.fail(usagef("--pattern: %v", err))
	}
	return slices.Max(hours[:])
}

// read measures a trace. Ctrl-C ends it, even where the file is a pipe that
// nobody writes.
func (d *demand) read(p *parser, file string, window time.Duration) {
	format := trace.Format(p.choice("trace-format", formatNames()...))
	var came demand
	err := stoppable(p.c.Context, func() error { return came.readFile(p.c.Context, file, format, window) })
	if err != nil && p.err == nil {
		p.err = err
	}
	d.arrivals, d.stats, d.workload = came.arrivals, came.stats, came.workload
}

func (d *demand) readFile(ctx context.Context, file string, format trace.Format, window time.Duration) error {
	r, _, err := openFile(file)
	if err != nil {
		return err
	}
	defer r.Close() //nolint:errcheck // only read
	f, err := trace.Open(r, file, trace.Options{Format: format, ZeroAsOne: true})
	if err != nil {
		return usagef("--trace: %s", sortedFirst(err))
	}
	if d.arrivals, err = collected(ctx, trace.Rebase(f.Arrivals())); err != nil {
		return usagef("--trace: %s", sortedFirst(err))
	}
	if d.stats, err = trace.Summarize(trace.Of(d.arrivals...), window); err == nil {
		d.workload, err = capacity.Measured(d.stats, window)
	}
	if err != nil {
		return usagef("--trace %s: %v", file, err)
	}
	return nil
}

// plain is a number without an exponent, to one decimal; below 1 to two digits,
// so that a small rate is not 0.
func plain(x float64) string {
	decimals := 1
	if x > 0 && x < 1 {
		decimals = 1 - int(math.Floor(math.Log10(x)))
	}
	scale := math.Pow10(decimals)
	return strconv.FormatFloat(math.Round(x*scale)/scale, 'f', -1, 64)
}

// flagged is an error about fields, in the words of flags.
func flagged(err error) string {
	return strings.NewReplacer("peak_qps", "--peak-qps", "avg_isl", "--avg-isl", "avg_osl", "--avg-osl", "p99_isl", "--p99-isl", "p99_osl", "--p99-osl",
		"peak_to_average", "--peak-to-average", "peak_window", "--peak-window", "prefix_tokens", "--prefix-tokens", "ttft_p99", "--ttft-p99", "itl_p99", "--itl-p99", "e2e_p99", "--e2e-p99",
		"replica_availability", "--replica-availability", "availability", "--availability", "\n", "; ").Replace(err.Error())
}

// money is what GPUs cost, as the flags say it.
type money struct {
	fixed float64 // USD per GPU and hour; 0 = by the table
	table prices.Table
	cloud string
	kind  prices.Kind
}

func parseMoney(p *parser) money {
	m := money{cloud: p.name("cloud"), kind: prices.OnDemand}
	if p.c.Bool("spot") {
		m.kind = prices.Spot
	}
	if p.name("cost-per-gpu-hour") != "" {
		m.fixed = p.number("cost-per-gpu-hour", 1e-6, 1e6)
	}
	p.needs(m.fixed == 0, "without --cost-per-gpu-hour", "cloud", "spot", "prices")
	m.table = readPrices(p)
	return m
}

// readPrices is the table of prices, with the file of --prices on top.
func readPrices(p *parser) prices.Table {
	table, err := prices.Default()
	if err != nil {
		p.err = err
		return table
	}
	file := p.name("prices")
	if file == "" || p.err != nil {
		return table
	}
	f, err := os.Open(file)
	if err != nil {
		p.fail(usagef("--prices: %v", err))
		return table
	}
	defer f.Close() //nolint:errcheck // only read
	if table, err = table.With(file, f); err != nil {
		p.fail(usagef("--prices: %v", err))
	}
	return table
}

// offer is what one GPU costs.
type offer struct {
	usd      float64 // per hour
	instance int     // how many are rented at a time; 0 = one by one
	from     string  // where the price is from
}

// words say where the price is from, and what it is of.
func (o offer) words() string {
	if o.instance == 0 {
		return o.from
	}
	return fmt.Sprintf("%s (instances of %d)", o.from, o.instance)
}

// of is what one GPU of an engine costs.
func (m money) of(gpu string, gpus int) (offer, error) {
	if m.fixed > 0 {
		return offer{usd: m.fixed, from: "as given"}, nil
	}
	p, err := m.table.Cheapest(m.cloud, gpu, m.kind, gpus)
	if err != nil {
		return offer{}, usagef("%v", err).hint("--cost-per-gpu-hour USD, or --prices FILE.csv")
	}
	return offer{p.USDPerGPUHour, p.GPUs, p.Cloud + " " + p.Instance + ", " + p.Region + ", " + strings.ReplaceAll(string(p.Kind), "_", " ") + ", " + p.Date.Format(time.DateOnly)}, nil
}

// mostTraced bounds the requests of a trace that a plan simulates, again and
// again: some 500 MB of them.
const mostTraced = 5_000_000

// collected are the requests of a trace.
func collected(ctx context.Context, t trace.Trace) ([]trace.Arrival, error) {
	var out []trace.Arrival
	for a, err := range t {
		switch {
		case err != nil:
			return nil, err
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case len(out) == mostTraced:
			return nil, fmt.Errorf("more than %d requests in its first %v: want a shorter part of it, such as the busiest hours", mostTraced, a.At.Round(time.Minute))
		}
		out = append(out, a)
	}
	return out, nil
}
