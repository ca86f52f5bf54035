package simserver

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"plimsoll/engine"
	"plimsoll/engine/sim"
)

// stepTimer takes the same time for every step and more for each prompt token.
type stepTimer struct{ step, promptToken time.Duration }

func (t stepTimer) StepTime(b engine.Batch) engine.Picoseconds {
	return engine.FromDuration(t.step + time.Duration(b.PrefillTokens)*t.promptToken)
}

// logBuffer is a log that several goroutines write to.
type logBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// site is a server that runs for one test.
type site struct {
	t      testing.TB
	url    string
	server *Server
	log    *logBuffer
	client *http.Client
	stop   func() error // ends it and returns what Serve returned
}

func testOptions() Options {
	return Options{
		Model: "test/model",
		Timer: stepTimer{step: time.Millisecond},
		Sim:   sim.Config{KVBlocks: 25_600, PrefixCaching: true, Limits: engine.Limits{MaxNumSeqs: 64, MaxModelLen: 131_072}},
	}
}

// serve starts a server on a port of its own and stops it at the test's end.
func serve(t testing.TB, o Options) *site {
	t.Helper()
	return serveOn(t, o, func(ln net.Listener) net.Listener { return ln })
}

func serveOn(t testing.TB, o Options, as func(net.Listener) net.Listener) *site {
	t.Helper()
	l := &logBuffer{}
	if o.Log == nil {
		o.Log = l
	}
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	var lc net.ListenConfig
	ln, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx, as(ln)) }()
	transport := &http.Transport{MaxIdleConnsPerHost: 1024}
	st := &site{t: t, url: "http://" + ln.Addr().String(), server: s, log: l, client: &http.Client{Transport: transport}}
	st.stop = sync.OnceValue(func() error { cancel(); return <-served })
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		if err := st.stop(); err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	return st
}

// request makes one to the server.
func (s *site) request(ctx context.Context, method, path, body string, header ...string) *http.Request {
	s.t.Helper()
	req, err := http.NewRequestWithContext(ctx, method, s.url+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	return req
}

// answered is an answer, read to its end.
type answered struct {
	status int
	header http.Header
	body   string
}

func (s *site) send(method, path, body string, header ...string) answered {
	s.t.Helper()
	resp, err := s.client.Do(s.request(s.t.Context(), method, path, body, header...))
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return answered{resp.StatusCode, resp.Header, string(b)}
}

// get returns the body of a GET that must succeed.
func (s *site) get(path string) string {
	s.t.Helper()
	a := s.send(http.MethodGet, path, "")
	if a.status != http.StatusOK {
		s.t.Fatalf("GET %s: status %d: %s", path, a.status, a.body)
	}
	return a.body
}

// reply is any answer, whole or one chunk of a stream.
type reply struct {
	ID, Object, Model string
	Choices           []struct {
		Text    *string
		Delta   *struct{ Role, Content string }
		Message *struct{ Role, Content string }
		Finish  *string `json:"finish_reason"`
	}
	Usage *struct {
		Prompt     int `json:"prompt_tokens"`
		Completion int `json:"completion_tokens"`
		Total      int `json:"total_tokens"`
		Details    struct {
			Cached int `json:"cached_tokens"`
		} `json:"prompt_tokens_details"`
	}
	Transfer *transfer `json:"kv_transfer_params"`
	Error    *struct {
		Message, Type string
		Code          int
	}
}

// post returns the decoded answer to a JSON body.
func (s *site) post(path, body string, header ...string) (int, reply) {
	s.t.Helper()
	a := s.send(http.MethodPost, path, body, header...)
	return a.status, decode(s.t, a.body)
}

func decode(t testing.TB, data string) reply {
	t.Helper()
	var r reply
	if err := json.Unmarshal([]byte(data), &r); err != nil {
		t.Fatalf("%v in %s", err, data)
	}
	return r
}

// stream returns the data of each event of a streamed answer.
func (s *site) stream(path, body string) []string {
	s.t.Helper()
	a := s.send(http.MethodPost, path, body)
	if got := a.header.Get("Content-Type"); a.status != http.StatusOK || !strings.HasPrefix(got, "text/event-stream") {
		s.t.Fatalf("status %d, content type %q: %s", a.status, got, a.body)
	}
	return events(s.t, a.body)
}

// events splits a stream into the data of its events.
func events(t testing.TB, body string) []string {
	t.Helper()
	all := strings.Split(strings.TrimSuffix(body, "\n\n"), "\n\n")
	for i, e := range all {
		data, ok := strings.CutPrefix(e, "data: ")
		if !ok || strings.Contains(data, "\n") {
			t.Fatalf("%q is not an event", e)
		}
		all[i] = data
	}
	return all
}
