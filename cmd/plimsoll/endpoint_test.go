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
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"plimsoll/profile"
	"plimsoll/profile/store"
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

// A server that already runs, with credentials in front: it never gets more at
// once than it may, says itself that it is simulated whatever the user claims,
// and what it was let in with is written nowhere.
func TestEndpoint(t *testing.T) {
	if !raceDetector { // engine, proxy and client are slowed down by it: they need the machine
		t.Parallel()
	}
	s := serveEmbedded(t, "--gpu", unhurried, "--tp", "2", "--enable-prefix-caching")
	c := count(t, s.url, 0)
	dir := filepath.Join(t.TempDir(), "results")
	p := ran(t, exitDone, endpoint(dir, c.URL, "--max-in-flight", "6", "--provenance", "measured", "--verbose",
		"--api-key", secretKey, "--header", "X-Tenant: "+secretTenant)...)
	if top := c.top.Load(); top != 6 {
		t.Errorf("at most %d completions were in flight, want 6 reached and not passed", top)
	}
	for got, n := range c.keys {
		if got != "Bearer "+secretKey {
			t.Errorf("%d requests had Authorization %q", n, got)
		}
	}
	for got, n := range c.marks {
		if got != secretTenant {
			t.Errorf("%d requests had X-Tenant %q", n, got)
		}
	}
	rec, err := store.ReadRecommendation(dir)
	if err != nil {
		t.Fatal(err)
	}
	if rec.Provenance != profile.Simulated || rec.Engine.Kind != "endpoint" || rec.Decode.GPUs != 2 || rec.Model != simModel {
		t.Errorf("provenance %s, kind %s, %d GPUs, model %s", rec.Provenance, rec.Engine.Kind, rec.Decode.GPUs, rec.Model)
	}
	checkSimulatedFiles(t, dir)
	if !strings.HasPrefix(p.out.String(), "SIMULATED — not measured on a GPU\n") {
		t.Errorf("stdout:\n%s", &p.out)
	}
	checkFiles(t, dir, rec)
	noSecrets(t, dir, p)
	// The server is somebody's: it still runs.
	if code, _, err := get(t, s.url+"/health"); code != http.StatusOK {
		t.Errorf("afterwards the server answers %d, %v", code, err)
	}
	// A resumed run has the secrets from the environment, and is the same run.
	r := start(t, []string{"PLIMSOLL_API_KEY=" + secretKey, "PLIMSOLL_HEADERS=X-Tenant: " + secretTenant},
		endpoint(dir, c.URL, "--max-in-flight", "6", "--provenance", "measured", "--resume", "--verbose")...)
	if code := r.wait(t); code != exitDone {
		t.Errorf("exit code %d on --resume\n%s", code, &r.errout)
	}
	noSecrets(t, dir, r)
}

// Every tenth request fails: the run stops early, says how many failed and why,
// and what the server said about the credentials is written nowhere.
func TestEndpointStopsOnErrors(t *testing.T) {
	t.Parallel()
	s := serveEmbedded(t, "--gpu", unhurried, "--enable-prefix-caching")
	c := count(t, s.url, 10)
	dir := filepath.Join(t.TempDir(), "results")
	p := ran(t, exitFailed, endpoint(dir, c.URL, "--max-in-flight", "32", "--verbose",
		"--api-key", secretKey, "--header", "X-Tenant: "+secretTenant)...)
	stderr := p.errout.String()
	failed, sent := between(stderr, "too many requests failed: ", " of "), ""
	if _, rest, ok := strings.Cut(stderr, "too many requests failed: "+failed+" of "); ok {
		sent = rest[:strings.IndexFunc(rest, func(r rune) bool { return r < '0' || r > '9' })]
	}
	n, err1 := strconv.Atoi(failed)
	all, err2 := strconv.Atoi(sent)
	if err1 != nil || err2 != nil || 20*n < all {
		t.Errorf("%q failed of %q", failed, sent)
	}
	if !strings.Contains(stderr, "status 503") {
		t.Errorf("stderr does not say why they failed:\n%s", stderr)
	}
	if !strings.Contains(stderr, "plimsoll: hint: if the server was overloaded, lower --max-in-flight") {
		t.Errorf("stderr:\n%s", stderr)
	}
	if got := c.all.Load(); got > 50 {
		t.Errorf("%d requests were sent before it stopped", got)
	}
	run, err := store.ReadRun(dir)
	if err != nil || run.Complete {
		t.Errorf("run.json: complete %v, %v", run.Complete, err)
	}
	noSecrets(t, dir, p)
}

// A server that is killed amid the sweep: that is what the hint speaks of, and
// once it is back the same command goes on.
func TestEndpointServerKilled(t *testing.T) {
	t.Parallel()
	s := serveEmbedded(t, "--gpu", unhurried, "--enable-prefix-caching")
	dir := filepath.Join(t.TempDir(), "results")
	args := endpoint(dir, s.url, "--max-in-flight", "8")
	p := start(t, nil, args...)
	poll(t, "a point of the decode sweep", func() bool {
		b, err := os.ReadFile(filepath.Join(dir, "journal.jsonl"))
		return err == nil && bytes.Contains(b, []byte(`"id":"sweep/decode/`))
	})
	s.signal(t, syscall.SIGKILL)
	s.wait(t)
	if code := p.wait(t); code != exitFailed {
		t.Errorf("exit code %d, want %d", code, exitFailed)
	}
	stderr := p.errout.String()
	if !strings.Contains(stderr, "hint: nothing listens at the endpoint any more: once the server is back, the same command with --resume goes on from the ") {
		t.Errorf("stderr:\n%s", stderr)
	}
	_, port, _ := strings.Cut(strings.TrimPrefix(s.url, "http://"), ":")
	serveEmbedded(t, "--gpu", unhurried, "--enable-prefix-caching", "--port", port)
	if p := ran(t, exitDone, append(args, "--resume")...); strings.Contains(p.errout.String(), "stays left out") {
		t.Errorf("a configuration was left out because the server was gone:\n%s", &p.errout)
	}
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

// noSecrets looks for the credentials in everything written, unpacked too.
func noSecrets(t *testing.T, dir string, p *program) {
	t.Helper()
	texts := tree(t, dir)
	texts["stdout"], texts["stderr"] = p.out.String(), p.errout.String()
	for name, text := range texts {
		if filepath.Ext(name) == ".gz" {
			z, err := gzip.NewReader(strings.NewReader(text))
			if err != nil {
				t.Fatal(err)
			}
			b, err := io.ReadAll(z)
			if err != nil {
				t.Fatal(err)
			}
			text = string(b)
		}
		for _, secret := range []string{secretKey, secretTenant} {
			if bytes.Contains([]byte(text), []byte(secret)) {
				t.Errorf("%s holds a secret", name)
			}
		}
	}
}
