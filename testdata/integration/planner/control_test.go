package planner

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	"go.uber.org/zap"

	"plimsoll/testdata/integration/etcd"
	"plimsoll/testdata/integration/program"
)

// ask sends a request, and gives status and body.
func ask(t *testing.T, client *http.Client, method, url, body string, header ...string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if len(header) == 2 {
		req.Header.Set(header[0], header[1])
	}
	resp, err := client.Do(req)
	if err != nil {
		return 0, err.Error()
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Error(err)
	}
	return resp.StatusCode, string(text)
}

// What is changed while the planner runs: by its API, and by its file.
func TestControl(t *testing.T) {
	t.Parallel()
	on := etcd.Start(t, 1)
	acknowledged(t, on)
	names := []string{"api", "file"}
	sites, scraper := frontends(t, names...)

	t.Run("API", func(t *testing.T) {
		t.Parallel()
		s := promptly(t, on, scraper, "api")
		s.decisions(1)
		at := s.site + "/api/v1/deployments/api"
		change := func(method, url, body string, want int, text string) {
			t.Helper()
			if code, got := ask(t, http.DefaultClient, method, url, body); code != want || !strings.Contains(got, text) {
				t.Errorf("%s %s %s: %d %s, want %d with %q", method, url, body, code, got, want, text)
			}
		}
		change("POST", at+"/pause", "", 200, `"paused":true`)
		sites["api"].set(steady(60), figures)
		begin := time.Now()
		s.after(begin, 20*time.Second, "it says what it would do", ofKind("advice", "would ask for prefill="))
		if d := s.decisions(1)[0]; d.Decision.From != (pair{1, 1}) {
			t.Errorf("paused, it scaled: %+v", d.Decision)
		}
		change("PATCH", at, `{"max_gpu_budget":4}`, 200, `"max_gpu_budget":4`)
		change("PATCH", at, `{"max_gpu_budget":1}`, 422, "error")
		change("PATCH", at, `{"max_gpus":9}`, 400, "max_gpus")
		change("PATCH", s.site+"/api/v1/deployments/other", `{}`, 404, "other")
		change("POST", at+"/resume", "", 200, `"paused":false`)
		s.wants(20*time.Second, "the new budget", func(p pair) bool { return p.Prefill+p.Decode == 4 })
		change("PATCH", at, `{"min_endpoint":2,"max_gpu_budget":-1}`, 200, `"min_endpoint":2`)
		s.wants(20*time.Second, "the new least", func(p pair) bool { return p.Decode == 2 && p.Prefill > 3 })
		s.after(begin, time.Second, "the change is an event", ofKind("changed", "the most GPUs 8 became 4"))

		if code := s.Stop(); code != 0 {
			t.Errorf("TERM ends it with %d", code)
		}
		o := other{t, "api", on}
		if got, _ := o.keys(); got["num_decode_workers"] != "2" {
			t.Errorf("after TERM etcd holds %v", got)
		}
		s.after(begin, time.Second, "its end is an event", ofKind("stopped", ""))
	})

	t.Run("SIGHUP", func(t *testing.T) {
		t.Parallel()
		file := filepath.Join(t.TempDir(), "planner.yaml")
		write := func(text string) {
			t.Helper()
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		write("max-gpu-budget: 4\nmin-endpoint: 1\nttft: 300\n")
		s := plan(t, "file", "--environment", "virtual", "--etcd-endpoints", on.Endpoints[0], "--prometheus-endpoint", scraper, "--config", file)
		flag := slices.Index(s.args, "--ttft")
		s.args = slices.Delete(s.args, flag, flag+2) // it would win over the file
		s.start()
		sites["file"].set(steady(60), figures)
		s.wants(30*time.Second, "all of the budget", func(p pair) bool { return p.Prefill+p.Decode == 4 })
		for bad, why := range map[string]string{"max-gpu-budget: many\n": "max-gpu-budget", "max-gpu-bugdet: 8\n": "max-gpu-bugdet", "{": file, "": "says nothing", "# all of it\n": "says nothing"} {
			before := len(s.Output())
			write(bad)
			s.Signal(syscall.SIGHUP)
			program.Until(t, 5*time.Second, "it says what is wrong with "+bad, func() bool {
				said := s.Output()[before:]
				return strings.Contains(said, "the configuration stays as it was: ") && strings.Contains(said, why)
			})
		}
		if d := s.decisions(1)[0]; d.Decision.Want.Prefill+d.Decision.Want.Decode > 4 {
			t.Errorf("after bad files it decided %+v", d.Decision)
		}
		begin := time.Now()
		write("max-gpu-budget: 7\nmin-endpoint: 2\nttft: 100\n")
		s.Signal(syscall.SIGHUP)
		s.after(begin, 5*time.Second, "the change is an event", ofKind("changed", "TTFT 300ms became 100ms, the most GPUs 4 became 7, the least prefill replicas 1 became 2"))
		s.wants(10*time.Second, "the new SLA, which takes 5 prefill engines at 60.81 ms for each request", is(pair{5, 2}))
	})
}

// Whoever reaches the page scales the fleet: it wants a token or a certificate
// where other machines do.
func TestWhoMayControl(t *testing.T) {
	t.Parallel()
	on := etcd.Start(t, 1)
	acknowledged(t, on)
	_, scraper := frontends(t, "who")
	dir := t.TempDir()
	made, err := transport.SelfCert(zap.NewNop(), dir, []string{"127.0.0.1:0"}, 1, x509.ExtKeyUsageClientAuth)
	if err != nil {
		t.Fatal(err)
	}
	secret := filepath.Join(dir, "token")
	if err := os.WriteFile(secret, []byte("s3cret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	everywhere := func(s *served) string { // as s, but reached from elsewhere
		_, port, _ := net.SplitHostPort(strings.TrimPrefix(s.site, "http://"))
		for i, arg := range s.args {
			if arg == "--listen" {
				s.args[i+1] = "0.0.0.0:" + port
			}
		}
		return "127.0.0.1:" + port
	}
	args := []string{"--environment", "virtual", "--etcd-endpoints", on.Endpoints[0], "--prometheus-endpoint", scraper, "--no-operation"}
	reach := func(s *served, client *http.Client, url string, header ...string) (int, string) {
		t.Helper()
		program.Until(t, 20*time.Second, "it listens at "+url, func() bool {
			code, _ := ask(t, client, "GET", url+"/healthz", "")
			return code == http.StatusOK
		})
		return ask(t, client, "GET", url+"/api/v1/status", "", header...)
	}

	open := plan(t, "who", args...)
	everywhere(open)
	if r := program.Run(t.Context(), t, nil, open.args...); r.Code != 2 || !strings.Contains(r.Stderr, "--token-file") {
		t.Errorf("it listens to everybody: %+v", r)
	}

	token := plan(t, "who", append(args, "--token-file", secret)...)
	url := "http://" + everywhere(token)
	token.start()
	for header, want := range map[string]int{"": 401, "Bearer guess": 401, "Bearer s3cret": 200} {
		if code, body := reach(token, http.DefaultClient, url, "Authorization", header); code != want || strings.Contains(body, "s3cret") {
			t.Errorf("with %q: %d %s, want %d", header, code, body, want)
		}
	}
	if code := token.Stop(); code != 0 {
		t.Errorf("TERM ends it with %d", code)
	}

	certified := plan(t, "who", append(args, "--tls-cert", made.CertFile, "--tls-key", made.KeyFile, "--tls-client-ca", made.CertFile)...)
	url = "https://" + everywhere(certified)
	certified.start()
	pair, err := tls.LoadX509KeyPair(made.CertFile, made.KeyFile)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		certificates []tls.Certificate
		want         int
	}{"nobody": {nil, 401}, "a client": {[]tls.Certificate{pair}, 200}} {
		if code, body := reach(certified, trusting(t, made.CertFile, c.certificates), url); code != c.want {
			t.Errorf("%s: %d %s, want %d", name, code, body, c.want)
		}
	}
	stranger, err := transport.SelfCert(zap.NewNop(), t.TempDir(), []string{"127.0.0.1:0"}, 1, x509.ExtKeyUsageClientAuth)
	if err != nil {
		t.Fatal(err)
	}
	other, err := tls.LoadX509KeyPair(stranger.CertFile, stranger.KeyFile)
	if err != nil {
		t.Fatal(err)
	}
	if code, body := ask(t, trusting(t, made.CertFile, []tls.Certificate{other}), "GET", url+"/api/v1/status", ""); code != 0 {
		t.Errorf("a client of another authority: %d %s", code, body)
	}
	if got := certified.count("scaled"); got != 0 {
		t.Errorf("without operation it scaled %d times", got)
	}
}

// trusting is a client that knows the server's certificate.
func trusting(t *testing.T, authority string, own []tls.Certificate) *http.Client {
	t.Helper()
	text, err := os.ReadFile(authority)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		t.Fatal(fmt.Errorf("%s holds no certificate", authority))
	}
	return &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, Certificates: own, MinVersion: tls.VersionTLS12}}}
}
