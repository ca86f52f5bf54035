package main

import (
	"math"

	"github.com/urfave/cli/v2"

	"plimsoll/engine"
	"plimsoll/engine/field"
	"plimsoll/engine/sim/build"
	"plimsoll/engine/sim/fleet"
	"plimsoll/profile"
)

const (
	// linkGBs is one NVIDIA ConnectX-7 adapter a GPU, 400 Gb/s (DGX H100
	// data sheet, 2023): the way of KV between two servers.
	linkGBs = 50
	// dramGBs is PCIe 5.0 × 16, one way, less a fifth for its protocol.
	dramGBs = 50
	// nvmeGBs is one PCIe 4.0 × 4 drive's reading, as its makers state it.
	nvmeGBs = 7
)

func fleetFlags() []cli.Flag {
	f := func(name, def, usage string) cli.Flag {
		return &cli.StringFlag{Name: name, Value: def, Usage: usage, Category: "fleet"}
	}
	return []cli.Flag{
		f("profile", "", "step times from the profile in `DIR` instead of the latency model"),
		f("model", simModel, "model, a catalog `name` or a config.json"), f("gpu", simGPU, "GPU, a catalog `name`"),
		f("gpus-per-node", "", perNodeUsage),
		f("catalog", "", catalogUsage),
		f("tp", "1", "tensor-parallel size of each engine, `N`"), f("weights", published, weightsUsage),
		f("kv-dtype", "", kvUsage),
		f("memory-fraction", "", memoryUsage),
		f("fit", "", fitUsage),
		f("replicas", "", "`N` engines that prefill and decode (default: 1)"),
		f("prefill-replicas", "", "`N` engines that only prefill, and"),
		f("decode-replicas", "", "`N` engines that only decode: a disaggregated fleet"),
		f("router", "round_robin", "what picks the replica: `round_robin|least_loaded|kv_aware`"),
		f("max-num-seqs", "", "sequences at once per engine, `N` (default: the engine's for the GPU, or the profiled engine's)"),
		f("max-num-batched-tokens", "", "tokens in one step, `N` (default: the engine's for the GPU, or the profiled engine's)"),
		f("max-model-len", "", "prompt and answer together, `tokens` (default: the model's, or the profiled engine's)"),
		&cli.BoolFlag{Name: "enable-prefix-caching", Usage: "keep the KV of prompts for later requests", Category: "fleet"},
		f("kv-dram", "", "memory of the host below each engine's KV cache, `GiB`, with prefix caching"),
		f("kv-dram-bandwidth", itoa(dramGBs), "from there, `GB/s` per engine"),
		f("kv-nvme", "", "disk below that, `GiB`"),
		f("kv-nvme-bandwidth", itoa(nvmeGBs), "from there, `GB/s` per engine"),
		f("transfer-bandwidth", itoa(linkGBs), "of KV from a prefill engine, `GB/s` per GPU"),
		f("noise", "0", "relative jitter of each step, `fraction` from 0 to below 1"),
	}
}

func parseFleet(p *parser) build.Options {
	f := readFleet(p)
	checkFleet(p, &f)
	return f
}

// readFleet reads what the flags say of a fleet, and does not yet ask whether they
// go together.
func readFleet(p *parser) build.Options {
	f := p.engines()
	f.GPU, f.Parallelism = p.name("gpu"), engine.TP(p.integer("tp", 1, maxGPUs, 1))
	f.Replicas = p.integer("replicas", 1, maxReplicas, 0)
	f.Prefill, f.Decode = p.integer("prefill-replicas", 1, maxReplicas, 0), p.integer("decode-replicas", 1, maxReplicas, 0)
	f.Router = fleet.Router(p.choice("router", string(fleet.RoundRobin), string(fleet.LeastLoaded), string(fleet.KVAware)))
	f.Caching, f.DRAM, f.NVMe = p.c.Bool("enable-prefix-caching"), p.storage("kv-dram"), p.storage("kv-nvme")
	f.LinkBytes, f.MaxWaiting = p.number("transfer-bandwidth", 1e-3, 1e6)*1e9, maxWaiting
	f.Noise, f.Seed = p.fraction("noise"), uint64(p.integer("seed", 0, math.MaxInt, 0)) //nolint:gosec // not negative
	f.SLA = profile.SLA{TTFT: p.optionalMillis("ttft"), ITL: p.optionalMillis("itl")}
	return f
}

// engines reads what engines are made from, and their limits.
func (p *parser) engines() build.Options {
	return build.Options{
		Profile: p.name("profile"), Model: p.name("model"), Catalog: p.name("catalog"), Fit: p.name("fit"), Weights: p.weights(), KV: p.kvDType(), MemoryFraction: p.share("memory-fraction"), PerNode: p.perNode(),
		Limits: engine.Limits{
			MaxNumSeqs: p.integer("max-num-seqs", 1, 1_000_000, 0), MaxNumBatchedTokens: p.integer("max-num-batched-tokens", 1, maxTokens, 0),
			MaxModelLen: p.integer("max-model-len", 2, maxTokens, 0),
		},
	}
}

const (
	// maxReplicas bounds a pool.
	maxReplicas = 100_000
	// maxWaiting is a queue of hours in most fleets, and some 2 GB: 800 bytes a request,
	// and 8 for each block of a prompt that is shared.
	maxWaiting = 2_000_000
)

// checkFleet refuses flags that do not go together.
func checkFleet(p *parser, f *build.Options) {
	switch {
	case (f.Prefill > 0) != (f.Decode > 0):
		p.fail(field.Errorf("--prefill-replicas and --decode-replicas go together: want both or none"))
	case f.Prefill > 0 && f.Replicas > 0:
		p.fail(field.Errorf("--replicas excludes --prefill-replicas and --decode-replicas"))
	case f.Router == fleet.KVAware && !f.Caching:
		p.fail(field.Errorf("--router kv_aware needs a prefix cache").Hint("add --enable-prefix-caching"))
	case (f.DRAM.Bytes > 0 || f.NVMe.Bytes > 0) && !f.Caching:
		p.fail(field.Errorf("--kv-dram and --kv-nvme need a prefix cache").Hint("add --enable-prefix-caching"))
	}
	p.needs(f.Profile == "", "without --profile, which says it", "model", "gpu", "gpus-per-node", "tp", "weights", "kv-dtype", "memory-fraction", "fit")
	p.needs(f.Prefill > 0, "with --prefill-replicas and --decode-replicas", "transfer-bandwidth")
	p.needs(f.DRAM.Bytes > 0, "with --kv-dram", "kv-dram-bandwidth")
	p.needs(f.NVMe.Bytes > 0, "with --kv-nvme", "kv-nvme-bandwidth")
	if f.Prefill == 0 {
		f.Replicas = max(f.Replicas, 1)
	}
}

// storage reads a tier's size in GiB and its bandwidth.
func (p *parser) storage(name string) build.KVTier {
	s := build.KVTier{BytesPerSecond: p.number(name+"-bandwidth", 1e-3, 1e6) * 1e9}
	if p.c.IsSet(name) {
		s.Bytes = p.number(name, 0, 1e9) * (1 << 30)
	}
	return s
}
