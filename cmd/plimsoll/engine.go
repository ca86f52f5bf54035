package main

import (
	"context"
	"fmt"
	"math"
	"net"
	"strings"

	"github.com/urfave/cli/v2"

	"plimsoll/engine"
	"plimsoll/engine/latency"
	"plimsoll/engine/sim"
	"plimsoll/engine/simserver"
)

func engineCommand() *cli.Command {
	return &cli.Command{
		Name: "engine", Usage: "the embedded simulated engine",
		Subcommands: []*cli.Command{engineServeCommand(), engineSimulateCommand()},
	}
}

func engineServeCommand() *cli.Command {
	s := func(name, def, usage string) cli.Flag { return &cli.StringFlag{Name: name, Value: def, Usage: usage} }
	return &cli.Command{
		Name: "serve", Usage: "serve the simulated engine behind OpenAI's HTTP interface, in real time",
		Description: "Every answer says X-Plimsoll-Provenance: simulated. TERM finishes the requests in flight and exits 0.\n\n" +
			"   plimsoll engine serve --model llama-3.1-8b --gpu h100-sxm --tp 2 --port 8000",
		Flags: []cli.Flag{
			s("model", simModel, "model, a catalog `name`"), s("gpu", simGPU, "GPU, a catalog `name`"), s("catalog", "", "`FILE` of further models or GPUs"),
			s("tp", "1", "tensor-parallel size, `N`"), s("weights", "bf16", "storage of the weights, `bf16|fp8|fp4`"),
			s("host", "127.0.0.1", "`address` to listen on"), s("port", "8000", "`port` to listen on; 0 = any free one"),
			s("role", "aggregated", "`aggregated|prefill|decode`"),
			s("max-num-seqs", itoa(simMaxSeqs), "sequences at once, `N`"), s("max-num-batched-tokens", "", "tokens in one step, `N` (default: vLLM's for the GPU)"),
			s("max-model-len", "", "prompt and answer together, `tokens` (default: the model's)"),
			s("kv-blocks", "", "KV cache of `N` blocks (default: what the GPU's memory holds)"),
			&cli.BoolFlag{Name: "enable-prefix-caching", Usage: "keep the KV of prompts for later requests"},
			s("fit", "", fitUsage),
			s("noise", "0", "relative jitter of each step, `fraction`"), s("seed", "1", "seed of the jitter and the texts, `N`"),
		},
		Action: serveEngine,
	}
}

func serveEngine(c *cli.Context) error {
	p := &parser{c: c}
	cfg := engine.Config{
		Kind: engine.KindSim, Parallelism: engine.TP(p.integer("tp", 1, maxGPUs, 1)),
		Weights: engine.DType(p.choice("weights", "bf16", "fp8", "fp4")),
		Role:    engine.Role(p.choice("role", "aggregated", "prefill", "decode")),
		Limits: engine.Limits{
			MaxNumSeqs: p.integer("max-num-seqs", 1, 1_000_000, 0), MaxNumBatchedTokens: p.integer("max-num-batched-tokens", 1, maxTokens, 0),
			MaxModelLen: p.integer("max-model-len", 2, maxTokens, 0),
		},
		PrefixCaching: c.Bool("enable-prefix-caching"),
	}
	port, blocks := p.integer("port", 0, 65535, 0), p.integer("kv-blocks", 1, math.MaxInt32, 0)
	noise, seed := p.fraction("noise"), p.integer("seed", 0, math.MaxInt, 0)
	if p.err != nil {
		return p.err
	}
	cat, err := loadCatalog(c.String("catalog"))
	if err != nil {
		return err
	}
	m, err := cat.Model(c.String("model"))
	if err != nil {
		return usagef("--model: %v", err)
	}
	g, err := cat.GPU(c.String("gpu"))
	if err != nil {
		return usagef("--gpu: %v", err)
	}
	cfg.Model, cfg.GPU, cfg.Limits = m.Name, g.Name, latency.Limits(m, g, cfg.Limits)
	fit, err := loadFit("fit", strings.TrimSpace(c.String("fit")))
	if err != nil {
		return err
	}
	timer, err := latency.NewWith(m, g, cfg, fit)
	if err != nil {
		return usagef("%s on %d × %s: %v", m.Name, cfg.GPUs(), g.Name, err)
	}
	if blocks == 0 {
		blocks = timer.KVTokens() / cfg.Limits.BlockSize
	}
	log := c.App.ErrWriter
	if c.Bool("quiet") {
		log = nil
	}
	srv, err := simserver.New(simserver.Options{
		Model: m.Name, Timer: timer, Overhead: timer.Overhead(), Log: log, Version: "plimsoll-sim " + buildVersion(), Timing: worth(timer),
		Sim: sim.Config{Role: cfg.Role, Limits: cfg.Limits, KVBlocks: blocks, PrefixCaching: cfg.PrefixCaching, Noise: noise, Seed: uint64(seed)}, //nolint:gosec // not negative
	})
	if err != nil {
		return fmt.Errorf("making the engine: %w", err)
	}
	return listenAndServe(c.Context, srv, net.JoinHostPort(c.String("host"), itoa(port)))
}

// listenAndServe ends well when ctx does: TERM is how an engine is told to stop.
func listenAndServe(ctx context.Context, srv *simserver.Server, addr string) error {
	var lc net.ListenConfig
	ln, err := lc.Listen(ctx, "tcp", addr)
	if err != nil {
		if strings.Contains(err.Error(), "address already in use") {
			return withHint(fmt.Errorf("%s is in use", addr), "choose another --port, or 0 for a free one")
		}
		return err
	}
	return srv.Serve(ctx, ln)
}
