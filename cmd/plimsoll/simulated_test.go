package main

import (
	"encoding/json"
	"maps"
	"testing"

	"github.com/urfave/cli/v2"

	"plimsoll/capacity"
	"plimsoll/engine"
	"plimsoll/engine/catalog"
	"plimsoll/engine/latency"
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
		if x := f.Transfer; s.Transfer(1) <= 0 || s.Transfer(3000) != x.Span(3000) {
			t.Errorf("%s: the KV of a prompt takes %v, in a fleet %v", role, s.Transfer(3000).Duration(), x.Span(3000).Duration())
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

// parsed calls f with the context of a command and these flags.
func parsed(t *testing.T, cmd *cli.Command, f func(*cli.Context) error, args ...string) {
	t.Helper()
	cmd.Action = f
	if err := (&cli.App{Commands: []*cli.Command{cmd}}).Run(append([]string{"plimsoll", cmd.Name}, args...)); err != nil {
		t.Fatal(err)
	}
}

// fleetEngines are the aggregated engines that the commands which simulate fleets make
// of the same flags, by command.
func fleetEngines(t *testing.T, args ...string) map[string]fleet.Pool {
	t.Helper()
	out := map[string]fleet.Pool{}
	planned := func(name string, cmd *cli.Command, parse func(*parser) capacityOptions) {
		parsed(t, cmd, func(c *cli.Context) error {
			p := &parser{c: c}
			o := parse(p)
			if p.err != nil {
				return p.err
			}
			cs, _, err := o.candidates()
			if err == nil {
				out[name] = cs[0].layout.Pools[0].Pool
			}
			return err
		}, append([]string{"--strategy", "aggregated", "--rate", "1", "--isl", "100", "--osl", "10", "--ttft-p99", "500", "--itl-p99", "50"}, args...)...)
	}
	planned("capacity plan", capacityPlanCommand(), parseCapacity)
	planned("capacity autoscale", capacityAutoscaleCommand(), func(p *parser) capacityOptions { return parseAutoscale(p).capacityOptions })
	fleets := func(name string, cmd *cli.Command, parse func(*cli.Context) (build.Options, error), args ...string) {
		parsed(t, cmd, func(c *cli.Context) error {
			o, err := parse(c)
			if err != nil {
				return err
			}
			f, err := o.Build()
			if err == nil {
				out[name] = f.Pools[0]
			}
			return err
		}, args...)
	}
	fleets("engine simulate", engineSimulateCommand(), func(c *cli.Context) (build.Options, error) {
		p := &parser{c: c}
		return parseFleet(p), p.err
	}, args...)
	fleets("planner replay", plannerReplayCommand(), func(c *cli.Context) (build.Options, error) {
		o, err := parseReplay(&parser{c: c}, nil)
		return o.fleet, err
	}, append([]string{"--mode", "aggregated", "--policy", "static-peak", "--ttft", "500", "--itl", "50", "--rate", "1", "--isl", "100", "--osl", "10", "--duration", "1m"}, args...)...)
	return out
}

// decodeStep is a step that reads much of the KV cache.
var decodeStep = engine.Batch{DecodeSeqs: 16, DecodeContext: 16 * 4000}

// An estimated, a served and every fleet's engine are one: the same limits, KV
// capacity and scheduling, the same step, and the same time before the first one.
func TestOneSimulatedEngine(t *testing.T) {
	cat, err := catalog.Default()
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name, model, gpu, fit string
		tp                    int
		kv                    engine.DType
		limits                engine.Limits
		kvTokens              int
		async                 bool
	}{
		{"defaults", "llama-3.1-8b", "h100-sxm", "", 1, "", engine.Limits{}, 0, true},
		{"half of the KV cache's bytes", "llama-3.1-8b", "h100-sxm", "", 1, engine.FP8, engine.Limits{}, 0, true},
		{"before asynchronous scheduling", "llama-3.1-8b", "h100-sxm", "vllm-0.12", 2, "", engine.Limits{}, 0, false},
		{"small limits", "llama-3.1-8b", "a100-40-sxm", "", 1, "", engine.Limits{MaxNumSeqs: 8, MaxNumBatchedTokens: 512}, 0, true},
		{"given KV cache", "qwen3-32b", "h200-sxm", "", 2, "", engine.Limits{}, 100_001, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := profileOptions{engine: "estimate", model: tt.model, gpu: tt.gpu, fit: tt.fit, weights: engine.BF16, kv: tt.kv, limits: tt.limits, kvTokens: tt.kvTokens, maxContext: 8192, noise: 0.1, seed: 3}
			d, err := resolve(&o, cat, nil)
			if err != nil {
				t.Fatal(err)
			}
			cfg := d.base(o)
			embedded := d
			embedded.kind = engine.KindSim
			if got := embedded.base(o); got.Limits != cfg.Limits || got.Release != cfg.Release {
				t.Errorf("--engine sim runs %+v, estimate %+v", got, cfg)
			}
			cfg.Parallelism, cfg.PrefixCaching = engine.TP(tt.tp), true
			cfg.Limits = latency.Limits(*d.model, *d.gpu, cfg)
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

			if s.Overhead != model.Overhead() || s.Timer.StepTime(decodeStep) != model.StepTime(decodeStep) {
				t.Errorf("served, a step takes %v after %v; of the model %v after %v", s.Timer.StepTime(decodeStep), s.Overhead, model.StepTime(decodeStep), model.Overhead())
			}

			args := []string{
				"--model", tt.model, "--gpu", tt.gpu, "--tp", itoa(tt.tp), "--weights", "bf16",
				"--max-num-seqs", itoa(cfg.Limits.MaxNumSeqs), "--max-num-batched-tokens", itoa(cfg.Limits.MaxNumBatchedTokens), "--max-model-len", itoa(cfg.Limits.MaxModelLen),
			}
			for flag, value := range map[string]string{"--fit": tt.fit, "--kv-dtype": string(tt.kv)} {
				if value != "" {
					args = append(args, flag, value)
				}
			}
			for name, pool := range fleetEngines(t, args...) {
				got := normal(t, pool.Engine)
				got.PrefixCaching, got.Noise, got.Seed = true, want.Noise, want.Seed // which is the fleet's to say
				if tt.kvTokens > 0 {
					got.KVBlocks = want.KVBlocks // a fleet takes what the memory holds
				}
				if got != want {
					t.Errorf("%s has\n%+v, estimate\n%+v", name, got, want)
				}
				if pool.Overhead != model.Overhead() || pool.Timer.StepTime(decodeStep) != model.StepTime(decodeStep) {
					t.Errorf("%s: a step takes %v after %v; of the model %v after %v", name, pool.Timer.StepTime(decodeStep), pool.Overhead, model.StepTime(decodeStep), model.Overhead())
				}
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

// Half of the KV cache's bytes are twice the tokens and shorter decode steps, wherever
// step times come from the latency model; emitted engines are told of it.
func TestKVDType(t *testing.T) {
	args := []string{"--model", "llama-3.1-8b", "--gpu", "h100-sxm", "--tp", "1", "--max-model-len", "8192"}
	plain, half := fleetEngines(t, args...), fleetEngines(t, append(args, "--kv-dtype", "fp8")...)
	for name, p := range plain {
		h := half[name]
		if more := float64(h.Engine.KVBlocks) / float64(p.Engine.KVBlocks); more < 1.99 || more > 2.01 || h.Timer.StepTime(decodeStep) >= p.Timer.StepTime(decodeStep) {
			t.Errorf("%s: %.3f times the KV blocks; a step takes %v of %v", name, more, h.Timer.StepTime(decodeStep), p.Timer.StepTime(decodeStep))
		}
	}
	ratio := func(kv string) capacity.Throughput {
		var all []shapeRatio
		if err := json.Unmarshal(mustPrint(t, append([]string{"capacity", "ratio", "--throughput", "model", "--isl", "4000", "--osl", "500", "--format", "json", "--kv-dtype", kv}, args[:6]...)...), &all); err != nil {
			t.Fatal(err)
		}
		return all[0].Throughput
	}
	if p, h := ratio("bf16"), ratio("fp8"); h.KVBytesPerToken*2 != p.KVBytesPerToken || h.DecodeTPS <= p.DecodeTPS {
		t.Errorf("capacity ratio: %d and %d bytes a token, %.0f and %.0f tokens/s", p.KVBytesPerToken, h.KVBytesPerToken, p.DecodeTPS, h.DecodeTPS)
	}
	if want := (map[engine.Kind]string{
		engine.KindVLLM: "--kv-cache-dtype fp8", engine.KindSGLang: "--kv-cache-dtype fp8_e4m3", engine.KindTRTLLM: "kv_cache_config: dtype: fp8",
	}); !maps.Equal(kvFlags(engine.FP8), want) {
		t.Errorf("flags %q, want %q", kvFlags(engine.FP8), want)
	}
	if got, want := flagWords(kvFlags(engine.BF16)), "vLLM --kv-cache-dtype bfloat16, SGLang --kv-cache-dtype bf16"; got != want {
		t.Errorf("of what a checkpoint may say otherwise: %q, want %q", got, want)
	}
}

// The engine that a replay's --backend names is the one whose fit times its steps, unless
// --fit says another.
func TestReplayTakesTheFitOfItsBackend(t *testing.T) {
	for want, flags := range map[string][]string{
		"vllm": nil, "trtllm": {"--backend", "trtllm"}, "sglang": {"--backend", "sglang"},
		"vllm-0.12": {"--backend", "sglang", "--fit", "vllm-0.12"},
	} {
		all := replayReady(t, append(flags, "--tp", "1", "--policy", "static-peak", "--ttft", "500", "--itl", "50", "--rate", "1", "--isl", "100", "--osl", "10", "--duration", "1m")...)
		if got := all.fleet.Fit.Name; got != want {
			t.Errorf("%q: fit %s, want %s", flags, got, want)
		}
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
