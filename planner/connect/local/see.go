package local

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

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
)

// sight is what one look at a worker saw, which is not known where it did not
// look. It is taken without the lock, and used only if the worker is still the
// same.
type sight struct {
	of       process.Handle
	answers  bool   // at its ready path, and it is the worker that answered
	requests int    // running and waiting, where known
	known    bool   // its metrics said so
	why      error  // else, what they said
	revoked  string // its lease as it was recorded, which is no more
	unrevoke error  // else, why it could not be revoked
}

// probeClient talks to this machine only: no proxy, no redirect, no connection
// kept that a worker which drains would wait for.
func probeClient() *http.Client {
	return &http.Client{
		Transport:     &http.Transport{Proxy: nil, DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Timeout:       probeTimeout,
	}
}

// see looks at the workers whose next phase depends on what they answer.
func (t *Target) see(ctx context.Context, d *document) map[string]sight {
	var mu sync.Mutex
	var wg sync.WaitGroup
	seen := map[string]sight{}
	slots := make(chan struct{}, probesAtOnce)
	for _, name := range d.names() {
		e := d.entries[name]
		if e.own.State != Starting && e.own.State != Draining {
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
	if e.own.PID == 0 {
		return s
	}
	if e.own.State == Starting || e.own.ReadyAt.IsZero() {
		s.answers = t.answers(ctx, name, e.own)
	}
	if e.own.State != Draining {
		return s
	}
	s.revoked, s.unrevoke = t.revoke(ctx, e)
	if who, foreign := t.foreign(e.own); foreign {
		s.why = fmt.Errorf("its port %d belongs to %s", e.own.Port, who)
		return s
	}
	s.requests, s.known, s.why = t.requests(ctx, e.own.URL)
	return s
}

// answers asks at the ready path, and whose answer it was.
func (t *Target) answers(ctx context.Context, name string, r record) bool {
	path := "/health"
	if p, ok := t.pool(name); ok {
		path = p.Template.ReadyPath
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.URL+path, nil)
	if err != nil {
		return false
	}
	resp, err := t.client.Do(req)
	if err != nil {
		return false
	}
	if err := resp.Body.Close(); err != nil || resp.StatusCode < 200 || resp.StatusCode > 299 {
		return false
	}
	_, foreign := t.foreign(r)
	return !foreign
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

// requests are what a worker has running and waiting, by its own metrics.
func (t *Target) requests(ctx context.Context, url string) (n int, known bool, why error) {
	r, err := scrape.Read(ctx, t.client, url+"/metrics")
	if err != nil {
		return 0, false, err
	}
	if !r.Running.Known || !r.Waiting.Known {
		return 0, false, fmt.Errorf("the metrics of %s do not say how many requests run and wait", url)
	}
	return r.Running.Int() + r.Waiting.Int(), true, nil
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
