package main

import (
	"bytes"
	"compress/gzip"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"plimsoll/profile"
	"plimsoll/sweep"
)

// counter is a proxy in front of a server that counts what passes.
type counter struct {
	*httptest.Server
	failEvery int64 // every so many completions of a load fail; 0 = none

	now, top, all atomic.Int64 // completions in flight, at most, in all
	mu            sync.Mutex
	keys, marks   map[string]int // values of Authorization and X-Tenant
}

// forward is a reverse proxy that passes streams on as they come. It has each
// request whole first: net/http closes a body that is still being passed on
// once the answer to it begins.
func forward(to string) http.Handler {
	u, err := url.Parse(to)
	if err != nil {
		panic(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(u)
	proxy.FlushInterval = -1
	proxy.ErrorLog = log.New(io.Discard, "", 0) // a client that goes away is no news
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // the client is gone
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		proxy.ServeHTTP(w, r)
	})
}

func count(t *testing.T, to string, failEvery int64) *counter {
	t.Helper()
	c := &counter{failEvery: failEvery, keys: map[string]int{}, marks: map[string]int{}}
	proxy := forward(to)
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.mu.Lock()
		c.keys[r.Header.Get("Authorization")]++
		c.marks[r.Header.Get("X-Tenant")]++
		c.mu.Unlock()
		if !strings.HasSuffix(r.URL.Path, "/completions") {
			proxy.ServeHTTP(w, r)
			return
		}
		n := c.now.Add(1)
		counted := &countedAnswer{ResponseWriter: w, ends: sync.OnceFunc(func() { c.now.Add(-1) })}
		defer counted.ends()
		w = counted
		for old := c.top.Load(); n > old && !c.top.CompareAndSwap(old, n); old = c.top.Load() {
		}
		if r.ContentLength < 1000 { // of the few that find out what the server can do
			proxy.ServeHTTP(w, r)
			return
		}
		if all := c.all.Add(1); c.failEvery > 0 && all%c.failEvery == 0 {
			// A server that repeats what it was sent must not get it into a file.
			http.Error(w, `{"error":{"message":"overloaded, `+r.Header.Get("Authorization")+` `+r.Header.Get("X-Tenant")+`"}}`, http.StatusServiceUnavailable)
			return
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(c.Close)
	return c
}

// countedAnswer ends before its last bytes are passed on: the client may send its
// next request before the handler has returned.
type countedAnswer struct {
	http.ResponseWriter
	ends func()
}

func (a *countedAnswer) Write(b []byte) (int, error) {
	if bytes.Contains(b, []byte("[DONE]")) || !strings.HasPrefix(a.Header().Get("Content-Type"), "text/event-stream") {
		a.ends()
	}
	return a.ResponseWriter.Write(b)
}

// Unwrap lets the proxy flush.
func (a *countedAnswer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// Fewer requests at once help a server that is overloaded, not one with errors of its own.
func TestFailingHint(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(s.Close)
	for status, want := range map[int]string{http.StatusInternalServerError: "see the server's log", http.StatusServiceUnavailable: "if the server was overloaded"} {
		cause := &sweep.FailingError{Last: profile.Request{Failure: profile.FailStatus, Status: status}}
		if got := (profileOptions{endpoint: s.URL}).failingHint(cause); !strings.HasPrefix(got, want) {
			t.Errorf("status %d: %q", status, got)
		}
	}
}

// A client that sends its next request as soon as it has read the last byte never
// has two in flight, though the server's handler still runs.
func TestCountEndsWithTheLastByte(t *testing.T) {
	t.Parallel()
	var came atomic.Int64
	second := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if came.Add(1) == 2 {
			close(second)
		}
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "data: [DONE]\n\n")
		_ = http.NewResponseController(w).Flush()
		select {
		case <-second:
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(s.Close)
	c := count(t, s.URL, 0)
	for range 2 {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, c.URL+"/v1/completions", strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }()
		if _, err := io.ReadFull(resp.Body, make([]byte, len("data: [DONE]\n\n"))); err != nil {
			t.Fatal(err)
		}
	}
	if top := c.top.Load(); top != 1 {
		t.Errorf("%d in flight of one client", top)
	}
}

const (
	secretKey    = "sk-0123456789abcdef-key"
	secretTenant = "tenant-fedcba9876543210"
)

func endpoint(dir, url string, more ...string) []string {
	return append([]string{
		"profile-sla", "--endpoint", url, "--endpoint-gpus", "2", "--isl", "300", "--osl", "20", "--ttft", "1000", "--itl", "100",
		"--prefill-interpolation-granularity", "3", "--decode-interpolation-granularity", "2", "--max-context-length", "1000",
		"--output-dir", dir,
	}, more...)
}

// A server that refuses the credentials, and repeats them as it does.
func TestEndpointRefusesKey(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Error(w, `{"error":{"message":"bad key: `+r.Header.Get("Authorization")+` `+r.Header.Get("X-Tenant")+`"}}`, http.StatusUnauthorized)
	}))
	t.Cleanup(s.Close)
	dir := filepath.Join(t.TempDir(), "results")
	p := ran(t, exitFailed, endpoint(dir, s.URL, "--max-in-flight", "2", "--kv-tokens", "10000", "--verbose",
		"--api-key", secretKey, "--header", "X-Tenant: "+secretTenant)...)
	if !strings.Contains(p.errout.String(), "the server wants credentials") {
		t.Errorf("stderr:\n%s", &p.errout)
	}
	noSecrets(t, dir, p)
}

// unpacked is a file's text, also of a packed one.
func unpacked(t *testing.T, name, text string) string {
	t.Helper()
	if filepath.Ext(name) != ".gz" {
		return text
	}
	z, err := gzip.NewReader(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// noSecrets looks for the credentials in everything written, unpacked too.
func noSecrets(t *testing.T, dir string, p *program) {
	t.Helper()
	texts := tree(t, dir)
	texts["stdout"], texts["stderr"] = p.out.String(), p.errout.String()
	for name, text := range texts {
		text = unpacked(t, name, text)
		for _, secret := range []string{secretKey, secretTenant} {
			if bytes.Contains([]byte(text), []byte(secret)) {
				t.Errorf("%s holds a secret", name)
			}
		}
	}
}
