package local

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"syscall"
	"time"

	"plimsoll/engine"
	"plimsoll/engine/process"
	"plimsoll/engine/scrape"
)

const (
	// probeTimeout bounds one answer of a worker: one that computes a long step
	// may be late, but a turn must not wait long for it.
	probeTimeout = 2 * time.Second
	// revokeTimeout bounds one try to revoke a lease.
	revokeTimeout = 5 * time.Second
	// probesAtOnce bounds how many workers are asked at the same time.
	probesAtOnce = 32
	// looksAtReady is how often a ready worker is asked in Options.HungAfter.
	looksAtReady = 6

	metricsPath = "/metrics"
)

// sight is what one look at a worker saw, which is not known where it did not
// look. It is taken without the lock, and used only if the worker is still the
// same.
type sight struct {
	of       process.Handle
	unready  error  // why its ready path does not say that it is ready; nil: it does, and is the worker's
	silent   error  // why its ready path gives no answer at all; nil: it does
	requests int    // running and waiting, where known
	known    bool   // its metrics said so
	why      error  // else, what they said
	revoked  string // its lease as it was recorded, which is no more
	unrevoke error  // else, why it could not be revoked

	metrics scrape.Reading // all that they said
}

// probeClient talks to this machine only: no proxy, no redirect, no connection
// kept that a worker which drains would wait for.
func probeClient(o Options) *http.Client {
	return &http.Client{
		Transport:     &http.Transport{Proxy: nil, DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Timeout:       min(probeTimeout, o.HungAfter/2),
	}
}

// past is what this run has seen of a worker.
type past struct {
	of                    process.Handle
	at                    time.Time // of the last look
	unready, silent, mute absence   // of a good answer at its ready path, of any there, of any from its metrics
	requests              int       // that its metrics said last, where they ever did
	known                 bool
	why                   error // else, what they said
	cut                   bool  // it is not waited for any more

	metrics scrape.Reading // as they were read last
	moved   time.Time      // when they changed
	counts  bool           // they have counters
}

// absence is what a worker owes since a look that did not find it.
type absence struct {
	since time.Time // zero: it is there
	why   error
}

// found takes in a look: nil where it is there.
func (a *absence) found(now time.Time, why error) {
	if why == nil {
		*a = absence{}
		return
	}
	if a.why = why; a.since.IsZero() {
		a.since = now
	}
}

func (a absence) lasts(now time.Time, long time.Duration) bool {
	return !a.since.IsZero() && now.Sub(a.since) >= long
}

// noAnswer is err where nobody answered, in time or at all.
func noAnswer(err error) error {
	if _, ok := errors.AsType[net.Error](err); ok {
		return err
	}
	return nil
}

// pastOf is what this run has seen of the very process that the entry is about.
func (t *Target) pastOf(name string, e *entry) *past {
	if p := t.past[name]; p == nil || p.of != e.own.handle() {
		t.past[name] = &past{of: e.own.handle(), why: errors.New("they were not read yet")}
	}
	return t.past[name]
}

// add takes in a look at a worker that was ready.
func (p *past) add(now time.Time, o record, s sight) {
	p.at = now
	p.unready.found(now, s.unready)
	// One that got TERM and finishes its requests may listen no more.
	if o.TermAt.IsZero() || !errors.Is(s.silent, syscall.ECONNREFUSED) {
		p.silent.found(now, s.silent)
	}
	p.mute.found(now, noAnswer(s.why))
	if s.known || p.mute.since.IsZero() || !p.known {
		p.requests, p.known, p.why = s.requests, s.known, s.why
	}
	if s.metrics.Engine != "" && (s.metrics != p.metrics || p.moved.IsZero()) {
		p.metrics, p.moved = s.metrics, now
	}
	p.counts = p.counts || s.metrics.Work.Known
}

// lost says how many requests end with a worker that was cut off.
func (p *past) lost() string {
	switch {
	case !p.cut || p.known && p.requests == 0 && p.silent.since.IsZero():
		return ""
	case !p.known:
		return fmt.Sprintf("; how many requests were lost is unknown by its metrics: %v", p.why)
	case p.mute.since.IsZero():
		return fmt.Sprintf("; %s lost", engine.Count(p.requests, "request"))
	default:
		return fmt.Sprintf("; %s lost by its last metrics, and any that came since", engine.Count(p.requests, "request"))
	}
}

// watch takes in what was seen of the workers, and replaces ready ones that do not answer:
// of each pool one at a time, as what keeps all of them from answering may be this machine.
func (r *turn) watch() {
	for _, name := range r.doc.names() {
		e := r.doc.entries[name]
		s, seen := r.sight(name, e)
		if !seen || e.own.State == Starting {
			continue
		}
		p := r.pastOf(name, e)
		p.add(r.now, e.own, s)
		if e.own.State != Ready {
			continue
		}
		gone, where := p.unready, r.readyPath(name)
		if !gone.lasts(r.now, r.opts.HungAfter) {
			gone, where = p.mute, metricsPath
		}
		base, _ := split(name)
		b := r.doc.entries[base]
		recovers := b != nil && b.own.Failures > 0 && b.own.Want != nil && len(r.doc.of(base, Ready)) < *b.own.Want
		if gone.lasts(r.now, r.opts.HungAfter) && !recovers {
			r.fail(name, e.own.ReadyAt, fmt.Sprintf("%s: has not answered at %s for %v: replaced (%v)", name, where, r.opts.HungAfter, gone.why))
			e.own.State, e.own.DrainAt = Draining, r.now
		}
	}
}

// see looks at the workers: at ready ones a few times in Options.HungAfter, at others each
// time, as their next phase depends on what they answer.
func (t *Target) see(ctx context.Context, d *document) map[string]sight {
	var mu sync.Mutex
	var wg sync.WaitGroup
	seen := map[string]sight{}
	slots := make(chan struct{}, probesAtOnce)
	for _, name := range d.names() {
		e := d.entries[name]
		if e.own.State == "" || e.own.PID == 0 {
			continue
		}
		if e.own.State == Ready && t.now().Sub(t.pastOf(name, e).at) < t.opts.HungAfter/looksAtReady {
			continue
		}
		slots <- struct{}{}
		wg.Go(func() {
			s := t.seeOne(ctx, name, e)
			<-slots
			mu.Lock()
			defer mu.Unlock()
			seen[name] = s
		})
	}
	wg.Wait()
	return seen
}

func (t *Target) seeOne(ctx context.Context, name string, e *entry) sight {
	s := sight{of: e.own.handle()}
	if e.own.State == Starting {
		s.unready, s.silent = t.health(ctx, name, e.own)
		return s
	}
	if e.own.State == Draining {
		s.revoked, s.unrevoke = t.revoke(ctx, e)
		if who, foreign := t.foreign(e.own); foreign {
			s.why = fmt.Errorf("its port %d belongs to %s", e.own.Port, who)
			s.unready = s.why
			return s
		}
	}
	var both sync.WaitGroup
	both.Go(func() { s.read(ctx, t.client, e.own.URL+metricsPath) })
	s.unready, s.silent = t.health(ctx, name, e.own)
	both.Wait()
	return s
}

// readyPath is where a worker says that it is ready.
func (t *Target) readyPath(name string) string {
	if p, ok := t.pool(name); ok {
		return p.Template.ReadyPath
	}
	return defaultReadyPath
}

// health asks at the ready path, and whose answer it was.
func (t *Target) health(ctx context.Context, name string, r record) (unready, silent error) {
	url := r.URL + t.readyPath(name)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err, nil
	}
	resp, err := t.client.Do(req)
	if err != nil {
		return err, err
	}
	if err := resp.Body.Close(); err != nil || resp.StatusCode < 200 || resp.StatusCode > 299 {
		return fmt.Errorf("%s answers %s", url, resp.Status), nil
	}
	if who, foreign := t.foreign(r); foreign {
		return fmt.Errorf("its port %d belongs to %s", r.Port, who), nil
	}
	return nil, nil
}

// revoke ends the lease that is recorded, if there is one, and gives it back as
// it is written.
func (t *Target) revoke(ctx context.Context, e *entry) (string, error) {
	id, recorded, err := e.lease()
	if !recorded || err != nil || t.opts.Leases == nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, revokeTimeout)
	defer cancel()
	if err := t.opts.Leases.Revoke(ctx, id); err != nil {
		return "", fmt.Errorf("revoking lease %d: %w", id, err)
	}
	return string(e.rest[keyLease]), nil
}

// read asks a worker for its own metrics, and what it has running and waiting by them.
func (s *sight) read(ctx context.Context, client *http.Client, url string) {
	r, err := scrape.Read(ctx, client, url)
	s.metrics, s.why = r, err
	if s.known = r.Running.Known && r.Waiting.Known; s.known {
		s.requests = r.Running.Int() + r.Waiting.Int()
	} else if err == nil {
		s.why = fmt.Errorf("%s does not say how many requests run and wait", url)
	}
}

// pool is the pool that a worker belongs to.
func (t *Target) pool(name string) (Pool, bool) {
	for _, p := range t.opts.Pools {
		if belongs(name, t.opts.base(p)) {
			return p, true
		}
	}
	return Pool{}, false
}
