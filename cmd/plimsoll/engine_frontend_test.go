package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"plimsoll/engine/enginetest"
)

func (s engineServer) serves(t *testing.T) {
	t.Helper()
	enginetest.Eventually(t, "the frontend's workers", func() bool {
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

func TestEngineFrontendRefusals(t *testing.T) {
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
		{[]string{"--drain-timeout", "25h"}, "--drain-timeout"},
		{[]string{"--drain-timeout", "soon"}, "--drain-timeout"},
		{[]string{"--worker-timeout", "25h"}, "--worker-timeout \"25h\": want a time from 0s to 24h"},
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
