package main

import (
	"context"
	"fmt"

	"plimsoll/engine"
	dep "plimsoll/engine/deployment"
	"plimsoll/engine/latency"
	"plimsoll/engine/sim"
	"plimsoll/engine/sim/build"
	"plimsoll/engine/virtual"
	"plimsoll/profile"
	"plimsoll/profile/load"
	"plimsoll/sweep"
)

// estimateGPUs is how many GPUs --engine estimate may use unless told: those of
// a usual server.
const estimateGPUs = 8

// estimator "launches" engines in virtual time: no process, no HTTP, no waiting.
type estimator struct {
	opts profileOptions
	dep  deployment
}

// Launch implements sweep.Launcher.
func (e estimator) Launch(_ context.Context, cfg engine.Config) (*sweep.Instance, error) {
	v, model, err := e.virtual(cfg)
	if err != nil {
		return nil, err
	}
	in := &sweep.Instance{
		Facts:    e.facts(v.Config(), model),
		Measurer: virtualMeasurer{v},
		Play:     virtualMeasurer{v}.play,
		Busy:     v.Elapsed,
		Died:     func() error { return nil },
		Stop:     func(context.Context) error { return nil },
	}
	if cfg.Parallelism.Normal().DP == 1 { // else nobody chooses the replica whose stream is canceled
		in.Climb = virtualMeasurer{v}.climb
	}
	return in, nil
}

// virtual is the engine of a configuration.
func (e estimator) virtual(cfg engine.Config) (*virtual.Engine, latency.Model, error) {
	model, err := e.dep.speed(cfg)
	if err != nil {
		return nil, model, err
	}
	v, err := virtual.New(e.engine(cfg, model), model, model.Overhead(), model.PerToken())
	if err != nil {
		return nil, model, fmt.Errorf("making the engine: %w", err)
	}
	return v, model, nil
}

// engine is what the latency model describes, with what the flags say of it.
func (e estimator) engine(cfg engine.Config, model latency.Model) sim.Config {
	c := build.Engine(model, cfg.Role)
	c.PrefixCaching, c.Noise, c.Seed = cfg.PrefixCaching, e.opts.noise, e.opts.seed
	if n := e.opts.kvBlocks(c.Limits.BlockSize); n > 0 {
		c.KVBlocks, c.Window = n, engine.KVWindow{}
	}
	return c
}

// facts are what is known of the engine, and what the latency model says of itself.
func (e estimator) facts(c sim.Config, model latency.Model) profile.EngineFacts {
	expect := expectation{model, e.opts.kvBlocks(c.Limits.BlockSize) * c.Limits.BlockSize, e.dep.context}
	f := profile.EngineFacts{
		Provenance: profile.Estimated, Version: "plimsoll " + buildVersion(),
		KVTokens: expect.KVTokens(), WindowedKV: expect.WindowedKV(), KVSource: "latency model", BlockSize: c.Limits.BlockSize,
		MaxNumSeqs: c.Limits.MaxNumSeqs, MaxModelLen: c.Limits.MaxModelLen,
		TTFTError: dep.ModelError(model.TTFTError()), ITLError: dep.ModelError(model.ITLError()),
	}
	if e.opts.kvTokens > 0 {
		f.KVSource = "--kv-tokens"
	}
	return f
}

// virtualMeasurer sends load to an engine in virtual time.
type virtualMeasurer struct{ engine *virtual.Engine }

// Measure implements sweep.Measurer.
func (m virtualMeasurer) Measure(ctx context.Context, w profile.Workload) (sweep.Measurement, error) {
	var out sweep.Measurement
	if err := load.Validate(w); err != nil {
		return out, fmt.Errorf("workload: %w", err)
	}
	w.Warmup = false // in virtual time nobody waits for it, and its cost is a real engine's
	got, err := m.engine.Measure(ctx, w)
	if err != nil {
		return out, err
	}
	return virtualMeasurement(got), nil
}

func virtualMeasurement(m virtual.Measurement) sweep.Measurement {
	out := sweep.Measurement{Requests: m.Requests, Window: m.Window, Void: m.Void}
	for _, c := range m.Running {
		out.Running = append(out.Running, sweep.Running{At: c.At, N: float64(c.N), Waiting: float64(c.Waiting), Preempted: float64(c.Preempted)})
	}
	return out
}

// climb begins stairs in virtual time.
func (m virtualMeasurer) climb(_ context.Context, w profile.Workload) (sweep.Stairs, error) {
	s, err := m.engine.Climb(w)
	if err != nil {
		return nil, err
	}
	return virtualStairs{s}, nil
}

// virtualStairs are streams of an engine in virtual time.
type virtualStairs struct{ stairs *virtual.Stairs }

// Level implements sweep.Stairs.
func (s virtualStairs) Level(ctx context.Context, n, tokens int) (sweep.Measurement, error) {
	m, err := s.stairs.Level(ctx, n, tokens)
	return virtualMeasurement(m), err
}

// Close implements sweep.Stairs.
func (s virtualStairs) Close(context.Context) error {
	s.stairs.Close()
	return nil
}
