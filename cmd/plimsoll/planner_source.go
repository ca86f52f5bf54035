package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"plimsoll/engine"
	"plimsoll/engine/field"
	"plimsoll/engine/redact"
	"plimsoll/planner"
	"plimsoll/planner/connect/local"
	"plimsoll/planner/observe"
)

// The Prometheus server of Dynamo's planner (planner/defaults.py of its releases of 2025;
// planner/config/defaults.py of main, read in November 2026): in its local environment, and
// in a cluster.
const (
	prometheusVar     = "PROMETHEUS_ENDPOINT"
	localPrometheus   = "http://localhost:9090"
	clusterPrometheus = "http://prometheus-kube-prometheus-prometheus.monitoring.svc.cluster.local:9090"
)

// prometheus is the server to ask, and whether that is only the default.
func (p *parser) prometheus() (endpoint string, assumed bool) {
	where := p.c.String("environment")
	switch {
	case p.c.IsSet("prometheus-endpoint") || p.c.IsSet("metrics-endpoints"), where == "local" && p.anyWorkerCommand():
		return p.name("prometheus-endpoint"), false
	case where == "local":
		return cmp.Or(os.Getenv(prometheusVar), localPrometheus), true
	default:
		return cmp.Or(os.Getenv(prometheusVar), clusterPrometheus), true
	}
}

// source makes what the deployment is observed by.
func (u *plannerUnit) source(c *cli.Context, out *plannerOutputs) (planner.Source, error) {
	p := &parser{c: c}
	preset := p.choice("backend", observe.Words()...)
	endpoint, assumed := p.prometheus()
	if assumed && !c.IsSet("backend") {
		preset = "auto"
	}
	if assumed && !out.quiet {
		say(out.err, "note", "%s: metrics come from Prometheus at %s (--prometheus-endpoint or $%s names another, --metrics-endpoints the engines)", u.settings.name, redact.Text(endpoint), prometheusVar)
	}
	p.needs(endpoint != "", "with --prometheus-endpoint", "prometheus-bearer-token-file", "prefill-queue-query", "prefill-selector", "decode-selector", "metrics-namespace")
	p.needs(endpoint == "", "without --prometheus-endpoint", "metrics-endpoints", "prefill-queue-metric")
	if p.err != nil {
		return nil, p.err
	}
	if endpoint == "" {
		return u.engines(p, preset)
	}
	server, err := observe.Dial(observe.Options{URL: endpoint, BearerToken: p.secretFile("prometheus-bearer-token-file"), Timeout: 10 * time.Second})
	if err != nil {
		name := "--prometheus-endpoint"
		if assumed {
			name = "$" + prometheusVar
		}
		p.fail(field.Errorf("%s: %v", name, err))
	}
	selectors := map[planner.Role]map[string]string{}
	for _, pool := range u.settings.deployment.Pools {
		if s := p.selector(string(pool.Role)); len(s) > 0 {
			selectors[pool.Role] = s
		}
	}
	if p.err == nil {
		p.err = u.settings.wakes([]observe.Endpoint{{URL: endpoint}})
	}
	if p.err != nil {
		return nil, p.err
	}
	return observe.NewLive(server, observe.LiveOptions{
		Presets: observe.Presets(preset), Model: u.settings.model, Namespace: p.name("metrics-namespace"), Selectors: selectors,
		PrefillQueueQuery: p.name("prefill-queue-query"),
	})
}

// selector reads label=value pairs of a pool's series.
func (p *parser) selector(role string) map[string]string {
	flag := role + "-selector"
	if role == string(engine.RoleAggregated) {
		flag = "decode-selector"
	}
	out := map[string]string{}
	for _, pair := range fields(p.c.String(flag)) {
		label, value, ok := strings.Cut(pair, "=")
		if !ok || label == "" {
			p.fail(field.Errorf("--%s %q: want label=value, several separated by commas", flag, pair))
			return nil
		}
		out[label] = strings.Trim(value, `"`)
	}
	return out
}

// engines scrapes what is named, or this machine's workers.
func (u *plannerUnit) engines(p *parser, preset string) (planner.Source, error) {
	given, err := metricsEndpoints(p.name("metrics-endpoints"))
	if err != nil {
		return nil, err
	}
	where := p.c.String("environment")
	if err := u.settings.wakes(given); err != nil {
		return nil, err
	}
	list := func(context.Context) ([]observe.Endpoint, error) { return given, nil }
	if where == "local" {
		path, err := local.Path(u.settings.name)
		if err != nil {
			return nil, field.Errorf("%v", err)
		}
		list = func(context.Context) ([]observe.Endpoint, error) { return withWorkers(path, given) }
	}
	return observe.NewEngines(observe.EnginesOptions{Presets: observe.Presets(preset), Model: u.settings.model, List: list, Client: http.DefaultClient, PrefillQueue: p.name("prefill-queue-metric")})
}

// wakes refuses pools that may be switched off where only their engines say what comes:
// engines that are gone say nothing, and nobody would ask for them again.
func (s plannerSettings) wakes(given []observe.Endpoint) error {
	off := slices.ContainsFunc(s.deployment.Pools, func(p planner.Pool) bool { return p.Min == 0 })
	if off && s.policy == "load" {
		return field.Errorf("--min-endpoint 0: --policy load decides by what engines say, so nothing would wake them").Hint("--min-endpoint 1, or a --profile and --policy default")
	}
	if off && !slices.ContainsFunc(given, func(e observe.Endpoint) bool { return e.Role == "" }) {
		return field.Errorf("--min-endpoint 0: no engine sees requests while all are switched off, so nothing would wake them").
			Hint("--metrics-endpoints frontend=http://HOST:PORT/metrics names what sees requests first, --prometheus-endpoint has its metrics, too; or --min-endpoint 1")
	}
	return nil
}

// withWorkers are the endpoints given and the workers of the state file that
// serve, draining ones included: they still finish requests.
func withWorkers(path string, given []observe.Endpoint) ([]observe.Endpoint, error) {
	workers, err := local.Workers(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	all := append([]observe.Endpoint{}, given...)
	for _, w := range workers {
		if w.State == local.Ready || w.State == local.Draining {
			all = append(all, observe.Endpoint{Role: w.Role, URL: w.URL + "/metrics"})
		}
	}
	return all, nil
}

// metricsEndpoints reads role=URL pairs, the role frontend for what sees each
// request once.
func metricsEndpoints(s string) ([]observe.Endpoint, error) {
	var out []observe.Endpoint
	for _, pair := range fields(s) {
		role, address, ok := strings.Cut(pair, "=")
		bad := func(why string) error {
			return field.Errorf("--metrics-endpoints %q: %s", pair, why).Hint("frontend=http://HOST:PORT/metrics, prefill=…, decode=…, aggregated=…")
		}
		if !ok {
			return nil, bad("want role=URL")
		}
		u, err := url.Parse(address)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			return nil, bad(fmt.Sprintf("%q is no URL of http or https", address))
		}
		if u.Path == "" {
			return nil, field.Errorf("--metrics-endpoints %q: want the whole address, with its path", pair).Hint("%s=%s://%s/metrics", role, u.Scheme, u.Host)
		}
		switch r := engine.Role(role); r {
		case engine.RolePrefill, engine.RoleDecode, engine.RoleAggregated:
			out = append(out, observe.Endpoint{Role: r, URL: address})
		case "frontend":
			out = append(out, observe.Endpoint{URL: address})
		default:
			return nil, bad(fmt.Sprintf("the role %q is none of frontend, prefill, decode, aggregated", role))
		}
	}
	return out, nil
}
