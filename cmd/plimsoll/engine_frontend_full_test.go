//go:build full

package main

import (
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"plimsoll/engine/enginetest"

	"github.com/google/renameio/v2"
)

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
	enginetest.Eventually(t, "the worker drains", func() bool {
		code, _, err := get(t, s.url+"/health")
		return err == nil && code == http.StatusServiceUnavailable
	})
	if all, err := io.ReadAll(stream); err != nil || !strings.HasSuffix(string(all), "data: [DONE]\n\n") {
		t.Errorf("the stream of a worker that drains: %v", err)
	}
}

// serveFront starts a frontend on a free port and waits until it has said where.
func serveFront(t *testing.T, env []string, args ...string) engineServer {
	t.Helper()
	s := engineServer{program: start(t, env, append([]string{"engine", "frontend", "--port", "0"}, args...)...)}
	address := regexp.MustCompile(`on (http://127\.0\.0\.1:\d+)\n`)
	enginetest.Eventually(t, "the frontend's address", func() bool {
		if m := address.FindStringSubmatch(s.errout.String()); m != nil {
			s.url = m[1]
		}
		return s.url != ""
	})
	return s
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
