package main

import (
	"math"
	"slices"
	"time"

	"github.com/urfave/cli/v2"

	"plimsoll/engine"
	"plimsoll/engine/field"
	"plimsoll/engine/sim/fleet"
	"plimsoll/profile"
	"plimsoll/profile/trace"
)

// defaultRequests end a generated load that nobody bounded; one whose rate
// repeats goes on to the end of its period, so that its mean is what was asked.
const defaultRequests = 10_000

func loadFlags() []cli.Flag {
	return append(stringFlags("load", [][3]string{
		{"rate", "1", "mean requests per second, `R`"},
		{"arrival", "poisson", "how requests come: `poisson|constant|gamma|sine|burst|daily`"},
		{"cv", "2", "gamma: coefficient of variation of the gaps, `CV`"},
		{"amplitude", "0.5", "sine: swing as a `fraction` of the mean rate"},
		{"period", "10m", "sine, burst: `time` from one peak to the next"},
		{"burst-factor", "3", "burst: rate in a burst over the rate between, `N`"},
		{"burst-length", "10s", "burst: how long one lasts, `time`"},
		{"pattern", "business_hours", "daily: `flat|business_hours|global`"},
		{"isl", "3000", "prompt `tokens`, the mean (servegen: instead of the file's)"},
		{"osl", "150", "output `tokens`, the mean (servegen: instead of the file's)"},
		{"isl-p99", "", "99th percentile of prompts, `tokens`: lengths are then log-normal"},
		{"osl-p99", "", "99th percentile of outputs, `tokens`: likewise"},
		{"prefix-groups", "", "`N` groups of prompts that begin alike"},
		{"prefix-tokens", "1024", "`tokens` that the prompts of a group share"},
		{"prefix-share", "1", "`fraction` of prompts that are in a group"},
		{"requests", "", "how many, `N` (default: 10000, or all of --duration or --trace; with sine, burst and daily the whole periods that hold as many)"},
		{"duration", "", "only what arrives in this `time`: 90s, 2h"},
		{"trace", "", "arrivals and lengths from `FILE`, gzip or not, instead of a generator; lengths of 0 count as 1"},
		{"trace-speed", "1", "play the trace `N` times as fast"},
		{"trace-scale", "1", "`N` times as many requests in the same time: some left out, or others like them added"},
	}), traceFlags("load")...)
}

// arrivals is a load as the flags say it.
type arrivals struct {
	spec         trace.Spec
	file         string
	options      trace.Options
	from, to     time.Duration // of the file, before anything is made of it; 0 = from its beginning, to its end
	speed, scale float64
	seed         uint64
	requests     int
	duration     time.Duration
	process      string
	asked        float64       // requests per second
	period       time.Duration // of a rate that repeats; 0 = it does not
}

// openLoad is a load that can be ranged over, once.
type openLoad struct {
	trace    trace.Trace
	words    string
	asked    float64 // requests per second; 0 = nobody asked
	once     bool    // it cannot be read again
	warnings []profile.Warning
	facts    *traceFacts // nil: it is no trace
	close    func()
}

func parseLoad(p *parser, seed uint64) arrivals {
	a := arrivals{
		file: p.name("trace"), seed: seed,
		speed: p.number("trace-speed", 1e-6, 1e6), scale: p.number("trace-scale", 1e-6, 1000),
		requests: p.integer("requests", 1, math.MaxInt, 0), duration: p.duration("duration"),
	}
	p.needs(a.file == "", "without --trace, whose file has arrivals and lengths",
		"rate", "arrival", "cv", "amplitude", "period", "burst-factor", "burst-length", "pattern",
		"prefix-groups", "prefix-tokens", "prefix-share")
	p.needs(a.file != "", "with --trace", "trace-format", "time-unit", "spread-ticks", "trace-speed", "trace-scale")
	if a.file != "" {
		a.traceOptions(p)
		return a
	}
	a.spec = trace.Spec{
		Gaps: trace.Gaps{Process: profile.Poisson}, Requests: a.requests, Duration: a.duration, Seed: seed,
		ISL: p.lengths("isl"), OSL: p.lengths("osl"),
	}
	a.rate(p)
	a.prefixes(p)
	if a.requests == 0 && a.duration == 0 {
		a.spec.Requests, a.spec.Duration = a.bounds()
	}
	return a
}

// traceOptions reads how to read a file.
func (a *arrivals) traceOptions(p *parser) {
	a.options = p.traceOptions(a.seed)
	a.options.Windows.Scale = a.scale
	if p.c.IsSet("isl") || p.c.IsSet("isl-p99") {
		a.options.Windows.ISL = p.lengths("isl")
	}
	if p.c.IsSet("osl") || p.c.IsSet("osl-p99") {
		a.options.Windows.OSL = p.lengths("osl")
	}
}

// bounds end a load that nobody bounded: after a number of requests or, where its
// rate repeats, with the period in which that comes, the first one at least.
func (a *arrivals) bounds() (requests int, until time.Duration) {
	if a.period == 0 {
		return defaultRequests, 0
	}
	most := math.Floor(float64(fleet.Latest.Duration()) / float64(a.period))
	n := math.Ceil(defaultRequests / (a.asked * a.period.Seconds()))
	return 0, time.Duration(max(1, min(n, most))) * a.period
}

// cut says where a bound cuts a period, so that the rate offered is not the one
// asked for.
func (a *arrivals) cut() []profile.Warning {
	if a.period == 0 {
		return nil
	}
	until, mean := a.spec.Covered()
	if math.Abs(mean/a.asked-1) < 0.01 {
		return nil
	}
	n := max(1, math.Ceil(until.Seconds()/a.period.Seconds()))
	return []profile.Warning{profile.Warnf("period_cut", "the load ends after %.3g periods of %v, so it has %.4g requests/s on average, not %.4g. Use --duration %v for that rate",
		until.Seconds()/a.period.Seconds(), a.period, mean, a.asked, time.Duration(n)*a.period)}
}

func formatNames() []string {
	var names []string
	for _, f := range trace.Formats() {
		names = append(names, string(f))
	}
	return names
}

// rate reads how requests come.
func (a *arrivals) rate(p *parser) {
	mean := p.number("rate", 1e-6, trace.MaxRate)
	a.process = p.choice("arrival", "poisson", "constant", "gamma", "sine", "burst", "daily")
	is := func(processes ...string) bool { return slices.Contains(processes, a.process) }
	p.needs(is("gamma"), "with --arrival gamma", "cv")
	p.needs(is("sine"), "with --arrival sine", "amplitude")
	p.needs(is("sine", "burst"), "with --arrival sine or burst", "period")
	p.needs(is("burst"), "with --arrival burst", "burst-factor", "burst-length")
	p.needs(is("daily"), "with --arrival daily", "pattern")
	if p.err != nil {
		return
	}
	a.spec.Rate, a.asked = trace.Constant(mean), mean
	var err error
	switch a.process {
	case "constant":
		a.spec.Gaps.Process = profile.Constant
	case "gamma":
		a.spec.Gaps = trace.Gaps{Process: profile.Gamma, CV: p.number("cv", 0.01, trace.MaxCV)}
	case "sine":
		a.period = p.duration("period")
		a.spec.Rate = trace.Sine{Mean: mean, Amplitude: p.number("amplitude", 0, 1), Period: a.period, Phase: -math.Pi / 2}
	case "burst":
		every, length, factor := p.duration("period"), p.duration("burst-length"), p.number("burst-factor", 1, 1e6)
		share := length.Seconds() / every.Seconds()
		quiet := mean / (1 + share*(factor-1)) // so that the mean is what was asked for
		a.period = every
		a.spec.Rate, err = trace.Burst(quiet, factor*quiet, every, length)
	case "daily":
		a.period = engine.Day.Duration()
		a.spec.Rate, err = trace.Daily(trace.Pattern(p.choice("pattern", "flat", "business_hours", "global")), mean)
	}
	if err != nil {
		p.fail(field.Errorf("--arrival %s: %v", a.process, err))
	}
}

// prefixes reads which prompts begin alike.
func (a *arrivals) prefixes(p *parser) {
	groups := p.integer("prefix-groups", 1, trace.MaxGroups, 0)
	p.needs(groups > 0, "with --prefix-groups", "prefix-tokens", "prefix-share")
	p.needs(p.c.Bool("enable-prefix-caching"), "with --enable-prefix-caching", "prefix-groups")
	if groups == 0 {
		return
	}
	a.spec.Prefixes = trace.Prefixes{
		Groups: groups, Tokens: p.integer("prefix-tokens", 1, maxTokens, 0), Share: p.number("prefix-share", 0, 1),
	}
	flag := "isl"
	if p.c.IsSet("isl-p99") {
		flag = "isl-p99"
	}
	if n := p.integer(flag, 1, maxTokens, 0); a.spec.Prefixes.Tokens > n {
		p.fail(field.Errorf("--prefix-tokens %d: prompts have only --%s %d, so nothing but prefix would be left", a.spec.Prefixes.Tokens, flag, n).
			Hint("--prefix-tokens %d or less", n))
	}
}

// lengths reads a mean and, where it is given, a 99th percentile.
func (p *parser) lengths(name string) trace.Lengths {
	mean := p.integer(name, 1, maxTokens, 0)
	p99 := p.integer(name+"-p99", 1, maxTokens, 0)
	if p99 == 0 || p.err != nil {
		return trace.Fixed(mean)
	}
	l, err := trace.NewLogNormal(float64(mean), float64(p99), 0)
	if err != nil {
		p.fail(field.Errorf("--%s-p99 %d: %v", name, p99, err))
	}
	return l
}

// open makes the load for engines whose KV blocks hold blockSize tokens.
func (a arrivals) open(blockSize int) (openLoad, error) {
	if a.file != "" {
		return a.read(blockSize)
	}
	if a.spec.Prefixes.Groups > 0 {
		a.spec.Prefixes.BlockTokens = blockSize
	}
	t, err := trace.Generate(a.spec)
	if err != nil {
		return openLoad{}, field.Errorf("%v", err)
	}
	return openLoad{trace: t, words: a.process + " arrivals", asked: a.asked, warnings: a.cut(), close: func() {}}, nil
}
