package main

import (
	"testing"

	"github.com/urfave/cli/v2"

	"plimsoll/engine"
	"plimsoll/engine/catalog"
	"plimsoll/engine/sim"
	"plimsoll/engine/sim/build"
	"plimsoll/engine/sim/fleet"
	"plimsoll/engine/simserver"
)

// Prefill and decode engines that are served are a fleet's, with its way for KV.
func TestServedRolesAreAFleets(t *testing.T) {
	plan := build.Options{Model: simModel, GPU: simGPU, Parallelism: engine.TP(2), Weights: engine.BF16, Prefill: 1, Decode: 1, Router: fleet.RoundRobin, LinkBytes: linkGBs * 1e9, Seed: 1}
	f, err := plan.Build()
	if err != nil {
		t.Fatal(err)
	}
	for i, role := range []engine.Role{engine.RolePrefill, engine.RoleDecode} {
		s, p := served(t, "--tp", "2", "--role", string(role)), f.Pools[i]
		got, want := normal(t, s.Sim), normal(t, p.Engine)
		want.HoldKV = false // a served engine is told of no one who has read it
		if got != want || s.Overhead != p.Overhead {
			t.Errorf("%s: engine serve has\n%+v and %v before the queue, a fleet\n%+v and %v", role, got, s.Overhead, want, p.Overhead)
		}
		if x := f.Transfer; s.Transfer <= 0 || s.Transfer != engine.FromSeconds(x.BytesPerToken/x.BytesPerSecond) {
			t.Errorf("%s: the KV of a token takes %v, in a fleet %v bytes at %v/s", role, s.Transfer.Duration(), x.BytesPerToken, x.BytesPerSecond)
		}
	}
}

// served are the options that `plimsoll engine serve` makes of its flags.
func served(t *testing.T, args ...string) simserver.Options {
	t.Helper()
	var o simserver.Options
	cmd := engineServeCommand()
	cmd.Action = func(c *cli.Context) (err error) { o, err = serverOptions(c); return err }
	if err := (&cli.App{Commands: []*cli.Command{cmd}}).Run(append([]string{"plimsoll", "serve"}, args...)); err != nil {
		t.Fatal(err)
	}
	return o
}

// An estimated, a served and a fleet's engine are one: the same limits, KV
// capacity and scheduling, and the same time before the first step.
func TestOneSimulatedEngine(t *testing.T) {
	cat, err := catalog.Default()
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name, model, gpu, fit string
		tp                    int
		limits                engine.Limits
		kvTokens              int
		async                 bool
	}{
		{"defaults", "llama-3.1-8b", "h100-sxm", "", 1, engine.Limits{}, 0, true},
		{"before asynchronous scheduling", "llama-3.1-8b", "h100-sxm", "vllm-0.12", 2, engine.Limits{}, 0, false},
		{"small limits", "llama-3.1-8b", "a100-40-sxm", "", 1, engine.Limits{MaxNumSeqs: 8, MaxNumBatchedTokens: 512}, 0, true},
		{"given KV cache", "qwen3-32b", "h200-sxm", "", 2, engine.Limits{}, 100_001, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := profileOptions{engine: "estimate", model: tt.model, gpu: tt.gpu, fit: tt.fit, weights: engine.BF16, limits: tt.limits, kvTokens: tt.kvTokens, maxContext: 8192, noise: 0.1, seed: 3}
			d, err := resolve(o, cat, nil)
			if err != nil {
				t.Fatal(err)
			}
			cfg := d.base(o)
			embedded := d
			embedded.kind = engine.KindSim
			if got := embedded.base(o).Limits; got != cfg.Limits {
				t.Errorf("--engine sim runs %+v, estimate %+v", got, cfg.Limits)
			}
			cfg.Parallelism, cfg.PrefixCaching = engine.TP(tt.tp), true
			model, err := d.speed(cfg)
			if err != nil {
				t.Fatal(err)
			}
			want := normal(t, estimator{opts: o, dep: d}.engine(cfg, model))
			if want.AsyncScheduling != tt.async || tt.kvTokens > 0 && want.KVBlocks != tt.kvTokens/16 {
				t.Errorf("estimate: %+v", want)
			}

			spec, err := simulator{opts: o, self: "plimsoll"}.Spec(cfg, engine.Launch{Port: 8000})
			if err != nil {
				t.Fatal(err)
			}
			s := served(t, spec.Argv[3:]...)
			if got := normal(t, s.Sim); got != want {
				t.Errorf("--engine sim serves\n%+v, estimate has\n%+v", got, want)
			}

			plan := build.Options{
				Model: tt.model, GPU: tt.gpu, Fit: tt.fit, Parallelism: engine.TP(tt.tp), Weights: engine.BF16, Limits: cfg.Limits,
				Replicas: 1, Router: fleet.RoundRobin, Caching: true, Noise: 0.1, Seed: 3,
			}
			f, err := plan.Build()
			if err != nil {
				t.Fatal(err)
			}
			got := normal(t, f.Pools[0].Engine)
			if tt.kvTokens > 0 {
				got.KVBlocks = want.KVBlocks // engine simulate takes what the memory holds
			}
			if got != want {
				t.Errorf("engine simulate has\n%+v, estimate\n%+v", got, want)
			}
			if s.Overhead != model.Overhead() || f.Pools[0].Overhead != model.Overhead() {
				t.Errorf("overhead: served %v, in a fleet %v, of the model %v", s.Overhead, f.Pools[0].Overhead, model.Overhead())
			}
		})
	}
}

// What nobody asked for is the same too.
func TestDefaultLimitsOfServeAndSimulate(t *testing.T) {
	plan := build.Options{Model: simModel, GPU: simGPU, Parallelism: engine.TP(1), Weights: engine.BF16, Replicas: 1, Router: fleet.RoundRobin, Seed: 1}
	f, err := plan.Build()
	if err != nil {
		t.Fatal(err)
	}
	if got, want := normal(t, served(t).Sim), normal(t, f.Pools[0].Engine); got != want || got.Limits.MaxNumSeqs != 1024 {
		t.Errorf("engine serve has\n%+v, engine simulate\n%+v", got, want)
	}
}

func normal(t *testing.T, c sim.Config) sim.Config {
	t.Helper()
	c, err := c.Normal()
	if err != nil {
		t.Fatal(err)
	}
	return c
}
