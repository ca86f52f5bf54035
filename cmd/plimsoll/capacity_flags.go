package main

import (
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
	"plimsoll/engine/catalog"
	"plimsoll/engine/field"
	"plimsoll/profile"
	"plimsoll/profile/store"
	"plimsoll/profile/trace"
)

// stringFlags are rows of name, default and usage; further words of a name are aliases.
func stringFlags(category string, rows [][3]string) []cli.Flag {
	var out []cli.Flag
	for _, r := range rows {
		names := strings.Fields(r[0])
		out = append(out, &cli.StringFlag{Name: names[0], Aliases: names[1:], Value: r[1], Usage: r[2], Category: category})
	}
	return out
}

func workloadFlags() []cli.Flag {
	return append(stringFlags("workload", [][3]string{
		{"workload", "", "YAML `FILE` whose keys are flags of this command; flags win"},
		{"rate peak-qps", "", "requests per second at the peak, `R`"},
		{"isl avg-isl", "", "prompt `tokens`, the mean (default: the profile's)"},
		{"osl avg-osl", "", "output `tokens`, the mean (default: the profile's)"},
		{"isl-p99 p99-isl", "", "99th percentile of prompts, `tokens`: lengths are log-normal (default: all have the mean)"},
		{"osl-p99 p99-osl", "", "99th percentile of outputs, `tokens`: likewise"},
		{"peak-to-average", "", "the peak's rate over the day's mean, `N` (default: the pattern's own)"},
		{"peak-window", "60s", "the window over which the peak is counted, `time`"},
		{"pattern", "flat", "how the rate moves over a day: `flat|business_hours|global`"},
		{"prefix-groups", "", "`N` groups of prompts that begin alike"},
		{"prefix-tokens", "1024", "`tokens` that the prompts of a group share"},
		{"prefix-share", "1", "`fraction` of prompts that are in a group"},
		{"trace", "", "arrivals and lengths from `FILE` instead, gzip or not"},
	}), traceFlags("workload")...)
}

func latencyFlags() []cli.Flag {
	return stringFlags("SLO", [][3]string{
		{"ttft-p99 ttft", "", "time to first token, 99th percentile unless --sla-stat says otherwise, `ms` (default: the profile's)"},
		{"itl-p99 itl", "", "inter-token latency, each request's mean over its output tokens, likewise, `ms` (default: the profile's)"},
		{"stall-p99", "", "single gaps between tokens, 99th percentile, `ms` (default: the profile's, or not promised)"},
		{"e2e-p99", "", "end-to-end latency, 99th percentile, `ms` (default: not promised)"},
	})
}

func sloFlags() []cli.Flag {
	return append(latencyFlags(), stringFlags("SLO", [][3]string{
		{"sla-stat", "", "what of the requests' TTFT and ITL is promised: `mean|p50|p90|p95|p99` (default: p99)"},
		{"availability", "", "share of the time with all engines that the load takes, `fraction` (default: no spares)"},
		{"replica-availability", "", "share of the time that one engine is up, `fraction`: spares follow by the binomial distribution"},
		{"failure-domain", "", "how many `GPUs` fail together: 8 for servers of eight (default: one engine's)"},
	})...)
}

func moneyFlags() []cli.Flag {
	return append(stringFlags("cost", [][3]string{
		{"cost-per-gpu-hour", "", "`USD` of every GPU, or GPU=USD with commas between, 0 for those that are owned (default: the cheapest list price of AWS, Azure and GCP, unless --cloud or --prices says otherwise)"},
		{"cloud", "", "prices of this cloud only, `NAME`: AWS, GCP, Azure, …"},
		{"prices", "", "CSV `FILE` of further prices"},
	}), &cli.BoolFlag{Name: "spot", Usage: "spot prices: such GPUs are taken back at any time", Category: "cost"})
}

// demand is a workload and an SLO as the flags say them.
type demand struct {
	workload capacity.Workload
	slo      capacity.SLO
	failures capacity.Failures
	file     string          // of a trace; empty = there is none
	arrivals []trace.Arrival // of it
	stats    trace.Stats
	trace    *measuredTrace // nil: there is none
}

// measuredTrace is a trace in a plan's file.
type measuredTrace struct {
	traceFacts
	// Second is the rate of its busiest second, in requests/s: a fleet sized for the
	// trace holds it, and one for the peak alone may not.
	Second   float64           `json:"busiest_second_rps"`
	Warnings []profile.Warning `json:"warnings,omitempty"` // of how it was read

	said, words string // its unit as the user says it, and as it was read
}

// notes are the warnings of how the trace was read.
func (t *measuredTrace) notes() []profile.Warning {
	if t == nil {
		return nil
	}
	return t.Warnings
}

// parseDemand reads a workload and an SLO; the file of --workload first.
func parseDemand(p *parser) demand {
	if file := p.name("workload"); file != "" && p.err == nil {
		if err := applyConfig(p.c, "workload", file); err != nil {
			p.err = err
		}
	}
	p.profileDemand()
	var d demand
	traffic := []string{"rate", "isl", "osl"}
	if p.c.IsSet("gpu-count") { // which asks for the rate
		traffic = traffic[1:]
	}
	hint := ""
	if p.name("trace") != "" {
		traffic = nil
	} else if slices.ContainsFunc(traffic, func(name string) bool { return p.name(name) == "" }) {
		hint = "--trace FILE measures a workload, --workload FILE.yaml holds one"
		if p.name("rate") == "" && slices.Contains(flagNames(p.c), "gpu-count") && slices.Contains(traffic, "rate") {
			hint += "; --gpu-count N asks for the rate that so many GPUs hold"
		}
	}
	p.required(hint, append(traffic, "ttft-p99", "itl-p99")...)
	d.slo = capacity.SLO{TTFT: p.millis("ttft-p99"), ITL: p.millis("itl-p99"), StallP99: p.optionalMillis("stall-p99"), E2EP99: p.optionalMillis("e2e-p99")}
	if stat := p.name("sla-stat"); stat != "" {
		d.slo.Stat = profile.Statistic(p.choice("sla-stat", "mean", "p50", "p90", "p95", "p99"))
	}
	if p.c.IsSet("availability") {
		d.slo.Availability = p.number("availability", 0, 1)
	}
	d.failures = parseFailures(p, d.slo.Availability)
	file := p.name("trace")
	p.needs(file == "", "without --trace, whose file has arrivals and lengths", "rate", "isl", "osl", "isl-p99", "osl-p99", "peak-to-average", "pattern", "prefix-groups")
	p.needs(p.c.IsSet("prefix-groups"), "with --prefix-groups", "prefix-tokens", "prefix-share")
	p.needs(file != "", "with --trace", "trace-format", "time-unit", "spread-ticks")
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
			p.fail(field.Errorf("%v", err))
		}
	}
	return d
}

// profileDemand sets the lengths and latencies that no flag gives to those of the profile.
// A profile that cannot be read is reported later, when its engines are loaded.
func (p *parser) profileDemand() {
	dir := p.name("profile")
	if dir == "" || p.err != nil {
		return
	}
	rec, err := store.ReadRecommendation(dir)
	if err != nil {
		return
	}
	defaults := map[string]float64{"ttft-p99": rec.SLA.TTFTMillis, "itl-p99": rec.SLA.ITLMillis, "stall-p99": rec.SLA.StallMillis}
	if p.name("trace") == "" {
		defaults["isl"], defaults["osl"] = float64(rec.Workload.ISL), float64(rec.Workload.OSL)
	}
	for name, v := range defaults {
		if v > 0 && !p.c.IsSet(name) && p.err == nil {
			p.err = p.c.Set(name, strconv.FormatFloat(v, 'g', -1, 64))
		}
	}
}

// parseFailures reads how engines fail. Spares by the binomial distribution need
// it; the formulas' "N+1" does not.
func parseFailures(p *parser, availability float64) capacity.Failures {
	f := capacity.Failures{DomainGPUs: p.integer("failure-domain", 1, maxGPUs, 0)}
	p.needs(p.c.IsSet("availability"), "with --availability", "replica-availability", "failure-domain")
	if p.c.IsSet("replica-availability") {
		if f.ReplicaAvailability = p.number("replica-availability", 0.5, 1); f.ReplicaAvailability > mostAvailable {
			p.fail(field.Errorf("--replica-availability %s: want 0.5 to below 1, such as 0.99", p.c.String("replica-availability")))
		}
	} else if availability > 0 && p.c.String("method") != "formula" {
		p.fail(field.Errorf("--availability %v needs --replica-availability, the share of time that one engine is up, such as 0.99", availability).
			Hint("without both, the plan has no spares"))
	}
	return f
}

// mostAvailable is the most that capacity.Spares can tell from 1.
const mostAvailable = 1 - 1e-12

func parseWorkload(p *parser, window time.Duration) capacity.Workload {
	qps := 1.0 // the highest is looked for
	if p.err != nil {
		return capacity.Workload{}
	}
	if p.name("rate") != "" {
		qps = p.number("rate", 1e-6, trace.MaxRate)
	}
	w := capacity.Workload{
		Rate: qps, ISL: p.number("isl", 1, maxTokens), OSL: p.number("osl", 1, maxTokens),
		PeakWindow: window, Pattern: trace.Pattern(p.choice("pattern", "flat", "business_hours", "global")),
	}
	w.PeakToAverage = peakToAverage(p, w.Pattern)
	if n := p.integer("prefix-groups", 1, trace.MaxGroups, 0); n > 0 {
		w.Prefixes = trace.Prefixes{Groups: n, Tokens: p.integer("prefix-tokens", 1, maxTokens, 0), Share: p.number("prefix-share", 0, 1)}
	}
	w.ISLP99, w.OSLP99 = w.ISL, w.OSL
	if p.name("isl-p99") != "" {
		w.ISLP99 = p.number("isl-p99", 1, maxTokens)
	}
	if p.name("osl-p99") != "" {
		w.OSLP99 = p.number("osl-p99", 1, maxTokens)
	}
	if err := w.Check(); err != nil && p.err == nil {
		p.fail(field.Errorf("%v", err))
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
		p.fail(field.Errorf("--pattern: %v", err))
	}
	return slices.Max(hours[:])
}

// read measures a trace.
func (d *demand) read(p *parser, file string, window time.Duration) {
	o := p.traceOptions(uint64(p.integer("seed", 0, 1<<53, 1))) //nolint:gosec // not negative
	if p.err == nil {
		p.err = d.readFile(file, o, window)
	}
}

func (d *demand) readFile(file string, o trace.Options, window time.Duration) error {
	d.file = file
	f, _, closing, err := openTrace(file, o)
	if err != nil {
		return err
	}
	defer closing()
	if d.arrivals, err = collected(trace.Rebase(f.Arrivals())); err != nil {
		return field.Errorf("--trace: %s", ofTrace(err))
	}
	if d.stats, err = trace.Summarize(trace.Of(d.arrivals...), window, time.Second); err == nil {
		d.workload, err = capacity.Measured(d.stats, window)
	}
	if err != nil {
		return field.Errorf("--trace %s: %v", file, err)
	}
	d.trace = &measuredTrace{traceFacts: *factsOf(file, f, o), Second: float64(d.stats.Peaks[1].Requests), Warnings: f.Warnings(), words: f.Words()}
	if o.Unit > 0 {
		d.trace.said = d.trace.Unit
	}
	return nil
}

// plain is a number without an exponent, to one decimal; below 10 to three digits,
// those of a rate that --gpu-count finds.
func plain(x float64) string {
	decimals := 1
	if x > 0 && x < 10 {
		decimals = 2 - int(math.Floor(math.Log10(x)))
	}
	scale := math.Pow10(decimals)
	return strconv.FormatFloat(math.Round(x*scale)/scale, 'f', -1, 64)
}

// money is what GPUs cost, as the flags say it.
type money struct {
	said  prices.Given // what was said wins over the table
	table prices.Table
	cloud string
	kind  prices.Kind
}

func parseMoney(p *parser) money {
	m := money{cloud: p.name("cloud"), kind: prices.OnDemand}
	if p.c.Bool("spot") {
		m.kind = prices.Spot
	}
	m.said = p.gpuPrices()
	p.needs(!m.said.ForAll(), "without one --cost-per-gpu-hour for every GPU", "cloud", "spot", "prices")
	m.table = readPrices(p)
	if clouds := m.table.Clouds(); m.cloud != "" && !slices.ContainsFunc(clouds, func(c string) bool { return strings.EqualFold(c, m.cloud) }) {
		p.fail(field.Errorf("--cloud %s: no price of it is known; of %s there are", m.cloud, strings.Join(clouds, ", ")).Hint("--prices FILE adds prices"))
	}
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
		p.fail(field.Errorf("--prices: %v", err))
		return table
	}
	defer f.Close() //nolint:errcheck // only read
	if table, err = table.With(file, f); err != nil {
		p.fail(field.Errorf("--prices: %v", err))
	}
	return table
}

// offer is what one GPU costs.
type offer struct {
	usd      capacity.USD // per hour
	instance int          // how many are rented at a time; 0 = one by one
	from     string       // where the price is from
}

// words say where the price is from, and what it is of.
func (o offer) words() string {
	if o.instance == 0 {
		return o.from
	}
	return fmt.Sprintf("%s, in instances of %d", o.from, o.instance)
}

// given is what one GPU costs as somebody said it.
func (m money) given(gpu string) (offer, bool) {
	usd, ok := m.said.Of(gpu)
	return offer{usd: capacity.USD(usd), from: "as given"}, ok
}

// onePrice warns of several kinds of GPUs that are priced alike by one number.
func (m money) onePrice(gpus []string) []profile.Warning {
	usd, _ := m.said.Of("")
	if !m.said.ForAll() || usd == 0 || len(gpus) < 2 {
		return nil
	}
	return []profile.Warning{profile.Warnf("one_price", "--cost-per-gpu-hour %s is taken for %s. Use %s=%[1]s to price one", amount(usd), listed("and", gpus), strings.ToLower(gpus[0]))}
}

// of is what one GPU of an engine costs that has so many in a server; not known where neither somebody nor the
// table says it.
func (m money) of(gpu string, gpus int) offer {
	if o, ok := m.given(gpu); ok {
		return o
	}
	p, err := m.table.Cheapest(m.cloud, gpu, m.kind, min(gpus, catalog.UsualPerNode))
	if err != nil {
		return offer{usd: capacity.UnknownUSD(), from: fmt.Sprintf("%v (--cost-per-gpu-hour %s=USD, or --prices FILE.csv)", err, strings.ToLower(gpu))}
	}
	return offer{capacity.USD(p.USDPerGPUHour), p.GPUs, p.Cloud + " " + p.Instance + ", " + p.Region + ", " + p.Kind.Words() + ", " + p.Date.Format(time.DateOnly)}
}

// others are the prices of a plan's GPUs that it is not ranked by, of those whose price
// nobody gave.
func (m money) others(p capacity.Plan) []prices.Price {
	var out []prices.Price
	for _, gpu := range planGPUs(p) {
		if _, said := m.given(gpu); !said {
			out = append(out, m.table.Others(gpu)...)
		}
	}
	return slices.DeleteFunc(out, func(o prices.Price) bool { return o.Kind == m.kind && strings.EqualFold(o.Cloud, m.cloud) })
}

// mostTraced bounds the requests of a trace that a plan simulates, again and
// again: some 500 MB of them.
const mostTraced = 5_000_000

// collected are the requests of a trace.
func collected(t trace.Trace) ([]trace.Arrival, error) {
	var out []trace.Arrival
	for a, err := range t {
		switch {
		case err != nil:
			return nil, err
		case len(out) == mostTraced:
			return nil, fmt.Errorf("more than %d requests in its first %v: want a shorter part of it, such as the busiest hours", mostTraced, a.At.Round(time.Minute))
		}
		out = append(out, a)
	}
	return out, nil
}
