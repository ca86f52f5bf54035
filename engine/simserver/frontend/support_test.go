package frontend

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"plimsoll/engine"
	"plimsoll/engine/sim"
	"plimsoll/engine/simserver"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// stepTimer takes the same time for every step and more for each prompt token.
type stepTimer struct{ step, promptToken time.Duration }

func (t stepTimer) StepTime(b engine.Batch) engine.Picoseconds {
	return engine.FromDuration(t.step + time.Duration(b.PrefillTokens)*t.promptToken)
}

// quick takes a millisecond for a step.
var quick = stepTimer{step: time.Millisecond}

// worker is a simulated engine that runs for one test.
type worker struct {
	Worker
	t    testing.TB
	stop func() error
}

// engineOf is a simulated engine of a role.
func engineOf(role engine.Role, timer stepTimer) simserver.Options {
	return simserver.Options{
		Model: "test/model", Timer: timer, Serving: simserver.Serving{DrainTimeout: 20 * time.Second},
		Sim: sim.Config{Role: role, KVBlocks: 25_600, Seed: 7, Limits: engine.Limits{MaxNumSeqs: 64, MaxNumBatchedTokens: 256, MaxModelLen: 131_072}},
	}
}

// engineAt starts one.
func engineAt(t testing.TB, name string, role engine.Role, timer stepTimer) worker {
	t.Helper()
	return start(t, name, engineOf(role, timer))
}

func start(t testing.TB, name string, o simserver.Options) worker {
	t.Helper()
	s, err := simserver.New(o)
	if err != nil {
		t.Fatal(err)
	}
	url, stop := listen(t, s.Serve)
	return worker{Worker{Name: name, Role: o.Sim.Role, URL: url, State: Ready}, t, stop}
}

// listen runs a server until the test ends, or stop is called.
func listen(t testing.TB, serve func(context.Context, net.Listener) error) (url string, stop func() error) {
	t.Helper()
	var lc net.ListenConfig
	ln, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- serve(ctx, ln) }()
	stop = sync.OnceValue(func() error { cancel(); return <-served })
	t.Cleanup(func() {
		if err := stop(); err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	return "http://" + ln.Addr().String(), stop
}

// site is a frontend that runs for one test.
type site struct {
	t      testing.TB
	url    string
	front  *Frontend
	client *http.Client
	stop   func() error
}

func serve(t testing.TB, o Options, workers ...worker) *site {
	t.Helper()
	if o.Namespace == "" {
		o.Namespace = "dynamo"
	}
	f, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	var list []Worker
	for _, w := range workers {
		list = append(list, w.Worker)
	}
	f.SetWorkers(list)
	s := &site{t: t, front: f, client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1024}}}
	s.url, s.stop = listen(t, f.Serve)
	t.Cleanup(s.client.CloseIdleConnections)
	return s
}

// answered is an answer, read to its end; err is how that broke off.
type answered struct {
	status int
	header http.Header
	body   string
	err    error
	ttft   time.Duration // to the first event with content
	took   time.Duration
}

// post sends a body and reads the answer.
func (s *site) post(ctx context.Context, path, body string, header ...string) answered {
	began := time.Now()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url+path, strings.NewReader(body))
	if err != nil {
		return answered{err: err}
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := s.client.Do(req)
	if err != nil {
		return answered{err: err, took: time.Since(began)}
	}
	defer func() { _ = resp.Body.Close() }()
	a := answered{status: resp.StatusCode, header: resp.Header}
	var text strings.Builder
	buf := make([]byte, 32<<10)
	for {
		n, err := resp.Body.Read(buf)
		if text.Write(buf[:n]); a.ttft == 0 && n > 0 {
			a.ttft = time.Since(began)
		}
		if err != nil {
			if err != io.EOF {
				a.err = err
			}
			break
		}
	}
	a.body, a.took = text.String(), time.Since(began)
	return a
}

// ask is the body of a request for n tokens.
func ask(prompt string, n int, stream bool) string {
	return fmt.Sprintf(`{"model":"test/model","prompt":%q,"max_tokens":%d,"ignore_eos":true,"stream":%v,"stream_options":{"include_usage":%v}}`, prompt, n, stream, stream)
}

// told is what a client makes of an answer.
type told struct {
	text          string
	ids           map[string]bool
	usages        int
	isl, osl      int
	finish, error string
	done          bool
}

// read takes an answer apart, streamed or not.
func read(t testing.TB, body string) told {
	t.Helper()
	out := told{ids: map[string]bool{}}
	pieces := []string{body}
	if strings.HasPrefix(body, "data:") {
		pieces = strings.Split(strings.TrimSuffix(body, "\n\n"), "\n\n")
	}
	for _, p := range pieces {
		p = strings.TrimPrefix(p, "data: ")
		if p == "[DONE]" {
			out.done = true
			continue
		}
		var e struct {
			ID      string
			Choices []struct {
				Text           string
				Delta, Message struct{ Content string }
				Finish         *string `json:"finish_reason"`
			}
			Usage *struct {
				Prompt     int `json:"prompt_tokens"`
				Completion int `json:"completion_tokens"`
			}
			Error *struct{ Message string }
		}
		if err := json.Unmarshal([]byte(p), &e); err != nil {
			t.Fatalf("%v in %q", err, p)
		}
		if e.Error != nil {
			out.error = e.Error.Message
			continue
		}
		out.ids[e.ID] = true
		for _, c := range e.Choices {
			out.text += c.Text + c.Delta.Content + c.Message.Content
			if c.Finish != nil {
				out.finish = *c.Finish
			}
		}
		if e.Usage != nil {
			out.usages++
			out.isl, out.osl = e.Usage.Prompt, e.Usage.Completion
		}
	}
	return out
}

// get is the body of a GET.
func (s *site) get(path string) (int, string) {
	s.t.Helper()
	req, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, s.url+path, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	resp, err := s.client.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

// metric is a sum over the series of a metric that have all the labels.
func (s *site) metric(name string, labels ...string) float64 {
	s.t.Helper()
	_, text := s.get("/metrics")
	return sum(s.t, text, name, labels...)
}

// failedOnce checks that one request failed, that it was not begun again at another worker,
// and that nothing is left of it.
func (s *site) failedOnce(other *atomic.Int64) {
	s.t.Helper()
	if other.Load() != 0 {
		s.t.Error("another worker was asked")
	}
	if got := s.metric("dynamo_frontend_requests_total", `status="error"`, `error_type="internal"`); got != 1 {
		s.t.Errorf("%v failures counted", got)
	}
	if got := s.metric("plimsoll_frontend_worker_inflight_requests") + s.metric("dynamo_frontend_inflight_requests"); got != 0 {
		s.t.Errorf("%v in flight", got)
	}
}

func sum(t testing.TB, text, name string, labels ...string) (total float64) {
	t.Helper()
	line := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(name) + `(\{[^}]*\})? (\S+)$`)
next:
	for _, m := range line.FindAllStringSubmatch(text, -1) {
		for _, l := range labels {
			if !strings.Contains(m[1], l) {
				continue next
			}
		}
		v, err := strconv.ParseFloat(m[2], 64)
		if err != nil {
			t.Fatal(err)
		}
		total += v
	}
	return total
}
