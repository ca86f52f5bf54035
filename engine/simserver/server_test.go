package simserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"plimsoll/engine"
	"plimsoll/engine/enginetest"
	"plimsoll/engine/sim"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestPlainEndpoints(t *testing.T) {
	o := testOptions()
	o.Version = "v1.2.3"
	s := serve(t, o)
	s.get("/health")
	if got := s.get("/version"); got != `{"version":"v1.2.3"}`+"\n" {
		t.Errorf("/version: %s", got)
	}
	var models struct {
		Object string
		Data   []struct {
			ID, Object  string
			MaxModelLen int `json:"max_model_len"`
		}
	}
	if err := json.Unmarshal([]byte(s.get("/v1/models")), &models); err != nil {
		t.Fatal(err)
	}
	if len(models.Data) != 1 || models.Data[0].ID != "test/model" || models.Data[0].MaxModelLen != 131_072 || models.Object != "list" {
		t.Errorf("/v1/models: %+v", models)
	}
}

// Nothing that the server says may look measured.
func TestEveryAnswerSaysThatItIsSimulated(t *testing.T) {
	s := serve(t, testOptions())
	for _, c := range []struct{ method, path, body string }{
		{"GET", "/health", ``},
		{"GET", "/v1/models", ``},
		{"GET", "/metrics", ``},
		{"GET", "/version", ``},
		{"GET", "/nothing", ``},
		{"GET", "/v1/completions", ``},
		{"POST", "/v1/completions", `{`},
		{"POST", "/v1/completions", `{"prompt":"a"}`},
		{"POST", "/v1/completions", `{"prompt":"a","stream":true}`},
		{"POST", "/v1/chat/completions", `{"messages":[{"role":"user","content":"a"}],"max_tokens":1}`},
	} {
		if got := s.send(c.method, c.path, c.body).header.Get("X-Plimsoll-Provenance"); got != "simulated" {
			t.Errorf("%s %s %s: provenance %q", c.method, c.path, c.body, got)
		}
	}
}

func TestStartUpLogSpeaksOfCapacityAsVLLMDoes(t *testing.T) {
	s := serve(t, testOptions())
	s.get("/health")
	for _, want := range []string{
		"GPU KV cache size: 409,600 tokens\n",
		"Maximum concurrency for 131,072 tokens per request: 3.12x\n",
		"serving test/model on http://127.0.0.1:",
		"simulated",
	} {
		if !strings.Contains(s.log.String(), want) {
			t.Errorf("the log lacks %q:\n%s", want, s.log.String())
		}
	}
}

func TestBadOptions(t *testing.T) {
	for want, change := range map[string]func(*Options){
		"no model name":  func(o *Options) { o.Model = "" },
		"no step timer":  func(o *Options) { o.Timer = nil },
		"kv cache of 0":  func(o *Options) { o.Sim.KVBlocks = 0 },
		"drain timeout ": func(o *Options) { o.DrainTimeout = -1 },
	} {
		o := testOptions()
		change(&o)
		if _, err := New(o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("New: %v, want %q", err, want)
		}
	}
}

func TestDrainFinishesWhatIsInFlight(t *testing.T) {
	o := testOptions()
	o.Timer = stepTimer{step: 2 * time.Millisecond}
	s := serve(t, o)
	resp, err := s.client.Do(s.request(t.Context(), http.MethodPost, "/v1/completions", `{"prompt":"a","max_tokens":100,"ignore_eos":true,"stream":true}`))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	stopped := make(chan error, 1)
	go func() { stopped <- s.stop() }()
	enginetest.Eventually(t, "the server refuses connections", func() bool {
		var d net.Dialer
		c, err := d.DialContext(t.Context(), "tcp", strings.TrimPrefix(s.url, "http://"))
		if err == nil {
			_ = c.Close()
		}
		return err != nil
	})
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Error(err)
	}
	if got := events(t, string(body)); len(got) != 101 || got[100] != "[DONE]" {
		t.Errorf("%d events, want 100 tokens and the end", len(got))
	}
	if err := <-stopped; err != nil {
		t.Errorf("Serve: %v, want nil", err)
	}
}

// A connection that was opened ahead of need must not hold up the stop: net/http would wait 5 s for it.
func TestDrainDoesNotWaitForUnusedConnections(t *testing.T) {
	s := serve(t, testOptions())
	var d net.Dialer
	c, err := d.DialContext(t.Context(), "tcp", strings.TrimPrefix(s.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	s.get("/health") // by now the first connection has been accepted
	start := time.Now()
	if err := s.stop(); err != nil {
		t.Error(err)
	}
	if d := time.Since(start); d > 4*time.Second {
		t.Errorf("stopping took %v", d)
	}
}

func TestDrainTimeoutCutsOff(t *testing.T) {
	o := testOptions()
	o.Timer = stepTimer{step: time.Hour}
	o.DrainTimeout = 50 * time.Millisecond
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	var lc net.ListenConfig
	ln, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx, ln) }()
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+ln.Addr().String()+"/v1/completions", strings.NewReader(`{"prompt":"a","stream":true}`))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	cancel()
	if err := <-served; err == nil || !strings.Contains(err.Error(), "cut off") {
		t.Errorf("Serve: %v, want that requests were cut off", err)
	}
	if _, err := io.ReadAll(resp.Body); err == nil {
		t.Error("the stream ended as if it were complete")
	}
}

// A client that sends half a body holds no handler, whatever it asks for. A stream
// may take longer than a body.
func TestBodyTimeout(t *testing.T) {
	o := testOptions()
	o.BodyTimeout = 300 * time.Millisecond
	o.Timer = stepTimer{step: 2 * time.Millisecond}
	s := serve(t, o)
	for request, want := range map[string]string{
		"POST /v1/completions": "408 Request Timeout",
		"POST /no/such":        "404 Not Found",
		"GET /health":          "200 OK",
	} {
		var d net.Dialer
		c, err := d.DialContext(t.Context(), "tcp", strings.TrimPrefix(s.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(c, request+" HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{\"prompt\":"); err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(c) // to the connection's end
		if err != nil || !strings.HasPrefix(string(got), "HTTP/1.1 "+want+"\r\n") {
			t.Errorf("%s: %v, %s", request, err, got)
		}
		_ = c.Close()
	}
	if got := s.stream("/v1/completions", `{"prompt":"a","max_tokens":300,"ignore_eos":true,"stream":true}`); len(got) != 301 {
		t.Errorf("%d events, want 300 tokens and the end", len(got))
	}
}

// elsewhere is a listener that says it is not on this machine.
type elsewhere struct{ net.Listener }

func (elsewhere) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(10, 0, 0, 1), Port: 8000} }

// On a loopback address, or where names are given, others are refused.
func TestForeignHostNames(t *testing.T) {
	for _, c := range []struct {
		local bool
		hosts []string
		host  string
		want  int
	}{
		{true, nil, "", http.StatusOK}, // the address
		{true, nil, "evil.example", http.StatusForbidden},
		{true, []string{"front.svc"}, "front.svc:8000", http.StatusOK},
		{false, nil, "front.svc", http.StatusOK},
		{false, []string{"front.svc"}, "front.svc", http.StatusOK},
		{false, []string{"front.svc"}, "evil.example", http.StatusForbidden},
	} {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			o := testOptions()
			o.Hosts = c.hosts
			s := serveOn(t, o, func(ln net.Listener) net.Listener {
				if c.local {
					return ln
				}
				return elsewhere{ln}
			})
			req := s.request(t.Context(), http.MethodGet, "/v1/models", "")
			req.Host = c.host
			resp, err := s.client.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = resp.Body.Close() }()
			b, err := io.ReadAll(resp.Body)
			if err != nil || resp.StatusCode != c.want || c.want != http.StatusOK && !strings.Contains(string(b), `{"error":{"message":"the host name \"evil.example\" is not allowed`) {
				t.Errorf("%v, status %d: %s", err, resp.StatusCode, b)
			}
		})
	}
}

func TestServeOnceAndListenerFailure(t *testing.T) {
	s, err := New(testOptions())
	if err != nil {
		t.Fatal(err)
	}
	var lc net.ListenConfig
	ln, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = ln.Close()
	if err := s.Serve(t.Context(), ln); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Serve on a closed listener: %v", err)
	}
	if err := s.Serve(t.Context(), ln); err == nil || !strings.Contains(err.Error(), "only once") {
		t.Errorf("second Serve: %v", err)
	}
}

func TestDisconnectFreesThePlace(t *testing.T) {
	for _, stream := range []bool{true, false} {
		t.Run(fmt.Sprintf("stream=%v", stream), func(t *testing.T) {
			o := testOptions()
			o.Sim.Limits = engine.Limits{MaxNumSeqs: 1}
			s := serve(t, o)
			ctx, cancel := context.WithCancel(t.Context())
			req := s.request(ctx, http.MethodPost, "/v1/completions", fmt.Sprintf(`{"prompt":"a","max_tokens":100000,"ignore_eos":true,"stream":%v}`, stream))
			gone := make(chan struct{})
			go func() {
				defer close(gone)
				if resp, err := s.client.Do(req); err == nil {
					_, _ = io.Copy(io.Discard, resp.Body)
					_ = resp.Body.Close()
				}
			}()
			enginetest.Eventually(t, "the request runs", func() bool { return s.metric("vllm:num_requests_running") == 1 })
			cancel()
			<-gone
			if status, _ := s.post("/v1/completions", `{"prompt":"b","max_tokens":2}`); status != http.StatusOK {
				t.Errorf("the next request: status %d", status)
			}
			enginetest.Eventually(t, "the engine is empty", func() bool {
				return s.metric("vllm:num_requests_running") == 0 && s.metric("vllm:kv_cache_usage_perc") == 0 &&
					s.metric(`vllm:request_success_total{finished_reason="abort"}`) == 1
			})
		})
	}
}

func TestOneOfManyConnectionsPerPlace(t *testing.T) {
	o := testOptions()
	o.Sim = sim.Config{KVBlocks: 64, Limits: engine.Limits{MaxNumSeqs: 4}}
	s := serve(t, o)
	tokenTimes(s, 40, 20) // ten times as many as there are places
	if got := s.metric(`vllm:request_success_total{finished_reason="length"}`); got != 40 {
		t.Errorf("%v requests done, want 40", got)
	}
	if got := s.metric("vllm:generation_tokens_total"); got != 800 {
		t.Errorf("%v tokens, want 800", got)
	}
}

var lateLine = regexp.MustCompile(`warning: a step ended .* late \(1 late steps so far\)`)

func TestLatenessIsCountedAndWarnedOf(t *testing.T) {
	s := serve(t, testOptions())
	d := s.server.driver
	end := instant{at: time.Now()}
	if got := d.judge(end, end.at.Add(time.Millisecond)); got != end || d.late != 0 {
		t.Error("1 ms is not late")
	}
	if got := d.judge(end, end.at.Add(20*time.Millisecond)); got != end || d.late != 1 {
		t.Error("20 ms are late, and to be caught up with")
	}
	d.judge(end, end.at.Add(20*time.Millisecond))
	if got := lateLine.FindAllString(s.log.String(), -1); len(got) != 1 {
		t.Errorf("%d warnings, want 1 within 10 s:\n%s", len(got), s.log.String())
	}
	if now := end.at.Add(time.Minute); d.judge(end, now) != (instant{at: now}) || d.resyncs != 1 {
		t.Error("a minute is not to be caught up with")
	}
	if got := s.metric("plimsoll_sim_late_steps_total"); got != 3 {
		t.Errorf("late steps %v, want 3", got)
	}
}
