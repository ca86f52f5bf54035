package frontend

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"plimsoll/engine"
	"plimsoll/engine/enginetest"
)

// says answers a request with so much, and then with nothing.
func says(contentType, text string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if contentType != "" {
			w.Header().Set("Content-Type", contentType)
			_, _ = io.WriteString(w, text)
			_ = http.NewResponseController(w).Flush()
		}
		<-r.Context().Done()
	}
}

// A worker that is well and sends nothing more: the client learns of it, and another
// worker, where the request would take as long, is not asked.
func TestWorkerThatFallsSilent(t *testing.T) {
	for name, c := range map[string]struct {
		silent http.HandlerFunc
		stream bool
	}{
		"at once":          {says("", ""), true},
		"after the header": {says("text/event-stream", ""), true},
		"after a token":    {says("text/event-stream", oneToken), true},
		"whole":            {says("", ""), false},
		"whole, begun":     {says("application/json", `{"id":`), false},
	} {
		t.Run(name, func(t *testing.T) {
			var other atomic.Int64
			s := serve(t, Options{WorkerTimeout: 150 * time.Millisecond, ProbeInterval: 5 * time.Millisecond},
				handled(t, "silent", engine.RoleAggregated, c.silent),
				handled(t, "other", engine.RoleAggregated, func(http.ResponseWriter, *http.Request) { other.Add(1) }))
			a := s.post(t.Context(), "/v1/completions", ask("a", 50, c.stream))
			begun := strings.HasPrefix(a.body, oneToken+`data: {"error"`)
			if begun != (name == "after a token") || begun != (a.err != nil) || begun == (a.status == http.StatusGatewayTimeout) {
				t.Errorf("status %d, and the connection ended with %v: %s", a.status, a.err, a.body)
			}
			if got := read(t, a.body); !strings.Contains(got.error, "worker silent broke off") || !strings.Contains(got.error, "it sends nothing for 150ms") || !strings.Contains(a.body, `"code":504`) {
				t.Errorf("%s", a.body)
			}
			s.failedOnce(&other)
		})
	}
}

// A worker that hangs as a whole gets no more requests until it answers again. Those
// that have nothing from it go elsewhere, those that have a token end with an error.
func TestWorkerThatHangs(t *testing.T) {
	var hangs atomic.Bool
	asked, goesOn := make(chan struct{}), make(chan struct{})
	isAsked := sync.OnceFunc(func() { close(asked) })
	var log bytes.Buffer
	hung := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		q, _ := io.ReadAll(r.Body)
		switch {
		case strings.Contains(string(q), `"begun"`):
			says("text/event-stream", oneToken)(w, r)
		case strings.Contains(string(q), `"stream":true`):
			isAsked()
			says("text/event-stream", "")(w, r)
		case r.Method == http.MethodPost:
			says("", "")(w, r)
		case hangs.Load():
			select {
			case <-goesOn:
			case <-r.Context().Done():
			}
		}
	}))
	t.Cleanup(hung.Close)
	other := handled(t, "other", engine.RoleAggregated, func(w http.ResponseWriter, r *http.Request) {
		q, _ := io.ReadAll(r.Body)
		<-asked // so that both have some
		if strings.Contains(string(q), `"stream":true`) {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, oneToken+lastToken+finished)
		}
	})
	s := serve(t, Options{ProbeInterval: 5 * time.Millisecond, LostAfter: 400 * time.Millisecond, Log: &log},
		worker{Worker: Worker{Name: "hung", Role: engine.RoleAggregated, URL: hung.URL, State: Ready}}, other)
	health := func(want string) func() bool {
		return func() bool { _, text := s.get("/health"); return strings.Contains(text, want) }
	}
	begun := make(chan answered, 1)
	go func() { begun <- s.post(t.Context(), "/v1/completions", ask("begun", 50, true)) }()
	enginetest.Eventually(t, "a stream begins", func() bool { return s.metric("dynamo_frontend_output_tokens_total") == 1 })
	hangs.Store(true)
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			if a := s.post(t.Context(), "/v1/completions", ask("a", 50, i%2 == 0)); a.status != http.StatusOK || a.err != nil {
				t.Errorf("status %d, %v: %s", a.status, a.err, a.body)
			}
		})
	}
	if a := <-begun; a.err == nil || !strings.Contains(a.body, "it does not answer") || !strings.Contains(a.body, `"code":504`) {
		t.Errorf("%v: %s", a.err, a.body)
	}
	all.Wait()
	enginetest.Eventually(t, "it is known to be gone", health(`"name":"hung","role":"aggregated","state":"unreachable","in_flight":0`))
	if got := s.metric("plimsoll_frontend_workers", `state="unreachable"`); got != 1 {
		t.Errorf("%v workers unreachable", got)
	}
	tried := s.metric("plimsoll_frontend_retries_total")
	for range 4 {
		s.post(t.Context(), "/v1/completions", ask("a", 50, false))
	}
	if again := s.metric("plimsoll_frontend_retries_total"); tried == 0 || again != tried {
		t.Errorf("%v tries at the worker, then %v", tried, again)
	}
	close(goesOn)
	enginetest.Eventually(t, "it is back", health(`"name":"hung","role":"aggregated","state":"ready"`))
	_ = s.stop() // the log is whole
	for _, line := range []string{"worker hung is unreachable", "worker hung answers again"} {
		if n := strings.Count(log.String(), line); n != 1 {
			t.Errorf("%q %d times in\n%s", line, n, log.String())
		}
	}
}

// A worker that refuses connections may drain: what it computes is waited for.
func TestWorkerThatDrainsByItself(t *testing.T) {
	asked, goesOn := make(chan struct{}), make(chan struct{})
	drains := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			close(asked)
			<-goesOn
			_, _ = io.WriteString(w, "{}")
		}
	}))
	drains.Config.SetKeepAlivesEnabled(false)
	drains.Start()
	t.Cleanup(drains.Close)
	s := serve(t, Options{ProbeInterval: 5 * time.Millisecond, LostAfter: 400 * time.Millisecond},
		worker{Worker: Worker{Name: "drains", Role: engine.RoleAggregated, URL: drains.URL, State: Ready}})
	got := make(chan answered, 1)
	go func() { got <- s.post(t.Context(), "/v1/completions", ask("a", 50, false)) }()
	<-asked
	_ = drains.Listener.Close()
	enginetest.Eventually(t, "it is unreachable", func() bool {
		_, text := s.get("/health")
		return strings.Contains(text, `"state":"unreachable","in_flight":1`)
	})
	close(goesOn)
	if a := <-got; a.status != http.StatusOK || a.err != nil {
		t.Errorf("status %d, %v: %s", a.status, a.err, a.body)
	}
}

// How long a request may wait for its worker's next bytes.
func TestSilence(t *testing.T) {
	const most, lostAfter = 10 * time.Minute, 30 * time.Second
	timeout := context.DeadlineExceeded
	for _, c := range []struct {
		name  string
		probe error // of the worker, failing for lostAfter
		state State // of the worker then
		begun bool
		after time.Duration // ends by then, and not before
		why   error
	}{
		{"well", nil, Ready, false, most, errSilent},
		{"well, begun", nil, Ready, true, most, errSilent},
		{"hung", timeout, Ready, false, lostAfter, errLost},
		{"hung, begun", timeout, Ready, true, lostAfter, errLost},
		{"refuses", syscall.ECONNREFUSED, Ready, false, most, errSilent},
		{"refuses, begun", syscall.ECONNREFUSED, Ready, true, lostAfter, errLost},
		{"unavailable", errUnavailable, Ready, false, most, errSilent},
		{"unavailable, begun", errUnavailable, Ready, true, lostAfter, errLost},
		{"hung, and drained by its list", timeout, Draining, true, most, errSilent},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newPool(1, 1, ready(engine.RoleAggregated, "a")...)
				x := mustAcquire(t, p, first)
				ctx, end := context.WithCancelCause(t.Context())
				x.end = end
				if c.begun {
					p.begin(x)
				}
				time.Sleep(lostAfter)
				p.probe(x.member, c.probe, lostAfter)
				if serves := p.load().serves; serves != (c.probe == nil) {
					t.Errorf("serves %v after the probe's %v", serves, c.probe)
				}
				w := x.Worker
				w.State = c.state
				p.set([]Worker{w})
				p.probe(x.member, c.probe, 0)
				x.waits()
				time.Sleep(time.Hour)
				x.heard() // no more than a client that is slow
				p.endSilent(most, lostAfter)
				x.waits()
				time.Sleep(c.after - time.Nanosecond)
				p.endSilent(most, lostAfter)
				if ctx.Err() != nil {
					t.Fatalf("ended too early: %v", context.Cause(ctx))
				}
				time.Sleep(time.Nanosecond)
				if p.endSilent(0, lostAfter); errors.Is(c.why, errSilent) && ctx.Err() != nil {
					t.Errorf("ended without a bound: %v", context.Cause(ctx))
				}
				if p.endSilent(most, lostAfter); !errors.Is(context.Cause(ctx), c.why) {
					t.Errorf("%v, want %v", context.Cause(ctx), c.why)
				}
				p.release(x, false)
			})
		})
	}
}

// What a worker says to a probe.
func TestProbe(t *testing.T) {
	for status, well := range map[int]bool{200: true, 204: true, 401: true, 404: true, 405: true, 500: false, 503: false} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }))
			defer h.Close()
			s := serve(t, Options{})
			if err := s.front.probe(t.Context(), h.URL); (err == nil) != well {
				t.Error(err)
			}
		})
	}
}
