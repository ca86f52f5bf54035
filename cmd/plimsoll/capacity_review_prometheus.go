package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"plimsoll/capacity"
	"plimsoll/engine/field"
	"plimsoll/planner/observe"
	"plimsoll/profile/trace"
)

// observe reads the traffic that a Prometheus server saw.
func (r *review) observe(p *parser, window time.Duration) error {
	since, to := p.duration("since"), time.Now().Truncate(time.Second)
	asked := observe.Range{From: to.Add(-since), To: to, Window: window}
	wanted := observe.Wanted{Presets: observe.Presets("auto"), Model: p.name("served-model-name"), Namespace: p.name("prometheus-namespace"), From: asked.From, To: to}
	options := observe.Options{URL: p.name("prometheus"), BearerToken: p.secretFile("prometheus-bearer-token-file")}
	if p.err != nil {
		return p.err
	}
	server, err := observe.Dial(options)
	if err != nil {
		return field.Errorf("--prometheus: %v", err)
	}
	if err := asked.Check(); err != nil {
		return field.Errorf("--since: %v", err)
	}
	from, err := server.Find(p.c.Context, wanted)
	if err != nil {
		return unseen(p.c.Context, err)
	}
	if from.Names.PerEngine && r.plan.Strategy == capacity.Disaggregated {
		return field.WithHint(fmt.Errorf("--prometheus: %s has %s metrics of single engines. With separate prefill and decode, both count each request", server.Name(), from.Names.Preset),
			"a server that scrapes the frontend, or --trace with the requests themselves")
	}
	t, err := from.Traffic(p.c.Context, asked)
	if err != nil {
		return unseen(p.c.Context, err)
	}
	of := ""
	if from.Model != "" {
		of = " of " + from.Model
	}
	r.source = fmt.Sprintf("%s, %s metrics: %.0f requests%s in the last %s", server.Name(), from.Names.Preset, t.Requests, of, short(since))
	r.rate, r.warnings = t.Rate, t.Warnings
	return r.asWorkload(server.Name(), t)
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
		return field.WithHint(fmt.Errorf("--prometheus: %w", err), "a longer --since; does Prometheus scrape the engines? look at its page /targets")
	case errors.As(err, &failed) && failed.Hint != "":
		return field.WithHint(fmt.Errorf("--prometheus: %w", err), "%s", failed.Hint)
	}
	return fmt.Errorf("--prometheus: %w", err)
}

// asWorkload makes the measured traffic a workload to plan for.
func (r *review) asWorkload(server string, t observe.Traffic) error {
	r.assumed["max-model-len"] = "not known: the longest that is drawn"
	planned := r.plans.Workload
	w := capacity.Workload{Rate: t.Peak, Pattern: trace.Flat, PeakToAverage: max(1, t.Peak/t.Rate), PeakWindow: t.Range.Window}
	for _, x := range []struct {
		what         string
		seen         observe.Lengths
		ratio        float64 // of the planned p99 to the mean
		avgTo, p99To *float64
	}{
		{"ISL", t.ISL, planned.ISLP99 / planned.ISL, &w.ISL, &w.ISLP99},
		{"OSL", t.OSL, planned.OSLP99 / planned.OSL, &w.OSL, &w.OSLP99},
	} {
		if math.IsNaN(x.seen.Mean) {
			return field.WithHint(fmt.Errorf("--prometheus: %s does not give the mean %s, which a workload needs", server, x.what), "--trace with the requests themselves")
		}
		*x.avgTo = max(1, x.seen.Mean)
		*x.p99To = max(*x.avgTo, x.seen.P99.Value)
		if !x.seen.P99.Known {
			*x.p99To = *x.avgTo * x.ratio
			r.assumed[x.what+", p99"] = "not known: as many times the mean as planned"
		}
	}
	if w.Prefixes = planned.Prefixes; w.Prefixes.Groups > 0 { // no prompt has more than it is long
		w.Prefixes.Tokens = min(w.Prefixes.Tokens, max(1, int(w.ISL)))
		r.assumed["prompts begin alike by"] = "not known: as planned"
	}
	r.workload = w
	if _, err := r.workload.PeakTraffic(); err != nil {
		return fmt.Errorf("--prometheus: cannot make a workload of the traffic of %s: %s", server, strings.ReplaceAll(err.Error(), "\n", "; "))
	}
	return nil
}
