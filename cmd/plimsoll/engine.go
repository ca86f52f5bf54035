package main

import (
	"fmt"
	"math"
	"net"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"plimsoll/engine"
	dep "plimsoll/engine/deployment"
	"plimsoll/engine/field"
	"plimsoll/engine/sim/build"
	"plimsoll/engine/sim/fleet"
	"plimsoll/engine/simserver"
)

// mostDrain is how long a server that was told to stop may go on: what
// orchestrators give one at most.
const mostDrain = 24 * time.Hour

func engineCommand() *cli.Command {
	return &cli.Command{
		Name: "engine", Usage: "the embedded simulated engine, and a router in front of engines",
		Subcommands: []*cli.Command{engineServeCommand(), engineFrontendCommand(), engineSimulateCommand()},
	}
}

func engineServeCommand() *cli.Command {
	s := func(name, def, usage string) cli.Flag { return &cli.StringFlag{Name: name, Value: def, Usage: usage} }
	return &cli.Command{
		Name: "serve", Usage: "serve the simulated engine behind OpenAI's HTTP interface, in real time",
		Description: "Every answer says X-Plimsoll-Provenance: simulated. TERM takes no more requests, finishes those in flight and exits 0; a second TERM exits at once. " +
			"A decode engine gets the KV of a prompt from a prefill engine at " + itoa(linkGBs) + " GB/s for each of its GPUs.\n\n" +
			"   plimsoll engine serve --model llama-3.1-8b --gpu h100-sxm --tp 2 --port 8000",
		Flags: append([]cli.Flag{
			s("model", simModel, "model, a catalog `name` or a config.json"), s("gpu", simGPU, "GPU, a catalog `name`"), s("gpus-per-node", "", perNodeUsage), s("catalog", "", catalogUsage),
			s("tp", "1", "tensor-parallel size, `N`"), s("parallelism", "", "`layout` instead of a plain size, such as TEP:8, DEP:8 or TP:4 PP:2"), s("weights", published, weightsUsage), s("kv-dtype", "", kvUsage),
			s("host", "127.0.0.1", "`address` to listen on"), s("port", "8000", "`port` to listen on; 0 = any free one"),
			s("role", "aggregated", "`aggregated|prefill|decode`"),
			s("max-num-seqs", "", "sequences at once, `N` (default: the engine's for the GPU)"), s("max-num-batched-tokens", "", "tokens in one step, `N` (default: the engine's for the GPU)"),
			s("max-model-len", "", "prompt and answer together, `tokens` (default: the model's)"),
			s("memory-fraction", "", memoryUsage),
			s("kv-blocks", "", "KV cache of `N` blocks (default: what the GPU's memory holds)"),
			&cli.BoolFlag{Name: "enable-prefix-caching", Usage: "keep the KV of prompts for later requests"},
			s("fit", "", fitUsage),
			s("noise", "0", "relative jitter of each step, `fraction`"), s("seed", "1", "seed of the jitter and the texts, `N`"),
		}, servingFlags()...),
		Action: serveEngine,
	}
}

// servingFlags are those of every server of requests.
func servingFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "drain-timeout", Value: simserver.DefaultDrainTimeout.String(), Usage: "after TERM, let the requests in flight run for at most this `time`, up to 24h"},
		&cli.StringFlag{Name: "allow-host", Usage: "`NAMES` by which clients may reach the server, separated by commas (addresses and localhost always may; default: any name where it listens beyond this machine)"},
	}
}

func (p *parser) serving() simserver.Serving {
	s := simserver.Serving{DrainTimeout: p.duration("drain-timeout"), Hosts: fields(p.c.String("allow-host"))}
	if s.DrainTimeout > mostDrain {
		p.fail(field.Errorf("--drain-timeout %v: want at most %v", s.DrainTimeout, mostDrain))
	}
	return s
}

func serveEngine(c *cli.Context) error {
	o, err := serverOptions(c)
	if err != nil {
		return err
	}
	p := &parser{c: c}
	port := p.integer("port", 0, 65535, 0)
	if p.err != nil {
		return p.err
	}
	srv, err := simserver.New(o)
	if err != nil {
		return fmt.Errorf("making the engine: %w", err)
	}
	if err := endsItself(c.Context); err != nil {
		return err
	}
	ln, err := listenOn(c.Context, net.JoinHostPort(c.String("host"), itoa(port)))
	if err != nil {
		return err
	}
	return srv.Serve(c.Context, ln) // ends well when the context does: TERM is how an engine is told to stop
}

// serverOptions are the engine that the flags ask for.
func serverOptions(c *cli.Context) (simserver.Options, error) {
	p := &parser{c: c}
	cfg := engine.Config{
		Kind: engine.KindSim, Parallelism: p.layout(),
		Weights: p.weights(), KV: p.kvDType(),
		Role: engine.Role(p.choice("role", "aggregated", "prefill", "decode")),
		Limits: engine.Limits{
			MaxNumSeqs: p.integer("max-num-seqs", 1, 1_000_000, 0), MaxNumBatchedTokens: p.integer("max-num-batched-tokens", 1, maxTokens, 0),
			MaxModelLen: p.integer("max-model-len", 2, maxTokens, 0),
		},
		PrefixCaching: c.Bool("enable-prefix-caching"), MemoryFraction: p.share("memory-fraction"),
	}
	serving := p.serving()
	of := build.Options{Catalog: c.String("catalog"), Model: c.String("model"), GPU: c.String("gpu"), Fit: strings.TrimSpace(c.String("fit")), PerNode: p.perNode()}
	blocks, noise, seed := p.integer("kv-blocks", 1, math.MaxInt32, 0), p.fraction("noise"), p.integer("seed", 0, math.MaxInt, 0)
	if p.err != nil {
		return simserver.Options{}, p.err
	}
	s, fit, err := build.FindModel(of)
	if err == nil {
		s, err = s.LaidOut(cfg, fit)
	}
	var pool fleet.Pool
	if err == nil {
		pool, err = s.Pool(cfg.Role)
	}
	if err != nil {
		return simserver.Options{}, err
	}
	o := simserver.Options{
		Model: s.Model.Name, Timer: pool.Timer, Overhead: pool.Overhead, PerToken: pool.PerToken, Transfer: fleet.Transfer{KV: s.KVBytes(), BytesPerSecond: linkGBs * 1e9 * float64(pool.GPUs)}.Span,
		Log: c.App.ErrWriter, Version: "plimsoll-sim " + buildVersion(), Serving: serving, Timing: dep.Worth(s.Latency), Sim: pool.Engine,
	}
	o.Sim.PrefixCaching, o.Sim.Noise, o.Sim.Seed = cfg.PrefixCaching, noise, uint64(seed) //nolint:gosec // not negative
	if blocks > 0 {
		o.Sim.KVBlocks, o.Sim.Window = blocks, engine.KVWindow{}
		tokens := blocks * o.Sim.Limits.BlockSize
		if err := dep.KVBeyond(s.Model, s.GPU, s.Config, tokens); err != nil {
			return o, field.Errorf("--kv-blocks %d: %v", blocks, err)
		}
		s.Storage.Warnings = append(s.Storage.Warnings, dep.KVWarnings("--kv-blocks", s.Latency, s.Label(cfg.Role), tokens)...)
	}
	for _, w := range append(s.Storage.Warnings, dep.ModelWarnings(s.Latency, s.Config)...) {
		say(c.App.ErrWriter, "warning", "%s", w.Message)
	}
	if s.Storage.Note != "" && !c.Bool("quiet") {
		say(c.App.ErrWriter, "note", "%s", s.Storage.Note)
	}
	if c.Bool("quiet") {
		o.Log = nil
	}
	return o, nil
}
