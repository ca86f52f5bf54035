package main

import (
	"fmt"
	"math"
	"strings"

	"github.com/urfave/cli/v2"

	"plimsoll/engine"
	"plimsoll/engine/latency"
	"plimsoll/engine/sim"
	"plimsoll/engine/sim/fleet"
	"plimsoll/interpolation"
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
		f("catalog", "", catalogUsage),
		f("tp", "1", "tensor-parallel size of each engine, `N`"), f("weights", published, weightsUsage),
		f("fit", "", fitUsage),
		f("replicas", "", "`N` engines that prefill and decode (default: 1)"),
		f("prefill-replicas", "", "`N` engines that only prefill, and"),
		f("decode-replicas", "", "`N` engines that only decode: a disaggregated fleet"),
		f("router", "round_robin", "what picks the replica: `round_robin|least_loaded|kv_aware`"),
		f("max-num-seqs", "", "sequences at once per engine, `N` (default: vLLM's for the GPU, or the profiled engine's)"),
		f("max-num-batched-tokens", "", "tokens in one step, `N` (default: vLLM's for the GPU; with a profile 8192)"),
		f("max-model-len", "", "prompt and answer together, `tokens` (default: the model's, or the profiled engine's)"),
		&cli.BoolFlag{Name: "enable-prefix-caching", Usage: "keep the KV of prompts for later requests", Category: "fleet"},
		f("async-scheduling", "auto", "`auto|on|off`: schedule each step while the one before it runs, so that a request that comes to a busy engine waits one step more (auto: as vLLM from 0.14 on, and with a profile)"),
		f("kv-dram", "", "memory of the host below each engine's KV cache, `GiB`, with prefix caching"),
		f("kv-dram-bandwidth", itoa(dramGBs), "from there, `GB/s` per engine"),
		f("kv-nvme", "", "disk below that, `GiB`"),
		f("kv-nvme-bandwidth", itoa(nvmeGBs), "from there, `GB/s` per engine"),
		f("transfer-bandwidth", itoa(linkGBs), "of KV from a prefill engine, `GB/s` per GPU"),
		f("transfer-latency", "0", "of each such transfer, `ms`"),
		f("max-waiting", itoa(maxWaiting), "give up when so many `requests` more are in the fleet than --max-num-seqs lets its engines hold: each takes some 800 bytes, and 8 for each block of a prompt that is shared"),
		f("noise", "0", "relative jitter of each step, `fraction` from 0 to below 1"),
	}
}

// fleetPlan is a fleet as the flags say it.
type fleetPlan struct {
	profile, model, gpu, catalog, fit string

	parallelism engine.Parallelism
	weights     engine.DType  // "" = as the model says
	limits      engine.Limits // zero fields take the source's

	replicas, prefill, decode int
	router                    fleet.Router
	caching                   bool
	async                     string
	dram, nvme                storage
	linkBytes                 float64 // per second and GPU
	linkLatency               engine.Picoseconds
	maxWaiting                int
	noise                     float64
	seed                      uint64
	sla                       profile.SLA
	slower                    float64 // all steps of the latency model, by this factor; 0 = as they are
}

// storage is a KV tier of one engine.
type storage struct{ bytes, perSecond float64 }

func parseFleet(p *parser) fleetPlan {
	f := readFleet(p)
	f.check(p)
	return f
}

// readFleet reads what the flags say of a fleet, and does not yet ask whether they
// go together.
func readFleet(p *parser) fleetPlan {
	word := p.name
	return fleetPlan{
		profile: word("profile"), model: word("model"), gpu: word("gpu"), catalog: word("catalog"), fit: word("fit"),
		parallelism: engine.TP(p.integer("tp", 1, maxGPUs, 1)),
		weights:     p.weights(),
		limits: engine.Limits{
			MaxNumSeqs: p.integer("max-num-seqs", 1, 1_000_000, 0), MaxNumBatchedTokens: p.integer("max-num-batched-tokens", 1, maxTokens, 0),
			MaxModelLen: p.integer("max-model-len", 2, maxTokens, 0),
		},
		replicas: p.integer("replicas", 1, maxReplicas, 0), prefill: p.integer("prefill-replicas", 1, maxReplicas, 0),
		decode: p.integer("decode-replicas", 1, maxReplicas, 0),
		router: fleet.Router(p.choice("router", string(fleet.RoundRobin), string(fleet.LeastLoaded), string(fleet.KVAware))),

		caching: p.c.Bool("enable-prefix-caching"), async: p.choice("async-scheduling", "auto", "on", "off"), dram: p.storage("kv-dram"), nvme: p.storage("kv-nvme"),
		linkBytes:   p.number("transfer-bandwidth", 1e-3, 1e6) * 1e9,
		linkLatency: engine.FromSeconds(p.number("transfer-latency", 0, maxMillis) / 1e3),
		maxWaiting:  p.integer("max-waiting", 1, math.MaxInt32, 0),
		noise:       p.fraction("noise"),
		seed:        uint64(p.integer("seed", 0, math.MaxInt, 0)), //nolint:gosec // not negative
		sla:         profile.SLA{TTFT: p.optionalMillis("ttft"), ITL: p.optionalMillis("itl"), Stat: profile.Mean},
	}
}

const (
	// maxReplicas bounds a pool.
	maxReplicas = 100_000
	// maxWaiting is a queue of hours in most fleets, and some 2 GB.
	maxWaiting = 2_000_000
)

// check refuses flags that do not go together.
func (f *fleetPlan) check(p *parser) {
	switch {
	case (f.prefill > 0) != (f.decode > 0):
		p.fail(usagef("--prefill-replicas and --decode-replicas go together: want both or none"))
	case f.prefill > 0 && f.replicas > 0:
		p.fail(usagef("--replicas has no place beside --prefill-replicas and --decode-replicas"))
	case f.router == fleet.KVAware && !f.caching:
		p.fail(usagef("--router kv_aware: there is no cache to be aware of").hint("add --enable-prefix-caching"))
	case (f.dram.bytes > 0 || f.nvme.bytes > 0) && !f.caching:
		p.fail(usagef("--kv-dram and --kv-nvme keep what the prefix cache lets go: there is none").hint("add --enable-prefix-caching"))
	}
	p.needs(f.profile == "", "without --profile, which says it", "model", "gpu", "tp", "weights", "fit")
	p.needs(f.prefill > 0, "with --prefill-replicas and --decode-replicas", "transfer-bandwidth", "transfer-latency")
	p.needs(f.dram.bytes > 0, "with --kv-dram", "kv-dram-bandwidth")
	p.needs(f.nvme.bytes > 0, "with --kv-nvme", "kv-nvme-bandwidth")
	if f.prefill == 0 {
		f.replicas = max(f.replicas, 1)
	}
}

// storage reads a tier's size in GiB and its bandwidth.
func (p *parser) storage(name string) storage {
	s := storage{perSecond: p.number(name+"-bandwidth", 1e-3, 1e6) * 1e9}
	if p.c.IsSet(name) {
		s.bytes = p.number(name, 0, 1e9) * (1 << 30)
	}
	return s
}

// simulatedFleet is a fleet ready to run, and what a reader has to know of it.
type simulatedFleet struct {
	fleet.Config
	blockSize  int
	labels     []string // of each pool's engines: "TP:2"
	model, gpu string
	source     string // of the step times
	ttft, itl  profile.ModelError
	note       string // how the weights are stored, where the model says it
	warnings   []profile.Warning
	fit        *latency.Fit         // behind the step times; nil = a profile is
	steps      *interpolation.Steps // the profile behind the step times; nil = there is none
}

// pools describes each pool by what differs between them, or both at once.
func (f simulatedFleet) pools(of func(fleet.Pool) string) string {
	first := of(f.Pools[0])
	if len(f.Pools) == 1 || of(f.Pools[1]) == first {
		return first
	}
	return fmt.Sprintf("prefill %s; decode %s", first, of(f.Pools[1]))
}

// source gives one role's engines.
type source interface {
	// pool is an engine of that role, without replicas, with all of its limits.
	pool(role engine.Role) (fleet.Pool, error)
	// label is the layout of that role's engines: "TP:2".
	label(role engine.Role) string
	// kvBytes is the KV of one token, over all GPUs of an engine; 0 = not known.
	kvBytes() float64
	// about fills in what does not depend on the role.
	about(f *simulatedFleet)
}

func (f fleetPlan) resolve() (simulatedFleet, error) {
	s, err := f.source()
	if err != nil {
		return simulatedFleet{}, err
	}
	out := simulatedFleet{Config: fleet.Config{SLA: f.sla, Provenance: profile.Estimated, MaxInFlight: f.maxWaiting}}
	s.about(&out)
	roles := []engine.Role{engine.RoleAggregated}
	if f.prefill > 0 {
		roles = []engine.Role{engine.RolePrefill, engine.RoleDecode}
	}
	for _, role := range roles {
		p, err := s.pool(role)
		if err != nil {
			return out, err
		}
		p.Replicas = map[engine.Role]int{engine.RoleAggregated: f.replicas, engine.RolePrefill: f.prefill, engine.RoleDecode: f.decode}[role]
		if p.Engine, err = p.Engine.Normal(); err != nil {
			return out, usagef("%v", err)
		}
		out.MaxInFlight += p.Replicas * p.Engine.Limits.MaxNumSeqs
		out.Pools = append(out.Pools, f.finish(p, s.kvBytes()))
		out.labels = append(out.labels, s.label(role))
	}
	out.blockSize = out.Pools[0].Engine.Limits.BlockSize
	if s.kvBytes() == 0 && (f.dram.bytes > 0 || f.nvme.bytes > 0) {
		return out, usagef("--kv-dram and --kv-nvme: the catalog does not know %s, so how many tokens they hold is not known", out.model).
			hint("--catalog FILE adds models")
	}
	if f.prefill > 0 {
		out.Transfer = fleet.Transfer{
			Latency: f.linkLatency, BytesPerToken: s.kvBytes(), BytesPerSecond: f.linkBytes * float64(out.Pools[0].GPUs), Serial: true,
		}
		if s.kvBytes() == 0 {
			out.warnings = append(out.warnings, profile.Warnf("transfer_free", "the catalog does not know %s, so KV moves from prefill to decode in %v whatever its size", out.model, f.linkLatency.Duration()))
		}
	}
	return out, nil
}

func (f fleetPlan) source() (source, error) {
	if f.profile != "" {
		return readProfileSource(f)
	}
	return newModelSource(f)
}

// finish gives a pool what the flags say of every engine.
func (f fleetPlan) finish(p fleet.Pool, kvBytes float64) fleet.Pool {
	p.Router = f.router
	if p.Engine.Role == engine.RoleDecode && f.router == fleet.KVAware {
		p.Router = fleet.LeastLoaded // what it gets, it gets whole
	}
	p.Engine.Noise, p.Engine.Seed = f.noise, f.seed
	if f.async != "auto" {
		p.Engine.AsyncScheduling = f.async == "on"
	}
	p.Engine.PrefixCaching = f.caching && p.Engine.Role != engine.RoleDecode
	if !p.Engine.PrefixCaching {
		return p
	}
	block := kvBytes * float64(p.Engine.Limits.BlockSize)
	p.Engine.DRAM, p.Engine.NVMe = f.dram.tier(block), f.nvme.tier(block)
	return p
}

// tier is storage in blocks of so many bytes.
func (s storage) tier(block float64) sim.Tier {
	if s.bytes == 0 || block == 0 {
		return sim.Tier{}
	}
	return sim.Tier{Blocks: int(min(s.bytes/block, math.MaxInt32)), Load: engine.FromSeconds(block / s.perSecond)}
}

// layout is "4 × TP:2", or "2 × TP:1 prefill + 3 × TP:2 decode".
func (f simulatedFleet) layout() string {
	var parts []string
	for i, p := range f.Pools {
		s := fmt.Sprintf("%d × %s", p.Replicas, f.labels[i])
		if len(f.Pools) > 1 {
			s += " " + string(p.Engine.Role)
		}
		parts = append(parts, s)
	}
	return strings.Join(parts, " + ")
}
