package main

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"plimsoll/engine"
	"plimsoll/engine/field"
	"plimsoll/engine/process"
	"plimsoll/profile/load"
	"plimsoll/sweep"
)

// Times that bound the embedded engine; others have --ready-timeout.
const (
	simReady  = 30 * time.Second
	stopGrace = 10 * time.Second
	portTries = 3
)

// launcher starts engines for the sweep: child processes, or none for an
// endpoint.
type launcher struct {
	opts profileOptions
	dep  deployment
	note func(format string, args ...any)
	http *http.Client
}

func newLauncher(o profileOptions, d deployment, note func(string, ...any)) *launcher {
	return &launcher{opts: o, dep: d, note: note, http: infoClient(o)}
}

// Launch implements sweep.Launcher. Its errors may quote an engine's log.
func (l *launcher) Launch(ctx context.Context, cfg engine.Config) (*sweep.Instance, error) {
	in, err := l.launch(ctx, cfg)
	return in, l.opts.hidden.clean(err)
}

func (l *launcher) launch(ctx context.Context, cfg engine.Config) (*sweep.Instance, error) {
	if l.dep.kind == engine.KindEndpoint {
		return l.attach(ctx, l.opts.endpoint, cfg, nil)
	}
	virtual, err := l.virtual(cfg) // before there is a process that its error would leave
	if err != nil {
		return nil, err
	}
	var last error
	for range portTries {
		p, argv, err := l.start(ctx, cfg)
		if err == nil {
			in, err := l.attach(ctx, p.URL(), cfg, p)
			if err != nil {
				return nil, errors.Join(err, died(ctx, p), p.Stop(context.WithoutCancel(ctx)))
			}
			in.Facts.Command = l.opts.redacted(argv)
			if virtual != nil {
				in.Surfaces = virtual
				if l.opts.loadsVirtually(l.dep.kind) {
					in.Play = virtual.Play
				}
			}
			return in, nil
		}
		if last = err; !errors.Is(err, process.ErrPortInUse) {
			break // another port would not help
		}
	}
	return nil, last
}

// virtual is the like of an embedded engine in virtual time, for what passes there; nil
// where nothing does.
func (l *launcher) virtual(cfg engine.Config) (*sweep.Instance, error) {
	if !l.opts.surfacesVirtually(l.dep.kind) {
		return nil, nil //nolint:nilnil // there is none, and nothing is wrong
	}
	return estimator{l.opts, l.dep}.Launch(context.Background(), cfg)
}

// running is an engine that was started.
type running interface {
	URL() string
	Log() (io.ReadCloser, error)
	LogPath() string
	Done() <-chan struct{} // closed when it has ended
	Err() error            // why it ended by itself
	Stop(ctx context.Context) error
}

// died is how an engine that just failed to answer has ended; nil where it runs.
func died(ctx context.Context, p running) error {
	waitEnd(ctx, p.Done())
	return p.Err()
}

// start runs one engine until it answers; what it returns with an error is stopped.
func (l *launcher) start(ctx context.Context, cfg engine.Config) (*process.Process, []string, error) {
	spec, err := l.spec(cfg)
	if err != nil {
		return nil, nil, err
	}
	l.note("starting %s: %s", spec.Name, strings.Join(l.opts.redacted(spec.Argv), " "))
	p, err := process.Start(ctx, spec)
	if err != nil {
		return nil, nil, err
	}
	if err := p.Ready(ctx); err != nil {
		return nil, nil, errors.Join(err, p.Stop(context.WithoutCancel(ctx)))
	}
	return p, spec.Argv, nil
}

// spec is the process to start for a configuration.
func (l *launcher) spec(cfg engine.Config) (engine.Spec, error) {
	port, err := process.FreePort()
	if err != nil {
		return engine.Spec{}, err
	}
	name := l.opts.launchName(cfg)
	at := engine.Launch{Port: port, LogPath: l.opts.engineLog(name)}
	if len(l.dep.visible) > 0 {
		if at.GPUs, err = process.Assign(deviceIDs(l.dep.visible), nil, cfg.GPUs()); err != nil {
			return engine.Spec{}, err
		}
	}
	spec, err := l.dep.server.Spec(cfg, at)
	spec.Name = name
	return spec, err
}

// launchName tells the engines of a run apart: the layout, and the phase where an
// engine is for one alone.
func (o profileOptions) launchName(cfg engine.Config) string {
	slug := cfg.Slug()
	switch {
	case o.mode == sweep.Aggregated && cfg.PrefixCaching:
		return "surfaces " + slug
	case o.mode == sweep.Aggregated:
		return slug
	case !cfg.PrefixCaching:
		return "prefill " + slug
	case o.search == sweep.Grid:
		return "decode " + slug
	}
	return slug
}

// engineLog is where an engine's log is kept.
func (o profileOptions) engineLog(name string) string {
	return filepath.Join(o.dir, "engines", strings.ReplaceAll(name, " ", "_")+".log")
}

// meterOf reads what others take of this machine while the engine at a URL is under load.
func meterOf(ctx context.Context, base string) *process.Meter {
	u, err := url.Parse(base)
	if err != nil {
		return nil
	}
	port, err := strconv.Atoi(cmp.Or(u.Port(), map[string]string{"http": "80", "https": "443"}[u.Scheme]))
	if err != nil {
		return nil
	}
	return process.NewMeter(ctx, u.Hostname(), port)
}

// attach makes an Instance of a server that answers; p is nil where it is not
// ours.
func (l *launcher) attach(ctx context.Context, url string, cfg engine.Config, p running) (*sweep.Instance, error) {
	o := load.Options{
		BaseURL: url, Model: l.dep.modelName, APIKey: load.Secret(l.opts.apiKey), Headers: l.opts.headers,
		Endpoint: l.opts.api, TokenIDs: l.dep.kind == engine.KindSim, Timeout: l.opts.requestTimeout,
	}
	for _, s := range l.opts.hidden.all() {
		o.Secrets = append(o.Secrets, load.Secret(s))
	}
	if l.dep.model != nil {
		o.Vocab = l.dep.model.Vocab
	}
	if isReal(string(l.dep.kind)) {
		o.Model = "" // the only one that was started; a path's name differs between engines
	}
	bases := make(chan time.Time, 1)
	o.OnStart = func(base time.Time) {
		select {
		case bases <- base:
		default: // a probe's, which nobody asks for
		}
	}
	stop := l.dep.failing
	if stop != nil {
		o.OnDone = stop.Done
	}
	client, err := load.New(o)
	if err != nil {
		return nil, field.Errorf("--endpoint: %v", err)
	}
	facts, told, err := l.facts(ctx, client, url, cfg, p)
	if err != nil {
		return nil, err
	}
	m := measurer{client: client, http: l.http, bases: bases, stop: stop, meter: meterOf(ctx, url)}
	if told.counts {
		m.url = url + "/metrics"
	}
	in := &sweep.Instance{Facts: facts, Found: p == nil, Died: func() error { return nil }, Stop: func(context.Context) error { return nil }}
	if p != nil {
		m.ended, in.Died, in.Stop = p.Done(), func() error { return l.opts.hidden.clean(p.Err()) }, p.Stop
	}
	in.Measurer, in.Play = m, m.play
	// With several replicas of attention nobody chooses the one whose stream is canceled. An
	// endpoint's may each have a prefix cache, so that streams are what spares the prompts.
	if told.tokens && (cfg.Parallelism.Normal().DP == 1 || p == nil) {
		in.Climb = m.climb
	}
	return in, nil
}
