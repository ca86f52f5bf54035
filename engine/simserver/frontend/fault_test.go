package frontend

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"plimsoll/engine"
	"plimsoll/engine/enginetest"
)

// handled is a well worker whose requests go to a handler.
func handled(t testing.TB, name string, role engine.Role, h http.HandlerFunc) worker {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("/", h)
	mux.HandleFunc("GET /health", func(http.ResponseWriter, *http.Request) {})
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return worker{Worker: Worker{Name: name, Role: role, URL: s.URL, State: Ready}}
}

// breaking hijacks the connection, says so much, and cuts it.
func breaking(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			panic(err)
		}
		_, _ = io.WriteString(conn, text)
		if tcp, ok := conn.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0) // a reset, as from a killed process
		}
		_ = conn.Close()
	}
}

const streamHead = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"

func chunked(text string) string { return fmt.Sprintf("%x\r\n%s\r\n", len(text), text) }

// A stream that breaks off ends with an error that the client can see, once as an
// event and once in the connection, and is not begun again elsewhere.
func TestWorkerThatDiesInItsStream(t *testing.T) {
	for name, text := range map[string]string{
		"cut off":              streamHead + chunked(oneToken) + chunked(oneToken),
		"in an event":          streamHead + chunked(oneToken+oneToken+`data: {"choi`),
		"ended without [DONE]": streamHead + chunked(oneToken+oneToken) + "0\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			var other atomic.Int64
			dies := handled(t, "dies", engine.RoleAggregated, breaking(text))
			s := serve(t, Options{}, dies, handled(t, "other", engine.RoleAggregated, func(http.ResponseWriter, *http.Request) { other.Add(1) }))
			a := s.post(t.Context(), "/v1/completions", ask("a", 50, true))
			if a.status != http.StatusOK || a.err == nil {
				t.Errorf("status %d, and the connection ended with %v", a.status, a.err)
			}
			if strings.Contains(a.body, "[DONE]") || strings.Count(a.body, `"text":" a"`) != 2 || !strings.Contains(a.body, "data: {\"error\":{") || !strings.Contains(a.body, "worker dies broke off") {
				t.Errorf("%s", a.body)
			}
			s.failedOnce(&other)
		})
	}
}

// The same of a decode worker.
func TestDecodeWorkerThatDies(t *testing.T) {
	s := serve(t, Options{}, engineAt(t, "p", engine.RolePrefill, quick), handled(t, "d", engine.RoleDecode, breaking(streamHead+chunked(oneToken))))
	a := s.post(t.Context(), "/v1/completions", ask("a", 50, true))
	if a.status != http.StatusOK || a.err == nil || !strings.Contains(a.body, "error") || strings.Contains(a.body, "[DONE]") {
		t.Errorf("status %d, %v: %s", a.status, a.err, a.body)
	}
}

// A decode worker that refuses costs nothing: another goes on.
func TestDecodeWorkerThatRefuses(t *testing.T) {
	for name, refuses := range map[string]http.HandlerFunc{
		"cut off": breaking(""),
		"503":     func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) },
	} {
		s := serve(t, Options{}, engineAt(t, "p", engine.RolePrefill, quick), handled(t, "a", engine.RoleDecode, refuses), engineAt(t, "d", engine.RoleDecode, quick))
		for range 4 {
			a := s.post(t.Context(), "/v1/completions", ask("a", 5, true))
			if got := read(t, a.body); a.err != nil || got.osl != 5 || len(strings.Fields(got.text)) != 5 || len(got.ids) != 1 {
				t.Errorf("%s: %v, %+v", name, a.err, got)
			}
		}
		if got := s.metric("plimsoll_frontend_retries_total"); got < 1 {
			t.Errorf("%s: %v tries at others", name, got)
		}
	}
}

// A request that ends every worker that takes it does not end all of them.
func TestRequestThatKillsWorkers(t *testing.T) {
	var taken atomic.Int64
	deadly := func(w http.ResponseWriter, r *http.Request) {
		taken.Add(1)
		breaking("")(w, r)
	}
	var workers []worker
	for i := range 6 {
		workers = append(workers, handled(t, fmt.Sprintf("w%d", i), engine.RoleAggregated, deadly))
	}
	s := serve(t, Options{}, workers...)
	if a := s.post(t.Context(), "/v1/completions", ask("a", 5, true)); a.status != http.StatusBadGateway || taken.Load() != maxTries {
		t.Errorf("status %d after %d workers: %s", a.status, taken.Load(), a.body)
	}
}

// A prefill worker's nonsense is an error, not a panic, and decode is not asked.
func TestPrefillWorkerThatTalksNonsense(t *testing.T) {
	for _, text := range []string{``, `[]`, `5`, `{"choices":[`} {
		p := handled(t, "p", engine.RolePrefill, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, text) })
		s := serve(t, Options{}, p, engineAt(t, "d", engine.RoleDecode, quick))
		for _, stream := range []bool{true, false} {
			if a := s.post(t.Context(), "/v1/completions", ask("a", 5, stream)); a.status != http.StatusBadGateway {
				t.Errorf("%q: status %d: %s", text, a.status, a.body)
			}
		}
	}
}

// With vLLM's NixlConnector the prefill worker's parameters go on untouched, and
// the client gets the decode worker's stream from its first token on: that is
// sampled once more, and need not be the prefill worker's.
func TestVLLMHandsOver(t *testing.T) {
	const params = `{"do_remote_prefill":true,"do_remote_decode":false,"remote_block_ids":[4,5,6],"remote_engine_id":"e-1","remote_host":"10.0.0.1","remote_port":5600,"tp_size":1}`
	type seen struct {
		Prompt    string
		Stream    bool
		MaxTokens int `json:"max_tokens"`
		MinTokens int `json:"min_tokens"`
		Options   *struct {
			IncludeUsage bool `json:"include_usage"`
		} `json:"stream_options"`
		Transfer json.RawMessage `json:"kv_transfer_params"`
		id       string
	}
	note := func(r *http.Request) (s seen) {
		if err := json.NewDecoder(r.Body).Decode(&s); err != nil {
			t.Error(err)
		}
		s.id = r.Header.Get("X-Request-Id")
		return s
	}
	var atP, atD seen
	p := handled(t, "p", engine.RolePrefill, func(w http.ResponseWriter, r *http.Request) {
		atP = note(r)
		_, _ = io.WriteString(w, `{"id":"x","object":"text_completion","created":1,"model":"m","choices":[{"index":0,"text":" first","finish_reason":"length"}],"usage":{"prompt_tokens":5,"completion_tokens":1},"kv_transfer_params":`+params+`}`)
	})
	d := handled(t, "d", engine.RoleDecode, func(w http.ResponseWriter, r *http.Request) {
		atD = note(r)
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, oneToken+lastToken+usage+finished)
	})
	s := serve(t, Options{}, p, d)
	a := s.post(t.Context(), "/v1/completions", `{"model":"m","prompt":"a b","max_tokens":7,"min_tokens":4,"stream":true}`)
	if a.body != oneToken+lastToken+finished || a.err != nil {
		t.Errorf("%v: %s", a.err, a.body)
	}
	if atP.Stream || atP.MaxTokens != 1 || atP.MinTokens != 0 || atP.Options != nil || atP.Prompt != "a b" || !strings.Contains(string(atP.Transfer), `"do_remote_decode":true`) || !strings.Contains(string(atP.Transfer), `"remote_engine_id":null`) {
		t.Errorf("prefill got %+v", atP)
	}
	if !atD.Stream || atD.MaxTokens != 7 || atD.MinTokens != 4 || atD.Options == nil || !atD.Options.IncludeUsage || string(atD.Transfer) != params || atD.id != atP.id || atD.id == "" {
		t.Errorf("decode got %+v: %s", atD, atD.Transfer)
	}
	if got := s.metric("dynamo_frontend_output_sequence_tokens_sum"); got != 2 {
		t.Errorf("%v output tokens, want the decode worker's 2", got)
	}
	if got := s.metric("plimsoll_frontend_simulated_requests_total"); got != 0 {
		t.Errorf("%v simulated", got)
	}
}

// A client that reads slowly holds its worker back, and nobody else.
func TestBackpressure(t *testing.T) {
	var sent atomic.Int64
	flood := handled(t, "flood", engine.RoleAggregated, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		big := `data: {"choices":[{"text":"` + strings.Repeat("x", 64<<10) + `"}]}` + "\n\n"
		for range 2000 {
			if _, err := io.WriteString(w, big); err != nil {
				return
			}
			sent.Add(int64(len(big)))
		}
		_, _ = io.WriteString(w, finished)
	})
	s := serve(t, Options{}, flood)
	var d net.Dialer
	conn, err := d.DialContext(t.Context(), "tcp", strings.TrimPrefix(s.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	body := ask("a", 5, true)
	if _, err := fmt.Fprintf(conn, "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s", len(body), body); err != nil {
		t.Fatal(err)
	}
	// It goes on until the buffers on the way are full, and then stands still.
	last, since := int64(-1), time.Now()
	enginetest.Eventually(t, "the worker stands still", func() bool {
		if now := sent.Load(); now != last || now == 0 {
			last, since = now, time.Now()
		}
		return time.Since(since) > 300*time.Millisecond
	})
	if last >= 100<<20 {
		t.Errorf("%d bytes were taken for a client that reads none", last)
	}
	if _, err := bufio.NewReader(conn).Discard(1 << 20); err != nil {
		t.Error(err)
	}
	enginetest.Eventually(t, "the worker goes on", func() bool { return sent.Load() > last })
}
