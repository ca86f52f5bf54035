package planner

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"plimsoll/testdata/integration/free"
	"plimsoll/testdata/integration/program"
)

const model = "meta-llama/Meta-Llama-3.1-8B"

// prometheus scrapes addresses five times a second.
func prometheus(t *testing.T, targets ...string) string {
	t.Helper()
	return prometheusEvery(t, 200*time.Millisecond, targets...)
}

func prometheusEvery(t *testing.T, scrape time.Duration, targets ...string) string {
	t.Helper()
	return newScraper(t, scrape, targets...).url
}

// scraper is a Prometheus that can be started again, over the same data.
type scraper struct {
	*program.Background
	t    *testing.T
	url  string
	args []string
}

func newScraper(t *testing.T, scrape time.Duration, targets ...string) *scraper {
	t.Helper()
	dir := t.TempDir()
	config := filepath.Join(dir, "prometheus.yml")
	text := "global: {scrape_interval: " + fmt.Sprint(scrape.Milliseconds()) + "ms}\nscrape_configs: [{job_name: frontend, static_configs: [{targets: ['" + strings.Join(targets, "', '") + "']}]}]\n"
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	addr := free.Address(t)
	s := &scraper{t: t, url: "http://" + addr, args: []string{"--config.file", config, "--storage.tsdb.path", filepath.Join(dir, "data"), "--web.listen-address", addr}}
	s.start()
	return s
}

func (s *scraper) start() {
	s.t.Helper()
	s.Background = program.StartOther(s.t, nil, "/usr/bin/prometheus", s.args...)
	program.Until(s.t, 30*time.Second, "Prometheus is ready", func() bool { _, err := Get(s.url + "/-/ready"); return err == nil })
}

// profiled is an estimated profile of the engines that are scaled.
func profiled(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "profile")
	r := program.Run(t.Context(), t, nil, "profile-sla", "--engine", "estimate", "--model", "llama-3.1-8b", "--gpu", "l40s", "--gpu-count", "1",
		"--tp", "1", "--isl", "1500", "--osl", "60", "--ttft", "400", "--itl", "40", "--max-context-length", "4096", "--output-dir", dir, "--quiet")
	if r.Code != 0 {
		t.Fatalf("profile-sla ended with %d: %s", r.Code, r.Stderr)
	}
	return dir
}

// workersOf kills what the state file names, when the test is over: workers
// outlive their planner.
func workersOf(t *testing.T, state string) {
	t.Cleanup(func() {
		b, err := os.ReadFile(filepath.Join(state, "dynamo.json"))
		if err != nil {
			return
		}
		var doc struct {
			Components map[string]map[string]any
		}
		_ = json.Unmarshal(b, &doc)
		for _, c := range doc.Components {
			if pid, ok := c["pid"].(float64); ok && pid > 1 {
				_ = syscall.Kill(int(pid), syscall.SIGKILL)
			}
		}
	})
}

// A fleet on this machine, under a load that rises and falls: the planner sees it
// through a real Prometheus, starts and stops real workers, keeps the SLA but for
// the ramp, and no request is dropped. Its page shows it in a real browser. It
// is killed on the way and goes on where it was.
func TestLocalFleet(t *testing.T) {
	state, profile := t.TempDir(), profiled(t)
	env := []string{"DYN_LOCAL_STATE_DIR=" + state}
	workersOf(t, state)

	front := free.Address(t)
	_, port, _ := strings.Cut(front, ":")
	program.Start(t, env, "engine", "frontend", "--port", port, "--namespace", "dynamo")
	scraper := prometheus(t, front)

	worker := os.Getenv(program.Path) + " engine serve --model llama-3.1-8b --gpu l40s --tp 1 --port {{.Port}} --role "
	site := free.Address(t)
	events := filepath.Join(t.TempDir(), "events.jsonl")
	args := []string{
		"planner", "serve", "--profile", profile, "--accept-provenance", "estimated", "--environment", "local", "--slots", "6", "--max-gpu-budget", "6",
		"--prefill-command", worker + "prefill", "--decode-command", worker + "decode", "--drains-on-term", "--stop-grace", "2m",
		"--prometheus-endpoint", scraper, "--backend", "dynamo", "--adjustment-interval", "10", "--startup-time", "5s", "--scale-down-after", "25s",
		"--listen", site, "--state-file", filepath.Join(state, "planner.json"), "--event-log", events,
	}
	planner := program.Start(t, env, args...)
	url := "http://" + site
	ready := func(role string) int { _, n := StatusOf(t, url).Pool(role); return n }
	program.Until(t, 60*time.Second, "one worker of each pool serves", func() bool {
		if _, err := Get(url + "/readyz"); err != nil {
			return false
		}
		return ready("prefill") == 1 && ready("decode") == 1
	})

	load := Load{URL: "http://" + front, Model: model, ISL: 1500, OSL: 60, Phases: []Phase{{1, 30 * time.Second}, {9, 80 * time.Second}, {1, 70 * time.Second}}}
	sent := make(chan []Sent, 1)
	go func() { sent <- load.Run(t.Context()) }()

	program.Until(t, 100*time.Second, "the fleet grows", func() bool { return ready("prefill") >= 2 })
	browse(t, url)
	planner.Kill() // in the middle of the load
	before, err := os.ReadFile(filepath.Join(state, "dynamo.json"))
	if err != nil {
		t.Fatal(err)
	}
	program.Start(t, env, args...)
	program.Until(t, 30*time.Second, "the planner is back", func() bool { _, err := Get(url + "/readyz"); return err == nil })
	if n := ready("prefill"); n < 2 {
		t.Errorf("after the planner was killed %d prefill workers serve; the state file was\n%s", n, before)
	}

	all := <-sent
	judge(t, all)
	program.Until(t, 90*time.Second, "the fleet shrinks", func() bool { return ready("prefill") == 1 && ready("decode") == 1 })
	metrics, err := Get(url + "/metrics")
	if err != nil || !strings.Contains(metrics, `dynamo_planner_num_prefill_replicas{dynamo_namespace="dynamo"} 1`) {
		t.Errorf("%v: %s", err, metrics)
	}
	if b, err := os.ReadFile(events); err != nil || !strings.Contains(string(b), `"kind":"scaled"`) {
		t.Errorf("%v: %s", err, b)
	}
}

// judge holds what the client saw against the SLA, which is of means, outside the
// ramp: half a minute after the rate rose until it falls.
func judge(t *testing.T, all []Sent) {
	t.Helper()
	steady, ttft, itl := 0, time.Duration(0), time.Duration(0)
	for _, s := range all {
		if s.Failed != "" {
			t.Errorf("the request of %v failed: %s", s.At, s.Failed)
			continue
		}
		if !s.Provenanced {
			t.Errorf("the request of %v does not say that its engine is simulated", s.At)
		}
		if s.At >= 60*time.Second && s.At < 110*time.Second {
			steady, ttft, itl = steady+1, ttft+s.TTFT, itl+s.ITL
		}
	}
	if len(all) < 500 || steady < 300 {
		t.Fatalf("%d requests were sent, %d of them in the steady part", len(all), steady)
	}
	ttft, itl = ttft/time.Duration(steady), itl/time.Duration(steady)
	t.Logf("%d requests, %d in the steady part: mean TTFT %v, mean ITL %v", len(all), steady, ttft, itl)
	if ttft > 400*time.Millisecond || itl > 40*time.Millisecond {
		t.Errorf("in the steady part mean TTFT was %v and mean ITL %v: the SLA is 400ms and 40ms", ttft, itl)
	}
}

// browse looks at the planner's page in a real browser.
func browse(t *testing.T, url string) {
	t.Helper()
	command := exec.CommandContext(t.Context(), "chromium", "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
		"--disable-background-networking", "--disable-component-update", "--disable-sync", "--user-data-dir="+t.TempDir(),
		"--enable-logging=stderr", "--virtual-time-budget=5000", "--dump-dom", url)
	var errs strings.Builder
	command.Stderr = &errs
	dom, err := command.Output()
	if err != nil {
		t.Fatalf("chromium: %v: %s", err, errs.String())
	}
	for _, want := range []string{"prefill serving", "decode wanted", "requests/s", "SLA 400", "<path d=\"M", "decision"} {
		if !strings.Contains(string(dom), want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if strings.Contains(errs.String(), "CONSOLE") {
		t.Errorf("the page complains: %s", errs.String())
	}
}

// The example of Dynamo's planner observes a real Prometheus server without a profile and
// without a command of workers, and changes nothing.
func TestWatchesPrometheusAlone(t *testing.T) {
	t.Parallel()
	dir, site, f := t.TempDir(), free.Address(t), newTraffic(t, "watched")
	f.set(steady(brisk), figures)
	p := program.Start(t, []string{"DYN_LOCAL_STATE_DIR=" + dir + "/workers", "XDG_STATE_HOME=" + dir}, "planner", "serve", "--namespace=watched", "--no-operation",
		"--log-dir="+dir+"/log", "--backend", "dynamo", "--metrics-namespace", "watched", "--metric-pulling-prometheus-endpoint", prometheusEvery(t, time.Second, f.address),
		"--adjustment-interval", "5", "--listen", site)
	program.Until(t, 60*time.Second, "it sees the load", func() bool {
		body, err := Get("http://" + site + "/metrics")
		return err == nil && strings.Contains(body, "dynamo_planner_observed_requests_per_second{")
	})
	if code := p.Stop(); code != 0 {
		t.Errorf("it ended with %d", code)
	}
	if _, err := os.Stat(dir + "/workers"); !os.IsNotExist(err) {
		t.Errorf("something was written for workers: %v", err)
	}
}
