package main

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"plimsoll/engine"
	"plimsoll/engine/sim/fleet"
	"plimsoll/profile"
	"plimsoll/profile/trace"
)

// defaultRequests end a generated load that nobody bounded.
const defaultRequests = 10_000

func loadFlags() []cli.Flag {
	f := func(name, def, usage string) cli.Flag {
		return &cli.StringFlag{Name: name, Value: def, Usage: usage, Category: "load"}
	}
	return []cli.Flag{
		f("rate", "1", "mean requests per second, `R`"),
		f("arrival", "poisson", "how requests come: `poisson|constant|gamma|sine|burst|daily`"),
		f("cv", "2", "gamma: coefficient of variation of the gaps, `CV`"),
		f("amplitude", "0.5", "sine: swing as a `fraction` of the mean rate"),
		f("period", "10m", "sine, burst: `time` from one peak to the next"),
		f("burst-factor", "3", "burst: rate in a burst over the rate between, `N`"),
		f("burst-length", "10s", "burst: how long one lasts, `time`"),
		f("pattern", "business_hours", "daily: `flat|business_hours|global`"),
		f("isl", "3000", "prompt `tokens`, the mean"),
		f("osl", "150", "output `tokens`, the mean"),
		f("isl-p99", "", "99th percentile of prompts, `tokens`: lengths are then log-normal"),
		f("osl-p99", "", "99th percentile of outputs, `tokens`: likewise"),
		f("prefix-groups", "", "`N` groups of prompts that begin alike"),
		f("prefix-tokens", "1024", "`tokens` that the prompts of a group share"),
		f("prefix-share", "1", "`fraction` of prompts that are in a group"),
		f("requests", "", "how many, `N` (default: 10000, or all of --duration or --trace)"),
		f("duration", "", "only what arrives in this `time`: 90s, 2h"),
		f("trace", "", "arrivals and lengths from `FILE`, gzip or not, instead of a generator; lengths of 0 count as 1"),
		f("trace-format", "auto", "`auto|azure|mooncake|request-trace|servegen|csv`"),
		f("trace-speed", "1", "play the trace `N` times as fast"),
		f("trace-scale", "1", "`N` times as many requests in the same time: some left out, or others like them added"),
	}
}

// arrivals is a load as the flags say it.
type arrivals struct {
	spec         trace.Spec
	file         string
	options      trace.Options
	speed, scale float64
	seed         uint64
	requests     int
	duration     time.Duration
	process      string
}

// openLoad is a load that can be ranged over, once.
type openLoad struct {
	trace    trace.Trace
	describe string
	once     bool // it cannot be read again
	close    func()
}

func parseLoad(p *parser, seed uint64) arrivals {
	a := arrivals{
		file: strings.TrimSpace(p.c.String("trace")), seed: seed,
		speed: p.number("trace-speed", 1e-6, 1e6), scale: p.number("trace-scale", 1e-6, 1000),
		requests: p.integer("requests", 1, math.MaxInt, 0), duration: p.duration("duration"),
	}
	p.needs(a.file == "", "without --trace, whose file has arrivals and lengths",
		"rate", "arrival", "cv", "amplitude", "period", "burst-factor", "burst-length", "pattern",
		"isl", "osl", "isl-p99", "osl-p99", "prefix-groups", "prefix-tokens", "prefix-share")
	p.needs(a.file != "", "with --trace", "trace-format", "trace-speed", "trace-scale")
	if a.file != "" {
		a.options = trace.Options{
			Format: trace.Format(p.choice("trace-format", formatNames()...)), ZeroAsOne: true,
			Windows: trace.WindowOptions{Seed: seed, Scale: a.scale},
		}
		return a
	}
	a.spec = trace.Spec{
		Gaps: trace.Gaps{Process: profile.Poisson}, Requests: a.requests, Duration: a.duration, Seed: seed,
		ISL: p.lengths("isl"), OSL: p.lengths("osl"),
	}
	if a.requests == 0 && a.duration == 0 {
		a.spec.Requests = defaultRequests
	}
	a.rate(p)
	a.prefixes(p)
	return a
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
	a.spec.Rate = trace.Constant(mean)
	var err error
	switch a.process {
	case "constant":
		a.spec.Gaps.Process = profile.Constant
	case "gamma":
		a.spec.Gaps = trace.Gaps{Process: profile.Gamma, CV: p.number("cv", 0.01, trace.MaxCV)}
	case "sine":
		a.spec.Rate = trace.Sine{Mean: mean, Amplitude: p.number("amplitude", 0, 1), Period: p.duration("period"), Phase: -math.Pi / 2}
	case "burst":
		every, length, factor := p.duration("period"), p.duration("burst-length"), p.number("burst-factor", 1, 1e6)
		share := length.Seconds() / every.Seconds()
		quiet := mean / (1 + share*(factor-1)) // so that the mean is what was asked for
		a.spec.Rate, err = trace.Burst(quiet, factor*quiet, every, length)
	case "daily":
		a.spec.Rate, err = trace.Daily(trace.Pattern(p.choice("pattern", "flat", "business_hours", "global")), mean)
	}
	if err != nil {
		p.fail(usagef("--arrival %s: %v", a.process, err))
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
		p.fail(usagef("--%s-p99 %d: %v", name, p99, err))
	}
	return l
}

// number reads a decimal in [lo, hi].
func (p *parser) number(name string, lo, hi float64) float64 {
	s := strings.TrimSpace(p.c.String(name))
	v, err := strconv.ParseFloat(s, 64)
	if err != nil || !(v >= lo && v <= hi) { // so that NaN is refused
		p.fail(usagef("--%s %q: want a number from %g to %g", name, s, lo, hi))
		return lo
	}
	return v
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
		return openLoad{}, usagef("%v", err)
	}
	return openLoad{trace: t, describe: a.words(), close: func() {}}, nil
}

func (a arrivals) words() string {
	return fmt.Sprintf("%s arrivals", a.process)
}

// read opens a trace file and cuts what was asked for out of it.
func (a arrivals) read(blockSize int) (openLoad, error) {
	r, once, err := openFile(a.file)
	if err != nil {
		return openLoad{}, err
	}
	fail := func(err error) (openLoad, error) {
		_ = r.Close() // only read
		return openLoad{}, usagef("--trace: %v", err)
	}
	f, err := trace.Open(r, a.file, a.options)
	if err != nil {
		return fail(err)
	}
	t := trace.Rebase(f.Arrivals())
	if f.Format != trace.FormatServeGen { // whose table was scaled already
		t, err = a.scaled(t)
	}
	if err == nil && a.speed != 1 {
		t, err = trace.Compress(t, a.speed)
	}
	if err != nil {
		return fail(err)
	}
	if a.duration > 0 {
		t = trace.Between(t, 0, a.duration)
	}
	if a.requests > 0 {
		t = trace.Limit(t, a.requests)
	}
	return openLoad{
		trace:    trace.Reblocked(t, blockSize),
		describe: fmt.Sprintf("%s (%s)", a.file, f.Format), once: once, close: closing(r),
	}, nil
}

// copyJitter is how far from the request that it copies an added one arrives:
// close enough to keep the trace's shape, far enough to be no burst of twins.
const copyJitter = 10 * time.Second

// scaled has a.scale times as many requests in the same time.
func (a arrivals) scaled(t trace.Trace) (trace.Trace, error) {
	switch {
	case a.scale < 1:
		return trace.Thin(t, a.scale, a.seed)
	case a.scale > 1:
		return trace.Superpose(t, a.scale, copyJitter, a.seed)
	}
	return t, nil
}

func closing(r io.Closer) func() {
	return func() { _ = r.Close() } // only read
}

// requestOf is an arrival as a fleet takes it.
func requestOf(a trace.Arrival) fleet.Request {
	return fleet.Request{
		ID: uint64(a.Line), At: engine.FromDuration(a.At), ISL: a.ISL, OSL: a.OSL, Prefix: a.Blocks, //nolint:gosec // a line number is not negative
	}
}
