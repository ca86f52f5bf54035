package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"plimsoll/engine/enginetest"
)

// The example of Dynamo's planner runs as it stands: without a profile and without a
// command of workers it observes. It says by what it decides, writes its log, answers its
// page, scales nothing, and ends on Ctrl-C.
func TestPlannerWatchesAsDynamos(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	steady := steadyPrometheus()
	there := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		steady.ServeHTTP(w, r)
	}))
	t.Cleanup(there.Close)
	for name, more := range map[string][]string{
		"as it stands":         nil, // by the environment's server
		"Prometheus is absent": {"--metric-pulling-prometheus-endpoint", "http://127.0.0.1:1"},
		"Prometheus is there":  {"--metric-pulling-prometheus-endpoint", there.URL},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			p := start(t, []string{"PROMETHEUS_ENDPOINT=http://127.0.0.1:2", "XDG_STATE_HOME=" + dir + "/state", "DYN_LOCAL_STATE_DIR=" + dir + "/workers"}, append([]string{
				"planner", "serve", "--namespace=dynamo", "--served-model-name=vllm", "--no-operation", "--log-dir=" + dir + "/log/planner",
				"--listen", "127.0.0.1:0", "--adjustment-interval", "1",
			}, more...)...)
			address, url := regexp.MustCompile(`listening: (http://127\.0\.0\.1:\d+)`), ""
			enginetest.Eventually(t, "the page's address", func() bool {
				if m := address.FindStringSubmatch(p.errout.String()); m != nil {
					url = m[1]
				}
				return url != ""
			})
			enginetest.Eventually(t, "two decisions", func() bool { return strings.Count(p.out.String(), "dynamo decision: none: no workers are seen\n") >= 2 })
			fleet := `{"components":{`
			for i, role := range []string{"prefill", "decode"} {
				fleet += strings.Repeat(",", i) + `"dynamo_` + role + `":{"role":"` + role + `","state":"ready","pid":7,"port":9,"url":"http://127.0.0.1:1","log":"/l/x.log","start_ticks":1,"boot_id":"b"}`
			}
			if err := os.MkdirAll(dir+"/workers", 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(dir+"/workers/dynamo.json", []byte(fleet+"}}"), 0o600); err != nil {
				t.Fatal(err)
			}
			enginetest.Eventually(t, "a decision about them", func() bool { return strings.Contains(p.out.String(), "dynamo decision: stays at prefill=1, decode=1") })
			if code, page, err := get(t, url); err != nil || code != http.StatusOK || !strings.Contains(page, "<html") {
				t.Errorf("the page: %d, %v", code, err)
			}
			p.signal(t, syscall.SIGINT)
			if code := p.wait(t); code != exitDone {
				t.Errorf("it ended with %d", code)
			}
			out, errout := p.out.String(), p.errout.String()
			first(t, "stderr", errout, "plimsoll: note: dynamo: without --profile the policy is load: it scales by thresholds on queue (0.5, 0.2) and KV use (0.9, 0.5), and knows no SLA\n")
			if note := "plimsoll: note: dynamo: no state file at " + dir + "/workers/"; strings.Count(errout, note) != 1 || !strings.Contains(errout, ". Decisions wait until it lists workers\n") ||
				!strings.Contains(errout, "waiting for the deployment: it has no prefill workers\n") {
				t.Errorf("nothing says that no state file is there:\n%s", errout)
			}
			if !strings.Contains(out, "metrics-loss: missing: ") || strings.Contains(out, "prefill=0") || strings.Contains(out, "dynamo scaled") {
				t.Errorf("what is missing:\n%s", out)
			}
			port := map[string]string{"as it stands": "2", "Prometheus is absent": "1", "Prometheus is there": ""}[name]
			if refused := strings.Contains(out, "dial tcp 127.0.0.1:"+port+": connect: connection refused"); refused != (port != "") {
				t.Errorf("of the server:\n%s%s", out, errout)
			}
			if answered := strings.Contains(out, "has no series of requests of the model \"vllm\""); answered != strings.Contains(name, "there") {
				t.Errorf("of the server:\n%s%s", out, errout)
			}
			logs, err := filepath.Glob(dir + "/log/planner/dynamo/*/events.out.tfevents.*")
			if err != nil || len(logs) != 1 {
				t.Fatalf("logs %v, %v", logs, err)
			}
			if info, err := os.Stat(logs[0]); err != nil || info.Size() == 0 {
				t.Errorf("%s: %v", logs[0], err)
			}
			if files, err := os.ReadDir(dir + "/workers"); err != nil || len(files) != 1 || readFile(t, dir+"/workers/dynamo.json") != fleet+"}}" {
				t.Errorf("something was written for workers: %v, %v", files, err)
			}
		})
	}
	t.Cleanup(func() {
		if asked.Load() == 0 {
			t.Error("the Prometheus server was not asked")
		}
	})
}

// Dynamo's names of three flags are ours, on the command line and in a file.
func TestPlannerTakesDynamosNames(t *testing.T) {
	dir := plannerProfile(t)
	file := configFile(t, "profile-results-dir: "+dir+"\nmodel-name: m\nmetric-pulling-prometheus-endpoint: http://p:9090\n")
	for _, args := range [][]string{{"--profile-results-dir", dir, "--model-name", "m"}, {"--config", file}} {
		all, err := parsedPlanner(t, args...)
		if err != nil {
			t.Fatal(err)
		}
		if s := all[0]; s.surfaces.dir != dir || s.model != "m" || s.policy != "default" {
			t.Errorf("%q: profile %s, model %s, policy %s", args, s.surfaces.dir, s.model, s.policy)
		}
	}
	all, err := parsedPlanner(t, "--config", file, "--profile-results-dir", plannerProfile(t), "--model-name", "other")
	if err != nil || all[0].surfaces.dir == dir || all[0].model != "other" {
		t.Errorf("flags do not win over the file: %+v, %v", all[0].model, err)
	}
}

// Without a command, workers of this machine can only be looked at.
func TestLocalWorkersNeedCommands(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		more  []string
		lacks string
		hint  string
	}{
		{nil, "--prefill-command and --decode-command are missing: how prefill and decode workers are started", "--no-operation observes without a command"},
		{[]string{"--no-operation", "--decode-command", "x {{.Port}}"}, "--prefill-command is missing: how prefill workers are started", "--no-operation needs no command: leave out the other worker commands too"},
	} {
		p := ran(t, exitUsage, append([]string{"planner", "serve", "--slots", "2", "--state-file", "none"}, c.more...)...)
		if got := p.errout.String(); !strings.Contains(got, "error: "+c.lacks+"\n") || !strings.Contains(got, "\nplimsoll: hint: "+c.hint+"\n") {
			t.Errorf("%q: %s", c.more, got)
		}
	}
}

// What a command says of its program is looked at before anything is started.
func TestWorkerProgram(t *testing.T) {
	t.Parallel()
	plain := filepath.Join(t.TempDir(), "plain")
	if err := os.WriteFile(plain, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	const warning = "warning: dynamo: --drains-on-term, but vLLM does not finish its requests after TERM"
	for _, c := range []struct {
		command       string
		says, saysNot string
	}{
		{"no-such-engine {{.Port}}", `error: --aggregated-command: its program cannot be started: exec: "no-such-engine": executable file not found in $PATH` + "\nplimsoll: hint: install it, or give its full path\n", warning},
		{plain + " {{.Port}}", "permission denied", warning},
		{"{{if .PrefixCaching}}a{{else}}no-such-engine{{end}} {{.Port}}", "error: --listen", "cannot be started"},
		{"env A=1 no-such-engine {{.Port}}", "error: --listen", "cannot be started"},
		{"env vllm serve {{.Model}} --port {{.Port}}", warning, "cannot be started"},
		{"env python3 -m vllm.entrypoints.openai.api_server --port {{.Port}}", warning, "cannot be started"},
		{"env python3 -m dynamo.vllm --port {{.Port}}", "error: --listen", warning},
		{"env llama-server -m vllm-served.gguf --port {{.Port}}", "error: --listen", warning},
	} {
		p := ran(t, exitUsage, "planner", "serve", "--policy", "load", "--mode", "aggregated", "--slots", "2", "--state-file", "none", "--drains-on-term", "--listen", "x", "--aggregated-command", c.command)
		if got := p.errout.String(); !strings.Contains(got, c.says) || strings.Contains(got, c.saysNot) {
			t.Errorf("%q: %s", c.command, got)
		}
	}
}

// A planner that may act without a profile warns of it, quietly too; one that only
// observes, or whose policy was chosen, notes it.
func TestNoProfileIsWarnedOf(t *testing.T) {
	t.Parallel()
	const (
		warning = "plimsoll: warning: dynamo: no --profile: replicas follow the default thresholds of --policy load, on queue (0.5, 0.2) and KV use (0.9, 0.5), and no SLA\nplimsoll: hint: give --profile DIR of profile-sla, or --policy load to choose this\n"
		note    = "plimsoll: note: dynamo: without --profile the policy is load: "
	)
	for _, c := range []struct {
		more []string
		want string
	}{
		{nil, warning},
		{[]string{"--quiet"}, warning},
		{[]string{"--no-operation", "--decode-command", "x {{.Port}}"}, note},
		{[]string{"--policy", "load"}, note},
		{[]string{"--decode-kv-scale-up-threshold", "0.8"}, "no --profile: replicas follow the thresholds of --policy load"},
	} {
		p := ran(t, exitUsage, append([]string{"planner", "serve", "--slots", "2", "--state-file", "none"}, c.more...)...)
		if got := p.errout.String(); !strings.Contains(got, c.want) || c.want == note && strings.Contains(got, "warning:") {
			t.Errorf("%q: %s", c.more, got)
		}
	}
}
