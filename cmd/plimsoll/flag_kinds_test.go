package main

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"

	"plimsoll/engine"
	"plimsoll/engine/command"
	"plimsoll/engine/field"
)

// refused is what refuseFlags says of a command line.
func refused(t *testing.T, d deployment, args ...string) error {
	t.Helper()
	var got error
	asked(t, args, func(c *cli.Context) { got = d.refuseFlags(c) })
	return got
}

// asked runs f with profile-sla's context of these arguments.
func asked(t *testing.T, args []string, f func(*cli.Context)) {
	t.Helper()
	cmd := profileCommand()
	cmd.Subcommands, cmd.Action = nil, func(c *cli.Context) error { f(c); return nil }
	finish(cmd)
	if err := (&cli.App{Commands: []*cli.Command{cmd}, DisableSliceFlagSeparator: true}).Run(append([]string{"plimsoll", "profile-sla"}, args...)); err != nil {
		t.Fatal(err)
	}
}

// Every flag of profile-sla, with which kinds of engine it is refused: e(stimate),
// s(im), c(ommand), p (endpoint), v(LLM), l(lamacpp). A new flag has to be put here.
func TestFlagKinds(t *testing.T) {
	want := map[string]string{
		"isl": "", "osl": "", "ttft": "", "itl": "", "sla-stat": "", "stall-p99": "", "max-failures": "", "mode": "", "verify": "", "load-time": "", "trace": "", "trace-format": "", "time-unit": "", "spread-ticks": "", "dataset": "",
		"engine": "", "model": "", "catalog": "", "weights": "", "gpu": "", "max-num-seqs": "", "kv-tokens": "", "require": "",
		"memory-fraction": "pl", "kv-dtype": "pl", "gpu-count": "p", "gpus-per-node": "p", "tp": "p", "parallelism": "p", "max-num-batched-tokens": "p", "noise": "cpvl", "fit": "cpl", "explain": "cpvl",
		"command": "espvl", "ready-path": "espvl", "ready-timeout": "esp", "kv-tokens-pattern": "espvl",
		"endpoint": "escvl", "endpoint-gpus": "escvl", "provenance": "es", "api-key": "es", "header": "es", "api": "e",
		"max-in-flight": "", "request-timeout": "", "max-context-length": "", "search": "",
		"prefill-interpolation-granularity": "", "decode-interpolation-granularity": "",
		"output-dir": "", "results-configmap": "", "resume": "", "force": "", "dry-run": "", "max-time": "", "seed": "", "config": "",
		"format": "", "quiet": "", "verbose": "", "details": "", "help-all": "",
	}
	kinds := map[string]engine.Kind{"e": engine.KindEstimate, "s": engine.KindSim, "c": engine.KindCommand, "p": engine.KindEndpoint, "v": engine.KindVLLM, "l": engine.KindLlamaCpp}
	cmd := profileCommand()
	finish(cmd)
	for _, f := range cmd.Flags {
		name := f.Names()[0]
		letters, known := want[name]
		if !known {
			t.Errorf("--%s: for which kinds of engine is it?", name)
			continue
		}
		arg := "--" + name + "=1"
		if _, isBool := f.(*cli.BoolFlag); isBool {
			arg = "--" + name
		} else if name == "format" {
			arg = "--format=json"
		}
		asked(t, []string{arg}, func(c *cli.Context) {
			for letter, kind := range kinds {
				err := deployment{kind: kind, template: command.Template{Argv: "e {{.Port}} {{.MaxNumBatchedTokens}} {{.KV}}"}}.refuseFlags(c)
				if (err != nil) != strings.Contains(letters, letter) {
					t.Errorf("--%s with %s: %v", name, kind, err)
				}
				if err != nil && (!strings.HasPrefix(err.Error(), "--"+name+" has no effect with "+kindWord(kind)+": it goes with ") || exitOf(err) != exitUsage) {
					t.Errorf("--%s with %s: %v", name, kind, err)
				}
			}
		})
	}
	for name := range want {
		if !slices.ContainsFunc(cmd.Flags, func(f cli.Flag) bool { return f.Names()[0] == name }) {
			t.Errorf("there is no --%s", name)
		}
	}
}

func exitOf(err error) int {
	return report(context.Background(), io.Discard, err)
}

// What the environment holds for other runs is not refused, and a flag that a
// template does not use is.
func TestFlagKindsBeyondTheTable(t *testing.T) {
	t.Setenv("PLIMSOLL_API_KEY", "secret")
	t.Setenv("PLIMSOLL_HEADERS", "X-A: b")
	estimate := deployment{kind: engine.KindEstimate}
	if err := refused(t, estimate); err != nil {
		t.Error(err)
	}
	own := deployment{kind: engine.KindCommand, template: command.Template{Argv: "engine --port {{.Port}}"}}
	if err := refused(t, own, "--max-num-batched-tokens", "512"); err == nil || !strings.Contains(err.Error(), "{{.MaxNumBatchedTokens}}") {
		t.Error(err)
	}
	var e *field.Error
	err := refused(t, deployment{kind: engine.KindSim, notes: []string{"no GPU to measure on: none is visible"}}, "--provenance", "simulated")
	if !errors.As(err, &e) || !slices.Equal(e.Hints, []string{"the engine is the embedded one: no GPU to measure on: none is visible"}) {
		t.Error(err)
	}
}
