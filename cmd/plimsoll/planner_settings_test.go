package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/urfave/cli/v2"

	"plimsoll/engine"
	"plimsoll/planner"
	"plimsoll/planner/serve"
	"plimsoll/profile"
	"plimsoll/profile/store"
)

// parsedPlanner are the settings that a command line and a file give.
func parsedPlanner(t *testing.T, args ...string) ([]plannerSettings, error) {
	t.Helper()
	var all []plannerSettings
	command := plannerServeCommand()
	command.Action = func(c *cli.Context) error {
		contexts, err := plannerContexts(c)
		if err != nil {
			return err
		}
		for _, one := range contexts {
			s, err := parsePlanner(one)
			if err != nil {
				return err
			}
			all = append(all, s)
		}
		return nil
	}
	app := newApp(streams{in: strings.NewReader(""), out: &bytes.Buffer{}, err: &bytes.Buffer{}})
	app.Commands = []*cli.Command{command}
	finish(command)
	return all, app.RunContext(context.Background(), append([]string{"plimsoll", "serve"}, args...))
}

func configFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "planner.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// plannerProfile is a finished profile's folder: a small measured one.
func plannerProfile(t *testing.T, change ...func(*store.Recommendation)) string {
	t.Helper()
	dir := t.TempDir()
	p := profile.PrefillSurface{Provenance: profile.Measured}
	for _, isl := range []int{100, 500, 1000, 4000} {
		ttft := time.Duration(10_000+100*isl) * time.Microsecond
		p.Samples = append(p.Samples, profile.PrefillSample{ISL: isl, TTFT: ttft, ThroughputPerGPU: float64(isl) / ttft.Seconds()})
	}
	d := profile.DecodeSurface{MaxKVTokens: 100_000, Provenance: profile.Measured}
	for _, c := range []float64{500, 1000, 4000} {
		for n := 1.0; n <= 20; n += 5 {
			itl := time.Duration(10_000+200*n) * time.Microsecond
			d.Samples = append(d.Samples, profile.DecodeSample{KVUsage: n * c / 1e5, Context: c, ITL: itl, ThroughputPerGPU: n / itl.Seconds() / 2})
		}
	}
	pick := func(gpus int) *store.Pick {
		p := store.NewPick(engine.Config{Parallelism: engine.TP(gpus)})
		p.InFlight, p.TTFTMillis, p.ITLMillis, p.ThroughputPerGPU = 4, 100, 12, 1000
		return &p
	}
	rec := store.Recommendation{
		Schema: store.RecommendationSchemaVersion, Mode: store.Disaggregated, Feasible: true, Model: "llama-3.1-8b", Engine: store.EngineName{Kind: engine.KindCommand},
		SLA: store.SLA{TTFTMillis: 300, ITLMillis: 30, Stat: profile.P99}, Workload: store.Lengths{ISL: 1000, OSL: 100},
		Prefill: pick(1), Decode: pick(2),
		Surfaces: store.Surfaces{
			Prefill: &store.Surface{File: store.SurfaceNPZ(profile.Prefill), Points: len(p.Samples)},
			Decode:  &store.Surface{File: store.SurfaceNPZ(profile.Decode), Points: len(d.Samples), MaxKVTokens: d.MaxKVTokens},
		},
		Thresholds: store.Thresholds{PrefillQueueSize: store.Bounds{Upper: 0.7, Lower: 0.3}, DecodeKVUtilization: store.Bounds{Upper: 0.8, Lower: 0.4}},
	}
	for _, f := range change {
		f(&rec)
	}
	for _, err := range []error{store.WritePrefill(dir, p), store.WriteDecode(dir, d), store.WriteRecommendation(dir, rec)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// Flags win over the file, the file over the profile, that over the defaults.
func TestPlannerPrecedence(t *testing.T) {
	dir := plannerProfile(t)
	file := configFile(t, "profile: "+dir+"\nttft: 250\nmax-gpu-budget: 12\nload-predictor: kalman\n")
	all, err := parsedPlanner(t, "--config", file, "--max-gpu-budget", "16")
	if err != nil {
		t.Fatal(err)
	}
	s := all[0]
	d := s.deployment
	if d.Budget.Max != 16 || d.SLA.TTFT != 250*time.Millisecond || d.SLA.ITL != 30*time.Millisecond || d.SLA.Stat != profile.P99 {
		t.Errorf("%+v", d)
	}
	if d.Pools[0].GPUs != 1 || d.Pools[1].GPUs != 2 || s.forecast.Kind != "kalman" || s.interval != 180*time.Second || s.policy != "default" {
		t.Errorf("%+v, %+v", d, s)
	}
	if s.load.KVUp != 0.8 || s.load.QueueDown != 0.3 || s.careful.ISL != 1000 || s.careful.OSL != 100 {
		t.Errorf("%+v, %+v", s.load, s.careful)
	}
}

// Without a profile the defaults are Dynamo's, as the design fixes them.
func TestPlannerDefaults(t *testing.T) {
	all, err := parsedPlanner(t, "--policy", "load")
	if err != nil {
		t.Fatal(err)
	}
	s := all[0]
	if s.interval != 30*time.Second || s.pull != time.Second || s.name != "dynamo" || !s.blocking {
		t.Errorf("%+v", s)
	}
	if d := s.deployment; d.Budget.Max != 8 || d.Budget.Min != 1 || d.SLA.TTFT != 0 || d.SLA.ITL != 0 || d.Pools[0].Min != 1 || d.Pools[1].GPUs != 1 {
		t.Errorf("%+v", d)
	}
	if l := s.load; l.KVUp != 0.9 || l.KVDown != 0.5 || l.QueueUp != 0.5 || l.QueueDown != 0.2 {
		t.Errorf("%+v", l)
	}
}

// Latencies that neither a flag nor the profile states are asked for, all at once, where
// the policy plans by them.
func TestPlannerAsksForTheSLA(t *testing.T) {
	t.Parallel()
	dir := dynamoFolder(t)
	for _, c := range []struct {
		args []string
		want string
	}{
		{nil, "--ttft and --itl are missing: "},
		{[]string{"--ttft", "500"}, "--itl is missing: "},
		{[]string{"--itl", "50", "--policy", "upstream"}, "--ttft is missing: "},
		{[]string{"--itl", "50", "--ttft", "500"}, ""},
		{[]string{"--policy", "load"}, ""},
	} {
		_, err := parsedPlanner(t, append([]string{"--profile", dir, "--accept-provenance", "published"}, c.args...)...)
		if got := fmt.Sprint(err); c.want == "" && err != nil || !strings.HasPrefix(got, c.want) {
			t.Errorf("%q: %v, want %q", c.args, err, c.want)
		}
	}
	all, err := parsedPlanner(t, "--profile", plannerProfile(t), "--itl", "30")
	if err != nil || all[0].deployment.SLA.TTFT == 0 || all[0].promise != "the TTFT is the profile's" {
		t.Errorf("%v: %+v", err, all)
	}
}

// Where pools may be switched off, no GPU is kept that nobody asked to keep: it would
// be half of a deployment.
func TestPlannerKeepsNoHalfDeployment(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args []string
		want int
	}{
		{nil, 1},
		{[]string{"--min-endpoint", "0"}, 0},
		{[]string{"--min-endpoint", "0", "--min-gpu-budget", "2"}, 2},
		{[]string{"--config", configFile(t, "min-endpoint: 0\n")}, 0},
		{[]string{"--config", configFile(t, "min-endpoint: 0\nmin-gpu-budget: 1\n")}, 1},
	} {
		all, err := parsedPlanner(t, append([]string{"--policy", "load"}, c.args...)...)
		if err != nil {
			t.Fatal(err)
		}
		if got := all[0].deployment.Budget.Min; got != c.want {
			t.Errorf("%q: %d GPUs are kept, want %d", c.args, got, c.want)
		}
	}
}

// Dynamo's graph files hold a Planner block among those of other services.
func TestPlannerBlockOfDynamo(t *testing.T) {
	file := configFile(t, `
Frontend: {served_model_name: x, port: 8000}
Planner:
  environment: local
  no-operation: true
  policy: load
  max_gpu_budget: 5
  adjustment-interval: 10
  ttft_ms: 200
  ServiceArgs: {resources: {cpu: 1}}
`)
	all, err := parsedPlanner(t, "--config", file)
	if err != nil {
		t.Fatal(err)
	}
	if s := all[0]; !s.advise || s.deployment.Budget.Max != 5 || s.interval != 10*time.Second || s.deployment.SLA.TTFT != 200*time.Millisecond {
		t.Errorf("%+v", s)
	}
}

func TestPlannerDeployments(t *testing.T) {
	dir := plannerProfile(t)
	file := configFile(t, "max-gpu-budget: 20\nprofile: "+dir+`
deployments:
  - {namespace: a, ttft: 200, priority: 1}
  - {namespace: b, policy: load, max-gpu-budget: 6}
`)
	all, err := parsedPlanner(t, "--config", file)
	if err != nil {
		t.Fatal(err)
	}
	if len(all) != 2 || all[0].name != "a" || all[1].name != "b" || all[0].priority != 1 || all[1].priority != 0 {
		t.Fatalf("%+v", all)
	}
	if all[0].deployment.SLA.TTFT != 200*time.Millisecond || all[1].deployment.SLA.TTFT != 300*time.Millisecond || all[1].policy != "load" {
		t.Errorf("%+v", all)
	}
	if all[0].deployment.Budget.Max != 8 || all[1].deployment.Budget.Max != 6 {
		t.Errorf("budgets of their own are %d and %d, want the default and 6", all[0].deployment.Budget.Max, all[1].deployment.Budget.Max)
	}
}

// The budget of local workers is what they may have, unless one is given; several
// deployments share it.
func TestBudgetOfDevices(t *testing.T) {
	const local = "policy: load\nmode: aggregated\naggregated-command: e {{.Port}}\n"
	for _, c := range []struct {
		text   string
		own    []int
		shared int // -1: none
		err    string
	}{
		{local + "slots: 3", []int{3}, -1, ""},
		{local + "gpus: 0-11", []int{12}, -1, ""},
		{local + "slots: 3\nmax-gpu-budget: 2", []int{2}, -1, ""},
		{local + "slots: 1\nmin-endpoint: 2", nil, -1, "the budget of 1 GPU is below the 2"},
		{"policy: load\nslots: 3\nno-operation: true", []int{8}, -1, ""},
		{local + "slots: 3\ndeployments: [{namespace: a}, {namespace: b}]", []int{3, 3}, 3, ""},
		{local + "deployments: [{namespace: a, gpus: 0-2}, {namespace: b, gpus: '2,3'}]", []int{3, 2}, 4, ""},
		{local + "slots: 3\nmax-gpu-budget: 2\ndeployments: [{namespace: a}, {namespace: b}]", []int{3, 3}, 2, ""},
		{local + "slots: 3\nmax-gpu-budget: -1\ndeployments: [{namespace: a}, {namespace: b}]", []int{3, 3}, -1, ""},
		{local + "slots: 1\ndeployments: [{namespace: a}, {namespace: b}]", []int{1, 1}, -1, "the deployments share the GPUs of this machine: 1 GPUs are too few"},
	} {
		file := configFile(t, c.text)
		all, err := parsedPlanner(t, "--config", file)
		shared := -1
		if err == nil {
			f, bad := readPlannerFile(file)
			gpus, ok, no := f.sharedGPUs(servedFlags(t), all)
			if err = errors.Join(bad, no); ok {
				shared = gpus
			}
		}
		var own []int
		for _, s := range all {
			own = append(own, s.deployment.Budget.Max)
		}
		if !slices.Equal(own, c.own) || shared != c.shared || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: budgets %d, shared %d, %v", c.text, own, shared, err)
		}
	}
}

// servedFlags are those of planner serve, none of which is set.
func servedFlags(t *testing.T) *cli.Context {
	t.Helper()
	c, err := flagsOf(plannerServeCommand(), newApp(streams{in: strings.NewReader(""), out: &bytes.Buffer{}, err: &bytes.Buffer{}}), nil)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestPlannerRefuses(t *testing.T) {
	dir := plannerProfile(t)
	weak := plannerProfile(t, func(r *store.Recommendation) { r.Provenance = profile.Estimated })
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--policy", "default"}, "needs --profile"},
		{[]string{"--profile", t.TempDir()}, "--profile"},
		{[]string{"--profile", weak}, "its latencies are estimated, not measured"},
		{[]string{"--profile", dir, "--max-gpu-budget", "2"}, "the budget of 2 GPUs is below the 3"},
		{[]string{"--profile", dir, "--ttft", "0"}, "--ttft"},
		{[]string{"--profile", dir, "--policy", "magic"}, "--policy"},
		{[]string{"--profile", dir, "--namespace", "a/b"}, "--namespace"},
		{[]string{"--profile", dir, "--adjustment-interval", "0"}, "--adjustment-interval"},
		{[]string{"--profile", dir, "--load-prediction-window-size", "1"}, "--load-prediction-window-size"},
		{[]string{"--config", configFile(t, "tttft: 3")}, `unknown key "tttft"`},
		{[]string{"--config", configFile(t, "deployments: 3")}, "want a list"},
		{[]string{"--config", configFile(t, "deployments: [{listen: x}]")}, "listen is for the whole planner"},
		{[]string{"--config", configFile(t, "deployments: [{config: x}]")}, `unknown key "config"`},
		{[]string{"--config", configFile(t, "Planner: 3")}, "want a mapping"},
		{[]string{"--config", configFile(t, "ttft: [")}, "--config"},
		{[]string{"--config", "/nowhere.yaml"}, "--config"},
		{[]string{"--config", configFile(t, strings.Repeat("[", 300_000))}, "more than 256 KiB"},
		{[]string{"--config", configFile(t, "ttft: 1\n---\nitl: 2\n")}, "more than one document"},
	} {
		if _, err := parsedPlanner(t, c.args...); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %v lacks %q", c.args, err, c.want)
		}
	}
	if all, err := parsedPlanner(t, "--profile", weak, "--accept-provenance", "estimated"); err != nil || all[0].surfaces.provenance != profile.Estimated {
		t.Errorf("%v", err)
	}
}

func FuzzPlannerFile(f *testing.F) {
	f.Add("ttft: 3\ndeployments: [{namespace: a}]")
	f.Add("Planner: {ttft_ms: 3}")
	f.Add("deployments: [3]")
	f.Fuzz(func(t *testing.T, text string) {
		_, _ = parsedPlanner(t, "--config", configFile(t, text))
	})
}

// Flags of the whole process are keys of the file, too.
func TestPlannerFileOfTheProcess(t *testing.T) {
	for text, want := range map[string]string{
		"event-log: /nowhere/at/all.jsonl": "--event-log: ",
		"listen: 9085":                     "--listen \"9085\": want HOST:PORT",
	} {
		var out, errs bytes.Buffer
		args := []string{"plimsoll", "planner", "serve", "--policy", "load", "--slots", "2", "--prefill-command", "sh {{.Port}}", "--decode-command", "sh {{.Port}}", "--state-file", "none", "--config", configFile(t, text)}
		if code := run(t.Context(), args, streams{in: strings.NewReader(""), out: &out, err: &errs}); code != 2 || !strings.Contains(errs.String(), want) {
			t.Errorf("%s: exit %d, %s", text, code, errs.String())
		}
	}
}

// What a manifest lets a container run is what planner serve takes.
func TestManifestRunsServe(t *testing.T) {
	var out, errs bytes.Buffer
	code := run(t.Context(), []string{
		"plimsoll", "planner", "manifest", "--image", "x", "--deployment", "graph", "--target", "prefill=apps/v1/Deployment/p", "--target", "decode=apps/v1/Deployment/d",
	}, streams{in: strings.NewReader(""), out: &out, err: &errs})
	if code != 0 {
		t.Fatal(errs.String())
	}
	_, rest, ok := strings.Cut(out.String(), "args:\n")
	var args []string
	for line := range strings.SplitSeq(rest, "\n") {
		arg, item := strings.CutPrefix(strings.TrimSpace(line), "- ")
		if !item {
			break
		}
		args = append(args, strings.Trim(arg, `"'`))
	}
	if !ok || len(args) < 8 || args[1] != "serve" {
		t.Fatalf("%q of %s", args, out.String())
	}
	all, err := parsedPlanner(t, args[2:]...)
	if err != nil || all[0].policy != "load" {
		t.Errorf("%v: %v", args, err)
	}
}

// What capacity plan --emit planner prints (its script compares that with the same
// text) is a configuration of planner serve.
func TestPlanIsAConfiguration(t *testing.T) {
	script, err := os.ReadFile("testdata/script/capacity_emit.txt")
	if err != nil {
		t.Fatal(err)
	}
	_, text, found := strings.Cut(string(script), "-- planner.yaml --\n")
	text, _, _ = strings.Cut(text, "\n-- ")
	all, err := parsedPlanner(t, "--config", configFile(t, text), "--profile", plannerProfile(t))
	if !found || err != nil || len(all) != 1 {
		t.Fatalf("%q: %d deployments, %v", text, len(all), err)
	}
	if d := all[0].deployment; d.SLA.TTFT != 500500*time.Microsecond || d.Budget.Max < 2 {
		t.Errorf("%+v", d)
	}
}

// Two deployments on one state file would each make the other forget.
func TestStateFilesDiffer(t *testing.T) {
	of := func(name, file string) *plannerUnit {
		return &plannerUnit{settings: plannerSettings{name: name, stateFile: file}}
	}
	if err := namesDiffer([]*plannerUnit{of("a", "x"), of("b", "x")}); err == nil || !strings.Contains(err.Error(), "--state-file x") {
		t.Errorf("%v", err)
	}
	for _, file := range []string{"", "none"} {
		if err := namesDiffer([]*plannerUnit{of("a", file), of("b", file)}); err != nil {
			t.Errorf("%q: %v", file, err)
		}
	}
}

// A flag of another policy, or of the other mode, has no effect, and is refused rather than ignored.
func TestFlagsOfOtherPoliciesAreRefused(t *testing.T) {
	dir := plannerProfile(t)
	for _, args := range [][]string{
		{"--policy", "load", "--headroom", "2"},
		{"--policy", "load", "--load-predictor", "arima"},
		{"--policy", "load", "--no-correction"},
		{"--policy", "upstream", "--profile", dir, "--startup-time", "30s"},
		{"--policy", "default", "--profile", dir, "--decode-kv-scale-up-threshold", "0.8"},
		{"--policy", "load", "--mode", "aggregated", "--min-prefill-decode-ratio", "2"},
	} {
		if _, err := parsedPlanner(t, args...); err == nil || !strings.Contains(err.Error(), "works only with --") {
			t.Errorf("%v: %v", args, err)
		}
	}
}

// A planner by a profile whose pick missed its SLA under load, or that nothing met
// it in, says so with every decision.
func TestPlannerSaysThatItsProfileIsNoAnswer(t *testing.T) {
	missed := func(r *store.Recommendation) {
		r.Feasible = false
		r.Verified = &store.Verified{Decode: &store.Attained{Requests: 100, Within: 0.25, AskedRPS: 4, RateRPS: 0.4}}
	}
	nearest := func(r *store.Recommendation) { r.Feasible, r.Prefill.Margin = false, -1 }
	for _, c := range []struct {
		change func(*store.Recommendation)
		want   string
	}{{missed, store.ProfileMissed}, {nearest, store.ProfileInfeasible}, {func(*store.Recommendation) {}, ""}} {
		all, err := parsedPlanner(t, "--profile", plannerProfile(t, c.change))
		if err != nil {
			t.Fatal(err)
		}
		core, err := all[0].core(time.Now())
		if err != nil {
			t.Fatal(err)
		}
		for name, d := range map[string]planner.Decision{"a decision": core.Step(planner.Observation{}), "the bounds": core.Bound(planner.Observation{}, planner.Unshared())} {
			var got []string
			for _, w := range d.Warnings {
				got = append(got, w.Code)
			}
			if slices.Contains(got, c.want) != (c.want != "") || c.want == "" && len(got) > 0 {
				t.Errorf("%s has the warnings %q, want %q", name, got, c.want)
			}
		}
	}
}

// What each deployment of a process needs for itself is not shared.
func TestDeploymentsShareNoNameFileOrLease(t *testing.T) {
	t.Parallel()
	unit := func(name, file, lease string) *plannerUnit {
		return &plannerUnit{settings: plannerSettings{name: name, stateFile: file}, lease: lease}
	}
	first := unit("a", "a.json", "default/planner")
	for want, second := range map[string]*plannerUnit{
		"":             unit("b", "b.json", "default/other"),
		"namespace":    unit("a", "b.json", "default/other"),
		"--state-file": unit("b", "a.json", "default/other"),
		"--lease":      unit("b", "b.json", "default/planner"),
	} {
		if err := namesDiffer([]*plannerUnit{first, second}); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("want %q: %v", want, err)
		}
	}
	if err := namesDiffer([]*plannerUnit{unit("a", "", ""), unit("b", "", "")}); err != nil {
		t.Error(err)
	}
}

// Three GPUs gave the second of two deployments one decode engine, which serves nobody.
func TestDefectBudgetHeldNoPairForAll(t *testing.T) {
	const deployments = `
environment: virtual
policy: load
no-operation: true
metrics-endpoints: frontend=http://127.0.0.1:1/metrics
deployments: [{namespace: a}, {namespace: b}]
`
	const want = "max-gpu-budget: 3 GPUs are too few for one replica of each pool of every deployment: a takes 2, b takes 2, 4 in all"
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	small := configFile(t, "max-gpu-budget: 3"+deployments)
	p := ran(t, exitUsage, "planner", "serve", "--config", small, "--listen", "")
	if !strings.Contains(p.errout.String(), want) || p.out.String() != "" {
		t.Errorf("stdout %q, stderr %q", &p.out, &p.errout)
	}
	if all, err := parsedPlanner(t, "--config", configFile(t, "max-gpu-budget: 4"+deployments)); err != nil || len(all) != 2 {
		t.Errorf("four GPUs: %d deployments, %v", len(all), err)
	}

	// A budget that shrinks while the planner runs is refused, too.
	command := plannerServeCommand()
	var got error
	command.Action = func(c *cli.Context) error {
		units := []*plannerUnit{{settings: plannerSettings{name: "a"}}, {settings: plannerSettings{name: "b"}}}
		got = reload(c, units, serve.NewBudget(4))
		return nil
	}
	app := newApp(streams{in: strings.NewReader(""), out: &bytes.Buffer{}, err: &bytes.Buffer{}})
	app.Commands = []*cli.Command{command}
	finish(command)
	if err := app.RunContext(t.Context(), []string{"plimsoll", "serve", "--config", small}); err != nil {
		t.Fatal(err)
	}
	if got == nil || !strings.Contains(got.Error(), want) {
		t.Errorf("reloaded: %v", got)
	}
}
