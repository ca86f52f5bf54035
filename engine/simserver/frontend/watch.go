package frontend

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"
)

// Why the frontend ends a request whose worker does not.
var (
	errSilent = errors.New("it sends nothing")
	errLost   = errors.New("it does not answer")
)

// watch probes the ready workers and ends requests that wait in vain, until ctx is done.
func (f *Frontend) watch(ctx context.Context) {
	var probes sync.WaitGroup
	defer probes.Wait()
	tick := time.NewTicker(max(1, f.opts.ProbeInterval/5))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		for _, m := range f.pool.due(f.opts.ProbeInterval) {
			probes.Go(func() {
				err := f.probe(ctx, m.URL)
				if ctx.Err() != nil || !f.pool.probe(m, err, f.opts.LostAfter) {
					return
				}
				if err != nil {
					f.log.Printf("warning: worker %s is unreachable: %v: it gets no requests until it answers", m.Name, err)
				} else {
					f.log.Printf("worker %s answers again", m.Name)
				}
			})
		}
		f.pool.endSilent(f.opts.WorkerTimeout, f.opts.LostAfter)
	}
}

// probe asks a worker for its health. One that knows no such path is well.
func (f *Frontend) probe(ctx context.Context, url string) error {
	ctx, cancel := context.WithTimeout(ctx, f.opts.LostAfter)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/health", nil)
	if err != nil {
		return err
	}
	resp, err := f.client.Do(req)
	if err != nil {
		return err
	}
	_, _ = io.CopyN(io.Discard, resp.Body, maxInfo) // so that the connection is used again
	_ = resp.Body.Close()                           // only read
	if resp.StatusCode >= http.StatusInternalServerError {
		return fmt.Errorf("%w: /health says %s", errUnavailable, resp.Status)
	}
	return nil
}

// due are the workers to probe now: those that are ready, or were when they left the list.
func (p *pool) due(every time.Duration) []*member {
	p.mu.Lock()
	defer p.mu.Unlock()
	var out []*member
	for _, m := range slices.Concat(p.workers, p.leaving) {
		if m.State == Ready && !m.probing && time.Since(m.probed) >= every {
			m.probing = true
			out = append(out, m)
		}
	}
	return out
}

// probe takes down how a probe of m ended, and reports whether a worker of the list is
// lost or back by it. One that drains is left to whoever told it to.
func (p *pool) probe(m *member, err error, lostAfter time.Duration) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	was, now := m.lost != nil, time.Now()
	m.probing, m.probed = false, now
	switch {
	case err == nil:
		m.answered, m.lost = now, nil
		p.dispatch()
	case m.State == Ready && now.Sub(m.answered) >= lostAfter:
		m.lost = err
	}
	return was != (m.lost != nil) && slices.Contains(p.workers, m)
}

// endSilent ends the requests whose worker has sent nothing for most, or for lostAfter
// and is lost. One that refuses connections may drain, and what has no token yet may
// still come from it.
func (p *pool) endSilent(most, lostAfter time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for x := range p.held {
		silent := x.silent()
		timeout, ok := errors.AsType[net.Error](x.lost)
		hangs := ok && timeout.Timeout()
		switch {
		case silent == 0:
		case x.lost != nil && silent >= lostAfter && (x.begun || hangs):
			x.end(errLost)
		case most > 0 && silent >= most:
			x.end(fmt.Errorf("%w for %v", errSilent, most))
		}
	}
}

// waits notes that the request waits for the worker's next bytes until heard.
func (x *place) waits() { x.since.Store(max(1, int64(time.Since(x.taken)))) }

func (x *place) heard() { x.since.Store(0) }

// silent is how long the request has waited so far; 0 = it does not wait.
func (x *place) silent() time.Duration {
	since := x.since.Load()
	if since == 0 {
		return 0
	}
	return max(0, time.Since(x.taken)-time.Duration(since))
}

// watched is a worker's answer, whose place knows when it is waited for.
type watched struct {
	io.ReadCloser
	place *place
}

// Read implements io.Reader.
func (b watched) Read(p []byte) (int, error) {
	b.place.waits()
	defer b.place.heard()
	return b.ReadCloser.Read(p)
}
