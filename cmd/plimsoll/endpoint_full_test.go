//go:build full

package main

import (
	"bytes"
	"cmp"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"plimsoll/engine/enginetest"
	"plimsoll/profile"
	"plimsoll/profile/store"
)

// Every tenth request fails: the run stops early, says how many failed and why,
// and what the server said about the credentials is written nowhere.
func TestEndpointStopsOnErrors(t *testing.T) {
	t.Parallel()
	s := serveEmbedded(t, "--gpu", unhurried, "--enable-prefix-caching")
	c := count(t, s.url, 10)
	dir := filepath.Join(t.TempDir(), "results")
	p := ran(t, exitFailed, endpoint(dir, c.URL, "--max-in-flight", "32", "--verbose",
		"--api-key", secretKey, "--header", "X-Tenant: "+secretTenant)...)
	stderr := p.errout.String()
	if m := regexp.MustCompile(`too many requests failed: (\d+) (?:of the last (\d+)|in a row)`).FindStringSubmatch(stderr); m == nil {
		t.Errorf("stderr does not say how many failed:\n%s", stderr)
	} else if n, err := strconv.Atoi(m[1]); err != nil || n == 0 {
		t.Errorf("%q failed", m[1])
	} else if all, err := strconv.Atoi(cmp.Or(m[2], m[1])); err != nil || 50*n < all { // of each point one failure counts
		t.Errorf("%d failed of %d", n, all)
	}
	if !strings.Contains(stderr, "status 503") {
		t.Errorf("stderr does not say why they failed:\n%s", stderr)
	}
	if !strings.Contains(stderr, "plimsoll: hint: if the server was overloaded, lower --max-in-flight") {
		t.Errorf("stderr:\n%s", stderr)
	}
	if got := c.all.Load(); got > 240 {
		t.Errorf("%d requests were sent before it stopped", got)
	}
	run, err := store.ReadRun(dir)
	if err != nil || run.Complete {
		t.Errorf("run.json: complete %v, %v", run.Complete, err)
	}
	noSecrets(t, dir, p)
}

// A server that is killed amid the sweep: that is what the hint speaks of, and
// once it is back the same command goes on.
func TestEndpointServerKilled(t *testing.T) {
	t.Parallel()
	s := serveEmbedded(t, "--gpu", unhurried, "--enable-prefix-caching")
	dir := filepath.Join(t.TempDir(), "results")
	args := endpoint(dir, s.url, "--max-in-flight", "8")
	p := start(t, nil, args...)
	enginetest.Eventually(t, "a point of the decode sweep", func() bool {
		b, err := os.ReadFile(filepath.Join(dir, "journal.jsonl"))
		return err == nil && bytes.Contains(b, []byte(`"id":"sweep/decode/`))
	})
	s.signal(t, syscall.SIGKILL)
	s.wait(t)
	if code := p.wait(t); code != exitFailed {
		t.Errorf("exit code %d, want %d", code, exitFailed)
	}
	stderr := p.errout.String()
	if !strings.Contains(stderr, "hint: nothing listens at the endpoint. Restart the server, then run the same command with --resume (") {
		t.Errorf("stderr:\n%s", stderr)
	}
	_, port, _ := strings.Cut(strings.TrimPrefix(s.url, "http://"), ":")
	serveEmbedded(t, "--gpu", unhurried, "--enable-prefix-caching", "--port", port)
	if p := ran(t, exitDone, append(args, "--resume")...); strings.Contains(p.errout.String(), "stays left out") {
		t.Errorf("a configuration was left out because the server was gone:\n%s", &p.errout)
	}
}

// A server that already runs, with credentials in front: it never gets more at
// once than it may, says itself that it is simulated whatever the user claims,
// and what it was let in with is written nowhere. It runs beside no other test: a client
// that reads late refuses to measure.
func TestEndpoint(t *testing.T) {
	s := serveEmbedded(t, "--gpu", unhurried, "--tp", "2", "--enable-prefix-caching")
	c := count(t, s.url, 0)
	dir := filepath.Join(t.TempDir(), "results")
	p := ran(t, exitDone, endpoint(dir, c.URL, "--max-in-flight", "6", "--provenance", "measured", "--verbose",
		"--api-key", secretKey, "--header", "X-Tenant: "+secretTenant)...)
	if top := c.top.Load(); top != 6 {
		t.Errorf("at most %d completions were in flight, want 6 reached and not passed", top)
	}
	for got, n := range c.keys {
		if got != "Bearer "+secretKey {
			t.Errorf("%d requests had Authorization %q", n, got)
		}
	}
	for got, n := range c.marks {
		if got != secretTenant {
			t.Errorf("%d requests had X-Tenant %q", n, got)
		}
	}
	rec, err := store.ReadRecommendation(dir)
	if err != nil {
		t.Fatal(err)
	}
	if rec.Provenance != profile.Simulated || rec.Engine.Kind != "endpoint" || rec.Decode.GPUs != 2 || rec.Model != simModel {
		t.Errorf("provenance %s, kind %s, %d GPUs, model %s", rec.Provenance, rec.Engine.Kind, rec.Decode.GPUs, rec.Model)
	}
	checkSimulatedFiles(t, dir)
	if !strings.HasPrefix(p.out.String(), "SIMULATED, not measured on a GPU · ") || !strings.Contains(p.out.String(), "(4 GPUs: each engine is one like this endpoint)") {
		t.Errorf("stdout:\n%s", &p.out)
	}
	checkFiles(t, dir, rec)
	noSecrets(t, dir, p)
	// The server is somebody's: it still runs.
	if code, _, err := get(t, s.url+"/health"); code != http.StatusOK {
		t.Errorf("afterwards the server answers %d, %v", code, err)
	}
	// A resumed run has the secrets from the environment, and is the same run.
	r := start(t, []string{"PLIMSOLL_API_KEY=" + secretKey, "PLIMSOLL_HEADERS=X-Tenant: " + secretTenant},
		endpoint(dir, c.URL, "--max-in-flight", "6", "--provenance", "measured", "--resume", "--verbose")...)
	if code := r.wait(t); code != exitDone {
		t.Errorf("exit code %d on --resume\n%s", code, &r.errout)
	}
	noSecrets(t, dir, r)
}
