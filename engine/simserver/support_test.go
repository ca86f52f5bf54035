package simserver

import (
	"bufio"
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

func (t stepTimer) StepTime(b engine.Batch) time.Duration {
	return t.step + time.Duration(b.PrefillTokens)*t.promptToken
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
	go func() { served <- s.Serve(ctx, ln) }()
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

// send makes a request and returns the answer, whose body the test's end closes.
func (s *site) send(ctx context.Context, method, path, body string, header ...string) *http.Response {
	s.t.Helper()
	req, err := http.NewRequestWithContext(ctx, method, s.url+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := s.client.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = resp.Body.Close() })
	return resp
}

// get returns the body of a GET that must succeed.
func (s *site) get(path string) string {
	s.t.Helper()
	resp := s.send(s.t.Context(), http.MethodGet, path, "")
	b, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		s.t.Fatalf("GET %s: status %d, error %v: %s", path, resp.StatusCode, err, b)
	}
	return string(b)
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
	Error *struct {
		Message, Type string
		Code          int
	}
}

// post returns the decoded answer to a JSON body.
func (s *site) post(path, body string, header ...string) (int, reply) {
	s.t.Helper()
	resp := s.send(s.t.Context(), http.MethodPost, path, body, header...)
	var r reply
	if err := json.NewDecoder(resp.Body).Decode(&r); err != nil {
		s.t.Fatalf("POST %s: %v", path, err)
	}
	return resp.StatusCode, r
}

// events reads a stream to its end: the data of each event.
func events(t testing.TB, body io.Reader) []string {
	t.Helper()
	var all []string
	sc := bufio.NewScanner(body)
	for sc.Scan() {
		switch line := sc.Text(); {
		case line == "":
		case strings.HasPrefix(line, "data: "):
			all = append(all, strings.TrimPrefix(line, "data: "))
		default:
			t.Fatalf("line %q is not an event", line)
		}
	}
	if err := sc.Err(); err != nil {
		t.Fatal(err)
	}
	return all
}

// eventually polls until ok or the deadline.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("it never came about that %s", what)
		}
	}
}
