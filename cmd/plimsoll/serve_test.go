package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"plimsoll/engine"
	dep "plimsoll/engine/deployment"
	"plimsoll/engine/enginetest"
)

// engineServer is a `plimsoll engine serve` of the test's own.
type engineServer struct {
	*program
	url string
}

// serveEmbedded starts an engine on a free port and waits until it answers.
func serveEmbedded(t *testing.T, args ...string) engineServer {
	t.Helper()
	s := engineServer{program: start(t, nil, append([]string{"engine", "serve", "--port", "0"}, args...)...)}
	address := regexp.MustCompile(`on (http://127\.0\.0\.1:\d+),`)
	enginetest.Eventually(t, "the engine's address", func() bool {
		if m := address.FindStringSubmatch(s.errout.String()); m != nil {
			s.url = m[1]
		}
		return s.url != ""
	})
	enginetest.Eventually(t, "the engine's health", func() bool {
		code, _, err := get(t, s.url+"/health")
		return err == nil && code == http.StatusOK
	})
	return s
}

func get(t *testing.T, url string) (int, string, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, "", err
	}
	b, err := io.ReadAll(resp.Body)
	if cerr := resp.Body.Close(); cerr != nil {
		t.Error(cerr)
	}
	return resp.StatusCode, string(b), err
}

// The start-up log, a TERM with a request in flight, which is finished, and
// exit code 0.
func TestEngineServe(t *testing.T) {
	t.Parallel()
	s := serveEmbedded(t, "--tp", "2", "--enable-prefix-caching")
	body := `{"model":"meta-llama/Meta-Llama-3.1-8B","prompt":"a b c","max_tokens":100,"ignore_eos":true,"stream":true}`
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url+"/v1/completions", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }() // it is read to its end below
	if p := resp.Header.Get("X-Plimsoll-Provenance"); resp.StatusCode != http.StatusOK || p != "simulated" {
		t.Fatalf("%s, provenance %q", resp.Status, p)
	}
	s.signal(t, syscall.SIGTERM) // the answer has begun
	stream, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Errorf("the answer broke off: %v", err)
	}
	words := 0
	for line := range strings.Lines(string(stream)) {
		data, ok := strings.CutPrefix(strings.TrimSpace(line), "data: {")
		var chunk struct{ Choices []struct{ Text string } }
		if ok && json.Unmarshal([]byte("{"+data), &chunk) == nil && len(chunk.Choices) > 0 {
			words += len(strings.Fields(chunk.Choices[0].Text))
		}
	}
	if words != 100 || !strings.HasSuffix(string(stream), "data: [DONE]\n\n") {
		t.Errorf("%d of 100 tokens came, the stream ends in %q", words, stream[max(0, len(stream)-40):])
	}
	if code := s.wait(t); code != exitDone {
		t.Errorf("exit code %d after TERM", code)
	}
	stamp := regexp.MustCompile(`(?m)^\d{4}/\d\d/\d\d \d\d:\d\d:\d\d `)
	log := stamp.ReplaceAllString(strings.ReplaceAll(s.errout.String(), s.url, "URL"), "")
	// A busy machine may have its lines, and only those.
	late := regexp.MustCompile(`(?m)^(simulated engine: warning: a step ended \S+ late \(\d+ late steps so far\): this machine is too busy, latencies are not those of the model|plimsoll: note: stopping; another signal kills all engines at once)\n`)
	log = late.ReplaceAllString(log, "")
	want := `simulated engine: serving meta-llama/Meta-Llama-3.1-8B on URL, role aggregated, max-num-seqs 1024, max-num-batched-tokens 8192, prefix caching true, asynchronous scheduling true: every latency is simulated
simulated engine: ` + dep.Worth(modelOf(t, engine.Config{Model: simModel, GPU: simGPU, Parallelism: engine.TP(2)})) + `
simulated engine: GPU KV cache size: 983,392 tokens
simulated engine: Maximum concurrency for 131,072 tokens per request: 7.50x
simulated engine: stopping: waiting up to 30s for the requests in flight
simulated engine: stopped
`
	if log != want || s.out.String() != "" {
		t.Errorf("stdout %q, stderr\n%s\nwant\n%s", &s.out, log, want)
	}
}

func TestEngineServePortInUse(t *testing.T) {
	t.Parallel()
	s := serveEmbedded(t)
	port := s.url[strings.LastIndex(s.url, ":")+1:]
	p := ran(t, exitFailed, "engine", "serve", "--port", port)
	want := fmt.Sprintf("plimsoll: error: 127.0.0.1:%s is in use\nplimsoll: hint: choose another --port, or 0 for a free one\n", port)
	if p.errout.String() != want {
		t.Errorf("stderr\n%s\nwant\n%s", &p.errout, want)
	}
}

// A name that is allowed, and one that a foreign page points here.
func TestEngineServeAllowHost(t *testing.T) {
	t.Parallel()
	s := serveEmbedded(t, "--allow-host", "sim.svc,sim")
	for host, want := range map[string]int{"sim.svc": http.StatusOK, "sim:80": http.StatusOK, "evil.example": http.StatusForbidden} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url+"/v1/models", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Host = host
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("%s: status %d, want %d", host, resp.StatusCode, want)
		}
	}
}

// What is in flight may run for as long as is asked for, and no longer.
func TestEngineServeDrainTimeout(t *testing.T) {
	s := serveEmbedded(t, "--drain-timeout", "300ms")
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url+"/v1/completions",
		strings.NewReader(`{"prompt":"a","max_tokens":100000,"ignore_eos":true,"stream":true}`))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }() // it breaks off
	s.signal(t, syscall.SIGTERM)
	if code := s.wait(t); code == exitDone || !strings.Contains(s.errout.String(), "requests still in flight 300ms after the stop were cut off") {
		t.Errorf("exit code %d, stderr\n%s", code, &s.errout)
	}
	for _, bad := range []string{"0s", "-1s", "25h", "soon", ""} {
		if p := ran(t, exitUsage, "engine", "serve", "--drain-timeout", bad); !strings.Contains(p.errout.String(), "--drain-timeout") {
			t.Errorf("%q: stderr %s", bad, &p.errout)
		}
	}
}
