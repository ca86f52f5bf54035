package main

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"plimsoll/engine"
	"plimsoll/sweep"
)

// A plan of an engine that is known by name shows what it is started with, in text and
// in JSON, and no credential.
func TestPlanShowsCommands(t *testing.T) {
	t.Parallel()
	env := withStandIns(t)
	for kind, s := range standIns() {
		p := start(t, env, named("results", kind, "--dry-run", "--api-key", "s3cret", "--", "--quantization", "fp8", "--hf-token", "hf_s3cret")...)
		if p.wait(t) != exitDone {
			t.Errorf("%s:\n%s", kind, &p.errout)
			continue
		}
		i := strings.Index(p.out.String(), "\nCommands, each with a free port for 8000:\n  tp2: "+s.program+" ")
		if said := p.out.String() + p.errout.String(); i < 0 || !strings.Contains(said, " --quantization fp8 --hf-token [redacted]\n") || strings.Contains(said, "s3cret") {
			t.Errorf("%s:\n%s", kind, said)
		}
	}
	p := start(t, env, named("results", "vllm", "--dry-run", "--format", "json", "--", "--hf-token=hf_s3cret")...)
	var plan planJSON
	if code := p.wait(t); code != exitDone || json.Unmarshal([]byte(p.out.String()), &plan) != nil || len(plan.Commands) != 1 ||
		plan.Commands[0].Engine != "tp2" || !slices.Contains(plan.Commands[0].Argv, "--hf-token=[redacted]") {
		t.Errorf("exit code %d, %+v", code, plan.Commands)
	}
}

// Each engine of a plan has a line: two where prefill is measured on its own, or
// surfaces on another than the rates.
func TestCommandsOfEverySearch(t *testing.T) {
	d := deployment{kind: engine.KindVLLM, server: realServer(t, engine.KindVLLM, deployment{gpuCount: 2})}
	for _, c := range []struct {
		o    profileOptions
		so   sweep.Options
		want string
	}{
		{profileOptions{search: sweep.Adaptive}, sweep.Options{Search: sweep.Adaptive}, "tp1 tp2"},
		{profileOptions{search: sweep.Grid}, sweep.Options{Search: sweep.Grid}, "prefill tp1,decode tp1 prefill tp2,decode tp2"},
		{profileOptions{search: sweep.Adaptive, mode: sweep.Aggregated}, sweep.Options{Open: sweep.OpenLoop{Mode: sweep.Aggregated}}, "tp1,surfaces tp1 tp2,surfaces tp2"},
	} {
		for _, tp := range []int{1, 2} {
			c.so.Candidates = append(c.so.Candidates, engine.Config{Kind: engine.KindVLLM, Model: "m", Parallelism: engine.TP(tp)})
		}
		got, err := d.commands(c.o, c.so)
		var names []string
		for _, x := range got {
			names = append(names, x.Engine)
		}
		if err != nil || strings.Join(names, " ") != strings.ReplaceAll(c.want, ",", " ") {
			t.Errorf("%s: %q, %v", c.so.Search, names, err)
		}
	}
	b := &bytes.Buffer{}
	if got, err := (deployment{kind: engine.KindSim}).commands(profileOptions{}, sweep.Options{Candidates: []engine.Config{{}}}); err != nil || got != nil {
		t.Errorf("of the embedded engine: %v, %v", got, err)
	}
	if commandLines(b, nil); b.Len() > 0 {
		t.Errorf("no commands print %q", b)
	}
}

// A plan needs no engine on PATH: it says that the program was not found. A run is
// refused, and says how to install it.
func TestPlanWithoutEngine(t *testing.T) {
	t.Parallel()
	env := []string{"PATH=" + t.TempDir()}
	for kind, s := range standIns() {
		p := start(t, env, named("results", kind, "--dry-run")...)
		code, out, errout := p.wait(t), p.out.String(), p.errout.String()
		if code != exitDone || !strings.Contains(out, "\n  tp2: "+s.program+" ") || !strings.Contains(out, "\nNot found: "+s.program+" is not on PATH\n") {
			t.Errorf("%s: exit code %d\n%s%s", kind, code, out, errout)
		}
		p = start(t, env, named("results", kind)...)
		if code, errout := p.wait(t), p.errout.String(); code != exitFailed || !strings.Contains(errout, "error: --engine "+kind+": "+s.program+" is not on PATH\nplimsoll: hint: ") {
			t.Errorf("%s: a run: exit code %d\n%s", kind, code, errout)
		}
	}
	p := start(t, env, named("results", "vllm", "--dry-run", "--format", "json")...)
	var plan planJSON
	if code := p.wait(t); code != exitDone || json.Unmarshal([]byte(p.out.String()), &plan) != nil || plan.Missing != "vllm" || len(plan.Commands) != 1 {
		t.Errorf("exit code %d, %+v", code, plan)
	}
}
