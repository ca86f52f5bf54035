package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/google/renameio/v2"
)

// serveFront starts a frontend on a free port and waits until it has said where.
func serveFront(t *testing.T, env []string, args ...string) engineServer {
	t.Helper()
	s := engineServer{program: start(t, env, append([]string{"engine", "frontend", "--port", "0"}, args...)...)}
	address := regexp.MustCompile(`on (http://127\.0\.0\.1:\d+)\n`)
	poll(t, "the frontend's address", func() bool {
		if m := address.FindStringSubmatch(s.errout.String()); m != nil {
			s.url = m[1]
		}
		return s.url != ""
	})
	return s
}

func (s engineServer) serves(t *testing.T) {
	t.Helper()
	poll(t, "the frontend's workers", func() bool {
		code, _, err := get(t, s.url+"/health")
		return err == nil && code == http.StatusOK
	})
}

// ask begins a streamed answer of n tokens, to be read to its end.
func (s engineServer) ask(t *testing.T, n int) io.Reader {
	t.Helper()
	body := fmt.Sprintf(`{"model":"meta-llama/Meta-Llama-3.1-8B","prompt":"a b c","max_tokens":%d,"ignore_eos":true,"stream":true}`, n)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url+"/v1/completions", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = resp.Body.Close() })
	if resp.StatusCode != http.StatusOK || resp.Header.Get("X-Plimsoll-Provenance") != "simulated" {
		t.Fatalf("%s, %v", resp.Status, resp.Header)
	}
	return resp.Body
}

// Two prefill and two decode engines behind a frontend, all processes: a decode
// worker is killed in the middle of a stream, which ends with an error; the next
// requests go to the other one; TERM finishes what is in flight and exits 0.
func TestEngineFrontend(t *testing.T) {
	t.Parallel()
	var list []string
	var decode []engineServer
	for _, role := range []string{"prefill", "prefill", "decode", "decode"} {
		e := serveEmbedded(t, "--role", role)
		list = append(list, role+"="+e.url)
		if role == "decode" {
			decode = append(decode, e)
		}
	}
	s := serveFront(t, nil, "--workers", strings.Join(list, ","))
	s.serves(t)

	stream := s.ask(t, 100_000)
	if _, err := io.CopyN(io.Discard, stream, 4000); err != nil {
		t.Fatal(err)
	}
	if err := decode[0].cmd.Process.Kill(); err != nil { // the first of equals had it
		t.Fatal(err)
	}
	rest, err := io.ReadAll(stream)
	if err == nil || !strings.Contains(string(rest), `data: {"error":{"message":"the answer of worker decode-0 broke off: `) || strings.Contains(string(rest), "[DONE]") {
		t.Errorf("%v, the stream ends in %q", err, rest[max(0, len(rest)-300):])
	}
	for range 4 {
		all, err := io.ReadAll(s.ask(t, 20))
		if err != nil || strings.Count(string(all), "data: {") != 20 || !strings.HasSuffix(string(all), "data: [DONE]\n\n") {
			t.Errorf("%v, %s", err, all)
		}
	}
	_, metrics, err := get(t, s.url+"/metrics")
	for _, want := range []string{`error_type="internal",model="meta-llama/Meta-Llama-3.1-8B",request_type="stream",status="error"} 1`, `error_type="",model="meta-llama/Meta-Llama-3.1-8B",request_type="stream",status="success"} 4`} {
		if err != nil || !strings.Contains(metrics, want) {
			t.Errorf("%v, the metrics lack %s", err, want)
		}
	}

	stream = s.ask(t, 200)
	s.signal(t, syscall.SIGTERM)
	if all, err := io.ReadAll(stream); err != nil || !strings.HasSuffix(string(all), "data: [DONE]\n\n") {
		t.Errorf("after TERM: %v", err)
	}
	if code := s.wait(t); code != exitDone || s.out.String() != "" {
		t.Errorf("exit code %d, stdout %q", code, &s.out)
	}
}

// The workers of a state file, which comes after the frontend and changes.
func TestEngineFrontendFollowsAStateFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	e := serveEmbedded(t)
	s := serveFront(t, []string{"DYN_LOCAL_STATE_DIR=" + dir, "ETCD_ENDPOINTS="}, "--namespace", "front")
	write := func(state string) {
		t.Helper()
		text := fmt.Sprintf(`{"components":{"front_W":{"watcher_name":"front_W","cmd":"x","role":"aggregated","state":%q,"pid":1234,"start_ticks":1,"boot_id":"b","host":"127.0.0.1","port":1,"url":%q,"log":"/l"}}}`, state, e.url)
		if err := renameio.WriteFile(filepath.Join(dir, "front.json"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("ready")
	s.serves(t)
	stream := s.ask(t, 300)
	write("draining")
	poll(t, "the worker drains", func() bool {
		code, _, err := get(t, s.url+"/health")
		return err == nil && code == http.StatusServiceUnavailable
	})
	if all, err := io.ReadAll(stream); err != nil || !strings.HasSuffix(string(all), "data: [DONE]\n\n") {
		t.Errorf("the stream of a worker that drains: %v", err)
	}
}

func TestEngineFrontendRefusals(t *testing.T) {
	long(t)
	t.Parallel()
	empty := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(empty, []byte("\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--workers", "http://127.0.0.1:1"}, "--workers: worker \"http://127.0.0.1:1\": want role=URL\nplimsoll: hint: such as prefill="},
		{[]string{"--workers", "chef=http://a"}, `role "chef": want aggregated, prefill or decode`},
		{[]string{"--workers", ""}, "--workers"},
		{[]string{"--workers", "decode=http://a", "--state-file", "x"}, "want one of them"},
		{[]string{"--namespace", "a/b"}, "--namespace"},
		{[]string{"--port", "70000"}, "--port"},
		{[]string{"--prefill-concurrency", "0"}, "--prefill-concurrency"},
		{[]string{"--max-queue", "0"}, "--max-queue"},
		{[]string{"--queue-timeout", "0s"}, "--queue-timeout"},
		{[]string{"--queue-timeout", "25h"}, "--queue-timeout"},
		{[]string{"--drain-timeout", "soon"}, "--drain-timeout"},
		{[]string{"--api-key-file", empty}, "--api-key-file"},
		{[]string{"--api-key-file", "/no/such"}, "--api-key-file"},
		{[]string{"--listen", ""}, "--listen"},
		{[]string{"more"}, `unexpected argument "more"`},
	} {
		if p := ran(t, exitUsage, append([]string{"engine", "frontend"}, c.args...)...); !strings.Contains(p.errout.String(), c.want) || p.out.String() != "" {
			t.Errorf("%q: stdout %s, stderr %s, want %q", c.args, &p.out, &p.errout, c.want)
		}
	}
	p := ran(t, exitDone, "engine", "frontend", "--help")
	if !strings.Contains(p.out.String(), "plimsoll engine frontend --workers prefill=") {
		t.Errorf("the help has no example:\n%s", &p.out)
	}
}
