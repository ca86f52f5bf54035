package observe

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"plimsoll/engine/redact"
	"plimsoll/planner"
)

// DefaultScrapeTimeout is how long one endpoint may take to answer.
const DefaultScrapeTimeout = 5 * time.Second

// atOnce is how many endpoints are scraped at once.
const atOnce = 64

// Endpoint is a process that says at a URL what it counted.
type Endpoint struct {
	Role planner.Role // of the engine; "" = a frontend, which sees each request once
	URL  string       // of its metrics: http://HOST:PORT/metrics
}

func (e Endpoint) String() string {
	return cmp.Or(string(e.Role), "frontend") + " " + redact.Text(e.URL)
}

// EnginesOptions say what to scrape.
type EnginesOptions struct {
	// Presets are the names to look for, the first choice first. An engine's are
	// the first that are PerEngine, or, where none are, those of auto.
	Presets []Names
	Model   string // exactly as the endpoints have it; "" = the only one there
	// List gives the endpoints that there are now; one that it does not give any
	// more is gone. It keeps to its context.
	List func(ctx context.Context) ([]Endpoint, error)
	// Client asks them; nil = one with connections of its own.
	Client *http.Client
	// PrefillQueue is a gauge of the frontends: the requests that wait for prefill
	// in all; "" = the prefill engines' own queues.
	PrefillQueue string
	Timeout      time.Duration // of one endpoint; 0 = DefaultScrapeTimeout
}

// Engines is a planner.Source over the metrics of engines and frontends
// themselves. It is not safe for concurrent use.
type Engines struct {
	o       EnginesOptions
	fleet   fleet
	ready   replicas // since the last Observe
	settled settled
	lately  lately
	workers []Names           // what engines are looked for by
	at      map[string]string // where endpoints have Prometheus' text, if elsewhere, by URL
	said    saidOnce
}

var _ planner.Source = (*Engines)(nil)

// NewEngines checks o; nothing is asked.
func NewEngines(o EnginesOptions) (*Engines, error) {
	var errs []error
	if len(o.Presets) == 0 {
		errs = append(errs, errors.New("no names of metrics are given: want one preset at least"))
	}
	if o.List == nil {
		errs = append(errs, errors.New("no list of endpoints is given"))
	}
	if o.Timeout < 0 {
		errs = append(errs, fmt.Errorf("the time for an endpoint is %v: want above 0, or 0 for %v", o.Timeout, DefaultScrapeTimeout))
	}
	o.Timeout = cmp.Or(o.Timeout, DefaultScrapeTimeout)
	if o.Client == nil {
		transport := &http.Transport{MaxIdleConnsPerHost: 1, IdleConnTimeout: time.Minute}
		o.Client = &http.Client{Transport: transport}
	}
	e := &Engines{o: o, ready: replicas{}, workers: perEngine(o.Presets), said: saidOnce{}, fleet: fleet{queue: o.PrefillQueue != ""}}
	return e, errors.Join(errs...)
}

// Sample looks at all endpoints once, and ends with its context. It fails where
// the endpoints could not be listed, or none of them answered; those that failed
// are named by Observe.
func (e *Engines) Sample(ctx context.Context, s planner.State) error {
	e.ready.note(s)
	e.settled.note(s)
	return e.look(ctx)
}

// Observe looks once more, gives what was seen since the last time, and begins
// anew. The first interval without a sample at its beginning has no counts.
func (e *Engines) Observe(ctx context.Context, start, end time.Time) (planner.Observation, error) {
	err := e.look(ctx)
	e.settled.next(start, end)
	i := e.fleet.interval(e.ready)
	e.fleet.partly(&i, e.settled)
	i.start, i.length = start, end.Sub(start)
	e.fleet.next()
	e.ready = replicas{}
	e.lately.see(&i)
	if err != nil {
		return planner.Observation{}, err
	}
	e.said.news(&i)
	return i.observation(), nil
}

// look scrapes the endpoints that there are.
func (e *Engines) look(ctx context.Context) error {
	endpoints, err := e.o.List(ctx)
	if err != nil {
		e.fleet.unlisted()
		return fmt.Errorf("listing the endpoints: %w", err)
	}
	looks := make([]glance, len(endpoints))
	var wait sync.WaitGroup
	free := make(chan struct{}, atOnce)
	for i, p := range endpoints {
		free <- struct{}{}
		wait.Go(func() {
			defer func() { <-free }()
			read, at, err := e.scrape(ctx, p)
			looks[i] = glance{p, read, at, err}
		})
	}
	wait.Wait()
	e.fleet.looked(looks)
	failed := 0
	e.at = make(map[string]string, len(looks))
	for _, l := range looks {
		e.at[l.endpoint.URL] = l.at
		if l.err != nil {
			failed, err = failed+1, fmt.Errorf("%s: %w", l.endpoint, l.err)
		}
	}
	if failed > 0 && failed == len(looks) {
		return err
	}
	return nil
}

// glance is one look at an endpoint.
type glance struct {
	endpoint Endpoint
	reading  reading
	at       string // where it has Prometheus' text
	err      error
}

func (e *Engines) scrape(ctx context.Context, p Endpoint) (r reading, at string, err error) {
	asked, cancel := context.WithTimeout(ctx, e.o.Timeout)
	defer cancel()
	at = cmp.Or(e.at[p.URL], p.URL)
	x, err := scrapeOnce(asked, e.o.Client, at)
	if errors.Is(err, errJSON) {
		at = other(p.URL)
		if x, err = scrapeOnce(asked, e.o.Client, at); err != nil {
			err = fmt.Errorf("%w, and at %s: %w. trtllm-serve has it there with return_perf_metrics: true", errJSON, redact.Text(at), err)
		}
	}
	if err != nil {
		return reading{}, "", err
	}
	w := wish{server: p.URL, presets: e.o.Presets, model: e.o.Model}
	var c choice
	if p.Role == "" {
		c, _, err = w.choose(x.series())
	} else {
		w.presets = e.workers
		c, err = w.engines(x.series(), Names{})
	}
	if err == nil && c.names.Preset == "" && p.Role != "" {
		err = fmt.Errorf("none of its %d series are of an engine by the names of %v", len(x), presetWords(w.presets))
	}
	if c.twice {
		err = errors.New(twiceWords)
	}
	if err != nil {
		return reading{}, "", err
	}
	return c.read(x, e.o.PrefillQueue), at, nil
}
