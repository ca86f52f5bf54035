package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"plimsoll/capacity"
	"plimsoll/engine/field"
	"plimsoll/engine/sim"
	"plimsoll/planner/observe"
	"plimsoll/profile"
	"plimsoll/profile/trace"
)

func prometheusFlags() []cli.Flag {
	return stringFlags("Prometheus", [][3]string{
		{"prometheus", "", "traffic and latencies from the server at `URL`, http://USER:PASSWORD@HOST:9090 with basic authentication"},
		{"since", "24h", "look so far back from --to, `time`"},
		{"from", "", "look from then on, RFC 3339 `time`, instead of --since"},
		{"to", "", "look until then, RFC 3339 `time` (default: now)"},
		{"prometheus-preset", "auto", "names of the metrics: `" + strings.Join(observe.Words(), "|") + "`"},
		{"served-model-name", "", "the model's `NAME` in the metrics, exactly (default: the only one there)"},
		{"prometheus-namespace", "", "only this `NAMESPACE`, exactly (default: all)"},
		{"prometheus-bearer-token-file", "", "bearer token for the server, in `FILE`"},
		{"prometheus-timeout", "30s", "how long one query may take, `time`"},
	})
}

// prometheusFlagNames are those that mean nothing without --prometheus.
func prometheusFlagNames() []string {
	var names []string
	for _, f := range prometheusFlags()[1:] {
		names = append(names, f.Names()[0])
	}
	return names
}

// lookup is what to ask a Prometheus server for, as the flags say it.
type lookup struct {
	server observe.Options
	wanted observe.Wanted
}

func parseLookup(p *parser) lookup {
	l := lookup{
		server: observe.Options{URL: p.name("prometheus"), Timeout: p.duration("prometheus-timeout")},
		wanted: observe.Wanted{
			Presets: observe.Presets(p.choice("prometheus-preset", observe.Words()...)),
			Model:   p.name("served-model-name"), Namespace: p.name("prometheus-namespace"),
			To: p.instant("to"),
		},
	}
	if l.wanted.To.IsZero() {
		l.wanted.To = time.Now()
	}
	since := p.duration("since")
	l.wanted.From = l.wanted.To.Add(-since)
	if p.c.IsSet("from") {
		p.needs(false, "without --from", "since")
		l.wanted.From = p.instant("from")
	}
	if p.err == nil && !l.wanted.From.Before(l.wanted.To) {
		p.fail(field.Errorf("--from %s: want a time before %s", l.wanted.From.Format(time.RFC3339), l.wanted.To.Format(time.RFC3339)))
	}
	l.server.BearerToken = p.secretFile("prometheus-bearer-token-file")
	return l
}

// instant reads an RFC 3339 time; zero where there is none.
func (p *parser) instant(flag string) time.Time {
	s := p.name(flag)
	if s == "" {
		return time.Time{}
	}
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		p.fail(field.Errorf("--%s %q: want a time as RFC 3339 has it, such as 2026-11-20T08:00:00Z", flag, s))
	}
	return t
}

// seen is what a Prometheus server saw.
type seen struct {
	server  string // its URL, without a password
	from    observe.History
	traffic observe.Traffic

	latencies []reviewLatency
	more      []profile.Warning // that the review itself has
}

func (s seen) warnings() []profile.Warning { return append(s.traffic.Warnings, s.more...) }

// observe reads the traffic that a Prometheus server saw.
func (r *review) observe(p *parser, window time.Duration) error {
	l := parseLookup(p)
	if p.err != nil {
		return p.err
	}
	server, err := observe.Dial(l.server)
	if err != nil {
		return field.Errorf("--prometheus: %v", err)
	}
	asked := observe.Range{From: l.wanted.From, To: l.wanted.To, Window: window}
	if err := asked.Check(); err != nil {
		return field.Errorf("--prometheus: %v", err).Hint("another --since, or --from and --to")
	}
	s := seen{server: server.Name()}
	if s.from, err = server.Find(p.c.Context, l.wanted); err != nil {
		return unseen(p.c.Context, err)
	}
	if s.traffic, err = s.from.Traffic(p.c.Context, asked); err != nil {
		return unseen(p.c.Context, err)
	}
	r.seen = &s
	if err := r.asWorkload(); err != nil {
		return err
	}
	t := s.traffic
	r.came = came{rate: t.Rate, peaks: []peak{{t.Range.Window, t.Peak}}, busiestHour: t.BusiestHour}
	if s.from.Names.PerEngine && r.plan.Strategy == capacity.Disaggregated {
		r.seen.warn("counted_twice", "%s metrics are of single engines: where prefill and decode are apart, both count a request, so that rates are up to twice and outputs down to half of what came: the frontend's metrics are better", s.from.Names.Preset)
	}
	return nil
}

// unseen is why a server's answer is of no use, with what to do.
func unseen(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return err
	}
	var no *observe.NotFoundError
	var several *observe.AmbiguousError
	var failed *observe.Error
	switch {
	case errors.As(err, &several):
		return field.Errorf("--prometheus: %v", err).Hint("--served-model-name says which")
	case errors.As(err, &no) && len(no.There) > 0:
		return field.Errorf("--prometheus: %v", err).Hint("--served-model-name is compared exactly")
	case errors.As(err, &no):
		return field.WithHint(fmt.Errorf("--prometheus: %w", err), "a longer --since, or another --prometheus-preset; does Prometheus scrape the engines? look at its page /targets")
	case errors.As(err, &failed) && failed.Hint != "":
		return field.WithHint(fmt.Errorf("--prometheus: %w", err), "%s", failed.Hint)
	}
	return fmt.Errorf("--prometheus: %w", err)
}

func (s *seen) warn(code, format string, args ...any) {
	s.more = append(s.more, profile.Warnf(code, format, args...))
}

// asWorkload makes the measured traffic a workload to plan for.
func (r *review) asWorkload() error {
	t, planned := r.seen.traffic, r.plans.Workload
	w := capacity.Workload{
		PeakQPS: t.Peak, Pattern: trace.Flat, PeakToAverage: max(1, t.Peak/t.Rate), PeakWindow: t.Range.Window,
	}
	for _, x := range []struct {
		what         string
		seen         observe.Lengths
		mean, p99    float64 // planned
		avgTo, p99To *float64
	}{
		{"ISL", t.ISL, planned.AvgISL, planned.P99ISL, &w.AvgISL, &w.P99ISL},
		{"OSL", t.OSL, planned.AvgOSL, planned.P99OSL, &w.AvgOSL, &w.P99OSL},
	} {
		if math.IsNaN(x.seen.Mean) {
			return field.WithHint(fmt.Errorf("--prometheus: %s does not say the mean %s: a workload needs it", r.seen.server, x.what), "another --prometheus-preset, or --trace with the requests themselves")
		}
		*x.avgTo = max(1, x.seen.Mean)
		*x.p99To = max(*x.avgTo, x.seen.P99.Value)
		if !x.seen.P99.Known() {
			*x.p99To = *x.avgTo * x.p99 / x.mean
			r.seen.warn("p99_as_planned", "the p99 of %s is not known: it is taken to be %.4g times the mean, as planned", x.what, x.p99/x.mean)
		}
	}
	w = sharedAsPlanned(planned, w)
	if err := w.Check(); err != nil {
		return fmt.Errorf("--prometheus: the traffic that %s saw is no workload: %s", r.seen.server, strings.ReplaceAll(err.Error(), "\n", "; "))
	}
	r.workload = w
	var err error
	r.load, err = atRate(w, w.PeakQPS, r.plans.Inputs.Seed)
	return err
}

// manyRequests are those that the planned fleet is simulated with.
const manyRequests = 20_000

// rareFor is how long requests come that are too rare for so many; a simulation's
// clock ends after 2400 hours.
const rareFor = 1800 * time.Hour

// atRate are requests of a workload's lengths, at a rate.
func atRate(w capacity.Workload, qps float64, seed uint64) ([]trace.Arrival, error) {
	most := max(1, int(qps*rareFor.Seconds()))
	spec := trace.Spec{Rate: trace.Constant(qps), Gaps: trace.Gaps{Process: profile.Poisson}, Requests: min(manyRequests, most), Seed: seed, Prefixes: w.Prefixes}
	if spec.Prefixes.Groups > 0 {
		spec.Prefixes.BlockTokens, spec.Requests = sim.DefaultBlockSize, min(cachedRequests, most)
	}
	var err error
	if spec.ISL, err = lengthsThrough(w.AvgISL, w.P99ISL); err != nil {
		return nil, fmt.Errorf("--prometheus: ISL: %w", err)
	}
	if spec.OSL, err = lengthsThrough(w.AvgOSL, w.P99OSL); err != nil {
		return nil, fmt.Errorf("--prometheus: OSL: %w", err)
	}
	all, err := trace.Generate(spec)
	if err != nil {
		return nil, err
	}
	return collected(all)
}

// lengthsThrough are log-normal lengths; all equal where the p99 is the mean.
func lengthsThrough(mean, p99 float64) (trace.Lengths, error) {
	if math.IsNaN(p99) || math.IsInf(p99, 1) {
		return nil, errors.New("the p99 is not known")
	}
	if p99 <= mean {
		return trace.Fixed(int(mean + 0.5)), nil
	}
	return trace.NewLogNormal(mean, p99, 0)
}
