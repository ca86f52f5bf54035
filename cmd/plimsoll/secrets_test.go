package main

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"plimsoll/engine/enginetest"
	"plimsoll/planner/connect/local"
	"plimsoll/profile/store"
)

// What an engine's own flags hold is no less secret than what is said here.
func TestRedacted(t *testing.T) {
	got := profileOptions{apiKey: "k1"}.redacted([]string{"vllm", "--header", "Bearer k1", "--api-key", "k2", "--hf-token=k3", "--quantization", "fp8"})
	want := []string{"vllm", "--header", "Bearer [redacted]", "--api-key", "[redacted]", "--hf-token=[redacted]", "--quantization", "fp8"}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

// hiddenIn is a credential for a place; all of them can be looked for.
func hiddenIn(place string) string { return "Conf1dential-" + place + "-Zq" }

var anyHidden = regexp.MustCompile(`(Conf1dential|hf_Conf1dential)-?[A-Za-z0-9-]*`)

// leaks looks for credentials in files and outputs. What engines write themselves, to
// logs of their own, nobody else may read.
func leaks(t *testing.T, dir string, outputs ...string) {
	t.Helper()
	for i, out := range outputs {
		if found := anyHidden.FindString(out); found != "" {
			t.Errorf("output %d shows %s:\n%s", i, found, out)
		}
	}
	files := 0
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		files++
		if strings.HasSuffix(path, ".log") {
			if info, err := d.Info(); err != nil || info.Mode().Perm() != 0o600 {
				t.Errorf("%s: mode %v, %v", path, info.Mode(), err)
			}
			return nil
		}
		text, err := os.ReadFile(path)
		if found := anyHidden.FindString(unpacked(t, path, string(text))); found != "" {
			t.Errorf("%s holds %s", path, found)
		}
		return err
	})
	if err != nil || files < 3 {
		t.Errorf("%d files in %s, %v", files, dir, err)
	}
}

// shows is an engine that prints its arguments and part of its environment as it
// starts, as vLLM does.
const shows = `sh -c 'echo args: "$@"; env | grep -E "TOKEN|KEY|SECRET"; true --password "` + "SCRIPT" + `"; exec badengine "$@"' sh {{.TP}} {{.Port}} {{.PrefixCaching}} 1=dies`

// A profile is given credentials in a dozen places, of an engine that prints them,
// and of another size that prints them and dies: none is in a file or an output. The
// run is gone on with by another key.
func TestNoCredentialOfAProfileReachesAFile(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	dir := filepath.Join(root, "results")
	template := func(key string) string {
		return "env HF_TOKEN=" + hiddenIn("variable") + " AWS_SECRET=" + hiddenIn("variable2") + " " + strings.ReplaceAll(shows, "SCRIPT", hiddenIn("script")) +
			" --api-key " + key + " --token=" + hiddenIn("equals") + ` --hf-overrides '{"a": {"token": "` + hiddenIn("json") + `"}}'` +
			" -H 'X-Mine: " + hiddenIn("header") + "' --header 'Authorization: Bearer " + hiddenIn("bearer") + "'" +
			" http://me:" + hiddenIn("password") + "@host/ http://host/?api_key=" + hiddenIn("query") + " hf_Conf1dentialShapeOfATokenZq --max-num-batched-tokens 8192"
	}
	env := []string{"WANDB_API_KEY=" + hiddenIn("inherited")}
	args := func(key string, more ...string) []string {
		return commanded(dir, template(key), append([]string{"--gpu-count", "2", "--api-key", hiddenIn("own"), "--header", "X-Own: " + hiddenIn("ownheader"), "--verbose"}, more...)...)
	}
	dry := start(t, env, args(hiddenIn("flag"), "--dry-run")...)
	if code := dry.wait(t); code != exitDone {
		t.Fatalf("exit code %d\n%s", code, &dry.errout)
	}
	// Whether a busy machine can measure the engine is not looked at.
	p := start(t, env, args(hiddenIn("flag"))...)
	if code := p.wait(t); code != exitDone && code != exitFailed {
		t.Fatalf("exit code %d\n%s", code, &p.errout)
	}
	leaks(t, root, dry.out.String(), dry.errout.String(), p.out.String(), p.errout.String())
	said := p.errout.String()
	if strings.Count(said, "plimsoll: warning: --command holds a credential. It is written to no file, but all users of this machine can see it in ps\nplimsoll: hint: export VLLM_API_KEY") != 1 {
		t.Errorf("no warning in\n%s", said)
	}
	run, err := store.ReadRun(dir)
	if err != nil {
		t.Fatal(err)
	}
	words := run.Engines[0].Command
	if i := slices.Index(words, "--api-key"); i < 0 || words[i+1] != "[redacted]" || !slices.Equal(words[len(words)-2:], []string{"--max-num-batched-tokens", "8192"}) {
		t.Errorf("started as %q", words)
	}
	if len(run.Skips) == 0 || !strings.Contains(run.Skips[0].Reason, "HF_TOKEN=[redacted]") || !strings.Contains(run.Skips[0].Reason, "CUDA error") {
		t.Errorf("skips %+v", run.Skips)
	}
	if log, err := os.ReadFile(filepath.Join(dir, "engines", "tp2.log")); err != nil || !strings.Contains(string(log), hiddenIn("flag")) {
		t.Errorf("the engine's own log is not its own: %v", err) // then the test above looks at nothing
	}

	changed := start(t, env, args(hiddenIn("changed"), "--resume")...)
	if code := changed.wait(t); code != exitUsage || !strings.Contains(changed.errout.String(), "was another: --command holds another credential\n") {
		t.Errorf("another key: exit code %d\n%s", code, &changed.errout)
	}
	leaks(t, root, changed.out.String(), changed.errout.String())
	other := start(t, env, append(args(hiddenIn("flag"), "--resume"), "--command", template(hiddenIn("flag"))+" --x 5")...)
	if code := other.wait(t); code != exitUsage || !strings.Contains(other.errout.String(), "the run in "+dir+" was another: --command") {
		t.Errorf("another command is taken for the same: exit code %d\n%s", code, &other.errout)
	}

	// A journal of an earlier version holds the template as it was given.
	journalWith(t, dir, func(in store.Inputs) { in["--command"] = template(hiddenIn("flag")) })
	if text, err := os.ReadFile(filepath.Join(dir, store.JournalFile)); err != nil || strings.Count(string(text), hiddenIn("flag")) != 1 {
		t.Fatalf("the journal has no command: %v", err)
	}
	old := start(t, env, args(hiddenIn("flag"), "--resume")...)
	if code := old.wait(t); code != exitDone && code != exitFailed {
		t.Errorf("a run of an earlier version: exit code %d\n%s", code, &old.errout)
	}
}

// Errors, configuration files and manifests show none, either.
func TestNoCredentialIsShown(t *testing.T) {
	t.Parallel()
	root, env := t.TempDir(), withStandIns(t)
	write := func(name, text string, mode fs.FileMode) string {
		path := filepath.Join(root, name)
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	served := write("served.yaml", "prometheus-endpoint: http://me:"+hiddenIn("manifest")+"@h:9090\npolicy: load\n", 0o644)
	unread := write("profile.yaml", "command: srv {{.Port}} {{.TP}} --api-key "+hiddenIn("config")+"\n", 0o644)
	graph := write("graph.yaml", "VllmWorker: {model: m, endpoint: 'http://me:"+hiddenIn("graph")+"@h', api-key: "+hiddenIn("graph2")+"}\nPrefillWorker: {model: m, api-key: "+hiddenIn("graph3")+"}\n", 0o644)
	for name, c := range map[string]struct {
		code int
		args []string
		says string
	}{
		"template without a port": {exitUsage, []string{"profile-sla", "--gpu-count", "1", "--command", "srv --api-key " + hiddenIn("noport")}, "--api-key [redacted]"},
		"endpoint":                {exitUsage, []string{"profile-sla", "--endpoint", "http://me:" + hiddenIn("endpoint") + "@127.0.0.1:1", "--max-in-flight", "1", "--output-dir", filepath.Join(root, "x")}, ""},
		"header":                  {exitUsage, []string{"profile-sla", "--header", hiddenIn("bareheader")}, "--header"},
		"config":                  {exitDone, []string{"profile-sla", "--config", unread, "--gpu-count", "1", "--dry-run", "--verbose"}, "--api-key [redacted]"},
		"configured and wrong":    {exitUsage, []string{"profile-sla", "--config", unread, "--gpu-count", "1", "--tp", "x"}, ""},
		"of Dynamo":               {exitDone, []string{"profile-sla", "--config", graph, "--gpu", "h100-sxm", "--gpu-count", "1", "--dry-run"}, "--endpoint http://me:[redacted]@h"},
		"after --":                {exitDone, []string{"profile-sla", "--engine", "vllm", "--model", simModel, "--gpu", "h100-sxm", "--gpu-count", "1", "--dry-run", "--", "--api-key", hiddenIn("extra"), hiddenIn("extra2")}, "--api-key [redacted] [redacted]"},
		"prometheus":              {exitUsage, []string{"capacity", "review", "--prometheus", "http://me:" + hiddenIn("prometheus") + "@127.0.0.1:1?x=y", "plan.json"}, ""},
		"metrics endpoints":       {exitUsage, []string{"planner", "serve", "--policy", "load", "--environment", "virtual", "--state-file", "none", "--metrics-endpoints", "frontend=ftp://me:" + hiddenIn("metrics") + "@h"}, "[redacted]@h"},
		"left over":               {exitUsage, []string{"gpus", "--token=" + hiddenIn("unknown")}, ""},
		"manifest":                {exitUsage, []string{"planner", "manifest", "--image", "x", "--deployment", "d", "--config", served}, "a credential, which a manifest must not contain"},
		"job":                     {exitUsage, []string{"profile-sla", "manifest", "--plimsoll-image", "x", "--engine", "vllm", "--image", "y", "--model", simModel, "--gpu", "h100-sxm", "--gpu-count", "8", "--", "--api-key", hiddenIn("job")}, "hint: --secret-env NAME=SECRET/KEY"},
		"environment":             {exitUsage, []string{"planner", "serve", "--policy", "load", "--slots", "2", "--state-file", "none", "--prefill-command", "x {{.Port}}", "--decode-command", "x {{.Port}}", "--env-from", "NOT_THERE"}, `--env-from: the variable "NOT_THERE" of the environment is not set, or empty`},
	} {
		p := start(t, env, c.args...)
		code := p.wait(t)
		said := p.out.String() + p.errout.String()
		if code != c.code || !strings.Contains(said, c.says) {
			t.Errorf("%s: exit code %d\n%s", name, code, said)
		}
		if found := anyHidden.FindString(said); found != "" {
			t.Errorf("%s: %s in\n%s", name, found, said)
		}
	}
}

// A planner whose workers are given credentials in all ways, and which is told some
// itself, writes none of them, and files that only its user may read; those that were
// there are made so.
func TestNoCredentialOfAPlannerReachesAFile(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	prometheus := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, password, _ := r.BasicAuth()
		http.Error(w, fmt.Sprintf("who is %s with %s, %s?", user, password, r.Header.Get("Authorization")), http.StatusUnauthorized)
	}))
	defer prometheus.Close()
	write := func(name, text string, mode fs.FileMode) string {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	state, memory, events := filepath.Join(root, "state", "dynamo.json"), filepath.Join(root, "memory", "m.json"), write("out/events.jsonl", "", 0o644)
	if err := os.Mkdir(filepath.Dir(memory), 0o700); err != nil {
		t.Fatal(err)
	}
	write("state/dynamo.json", `{"components": {"dynamo_VllmWorker": {"want": 1, "watcher_name": "dynamo_VllmWorker", "cmd": "srv --api-key `+hiddenIn("old")+`"}}}`, 0o644)
	worker := func(key string) string {
		return "env HF_TOKEN=" + hiddenIn("variable") + " " + strings.ReplaceAll(shows, "SCRIPT", hiddenIn("script")) + " --api-key " + key
	}
	env := []string{
		"DYN_LOCAL_STATE_DIR=" + filepath.Join(root, "state"), "MY_WORKER_TOKEN=" + hiddenIn("envfrom"), "PLAIN=" + hiddenIn("envfrom2"),
		"ETCD_AUTH_PASSWORD=" + hiddenIn("etcd"),
	}
	serve := func(more ...string) *program {
		return start(t, env, append([]string{
			"planner", "serve", "--policy", "load", "--slots", "4", "--max-gpu-budget", "4", "--prefill-engine-num-gpu", "1", "--decode-engine-num-gpu", "1",
			"--prefill-command", strings.Replace(worker(hiddenIn("prefill")), "1=dies", "", 1), "--decode-command", worker(hiddenIn("decode")),
			"--env-from", "MY_WORKER_TOKEN,PLAIN", "--listen", "127.0.0.1:0", "--stop-workers", "--start-timeout", "30s",
			"--prometheus-endpoint", strings.Replace(prometheus.URL, "//", "//me:"+hiddenIn("basic")+"@", 1),
			"--state-file", memory, "--event-log", events, "--log-dir", filepath.Join(root, "boards"), "--adjustment-interval", "1", "--metric-pulling-interval", "1",
		}, more...)...)
	}
	p := serve()
	enginetest.Eventually(t, "a decision, and a worker that died", func() bool {
		return strings.Contains(p.out.String(), "decision") && strings.Contains(p.errout.String(), "CUDA error")
	})
	enginetest.Eventually(t, "a worker that serves", func() bool {
		workers, err := local.Workers(state)
		return err == nil && slices.ContainsFunc(workers, func(w local.Worker) bool { return w.State == local.Ready })
	})
	address := regexp.MustCompile(`listening: (http://\S+)`).FindStringSubmatch(p.errout.String())
	if address == nil {
		t.Fatalf("it listens nowhere:\n%s", &p.errout)
	}
	answers := []string{}
	for _, path := range []string{"/", "/metrics", "/api/status", "/api/events", "/api/history"} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address[1]+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		var b strings.Builder
		_ = resp.Write(&b)
		_ = resp.Body.Close()
		answers = append(answers, b.String())
	}
	leaks(t, root, append(answers, p.out.String(), p.errout.String())...)
	text, err := os.ReadFile(state)
	if err != nil || !strings.Contains(string(text), "--api-key [redacted]") || !strings.Contains(string(text), "HF_TOKEN=[redacted]") {
		t.Errorf("%v, workers are written down as\n%s", err, text)
	}
	for _, path := range []string{state, state + ".lock", state + ".owner", memory, memory + ".lock", events} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", path, info, err)
		}
	}
	said := p.errout.String()
	for _, want := range []string{
		"plimsoll: warning: --prefill-command holds a credential. It is written to no file, but all users of this machine can see it in ps\nplimsoll: hint: --env-from NAME: ",
	} {
		if strings.Count(said, want) != 1 {
			t.Errorf("want once %q in\n%s", want, said)
		}
	}
	p.signal(t, syscall.SIGTERM)
	if code := p.wait(t); code != exitDone {
		t.Errorf("exit code %d\n%s", code, &p.errout)
	}
	p.noOrphans(t)
	leaks(t, root, p.out.String(), p.errout.String())
}

// A file with a token that others may read is warned of, once, and the token is not shown.
func TestTokenThatOthersMayRead(t *testing.T) {
	t.Parallel()
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte(hiddenIn("tokenfile")+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	said := ran(t, exitUsage, "planner", "serve", "--no-operation", "--policy", "load", "--state-file", "none",
		"--prometheus-endpoint", "http://127.0.0.1:1", "--prometheus-bearer-token-file", token, "--listen", "nonsense").errout.String()
	want := "plimsoll: warning: --prometheus-bearer-token-file " + token + ": other users can read it (mode 0644)\nplimsoll: hint: chmod 600 " + token + "\n"
	if strings.Count(said, want) != 1 || strings.Contains(said, hiddenIn("tokenfile")) {
		t.Errorf("want once %q in\n%s", want, said)
	}
}

// Ordinary words and numbers were looked for in the output: `--format json` was no JSON.
func TestDefectOrdinaryWordsWereHidden(t *testing.T) {
	t.Parallel()
	standIns := withStandIns(t)
	estimate := []string{
		"--engine", "estimate", "--model", "llama-3.1-8b", "--tp", "1", "--isl", "3000", "--osl", "150",
		"--ttft", "200", "--itl", "20", "--max-num-seqs", "8", "--verify", "never", "--output-dir",
	}
	dry := []string{"--engine", "vllm", "--model", simModel, "--gpu-count", "1", "--dry-run"}
	for _, c := range []struct{ env, args []string }{
		{standIns, append(dry, "--header", "X-Pool: decode")},
		{standIns, append(dry, "--header=X-Pool: decode")},
		{[]string{"NIGHT_TOKEN=prefill decode 3000 engine tokens"}, append(estimate, filepath.Join(t.TempDir(), "words"))},
		{[]string{"NIGHT_TOKEN=30000000"}, append(estimate, filepath.Join(t.TempDir(), "digits"))},
	} {
		p := start(t, c.env, slices.Concat([]string{"profile-sla", "--gpu", "h100-sxm", "--format", "json"}, c.args)...)
		if code := p.wait(t); code != exitDone {
			t.Errorf("%q: exit code %d\n%s", c.args, code, &p.errout)
		}
		text := p.out.String()
		if !json.Valid([]byte(text)) || !strings.Contains(text, "decode") || strings.Contains(text, "[redacted]") {
			t.Errorf("%q: %s", c.args, text)
		}
	}
}
