// Package build makes a fleet that engine/sim/fleet can simulate: of the latency model, or
// of a measured profile. Commands that simulate engines begin here, so that all of them
// answer for the same ones.
package build

import (
	"math"

	"plimsoll/engine"
	"plimsoll/engine/field"
	"plimsoll/engine/sim"
	"plimsoll/engine/sim/fleet"
	"plimsoll/profile"
)

// contextStep is what an engine's context is rounded up to.
const contextStep = 1024

// RoundContext is the context of an engine that holds a request of so many tokens.
func RoundContext(longest int) int { return (longest + contextStep - 1) / contextStep * contextStep }

// Options say which fleet is wanted.
type Options struct {
	Profile                  string // folder of a profile; "" = the latency model times steps
	Model, GPU, Catalog, Fit string // for the latency model, by name or file

	PerNode     int // GPUs of one server; 0 = as the catalog says
	Parallelism engine.Parallelism
	Weights     engine.DType  // "" = as the model says
	KV          engine.DType  // of the KV cache; "" = BF16
	Limits      engine.Limits // zero fields take the source's
	// MemoryFraction is the share of a GPU's memory that an engine of the latency model
	// takes; 0 = its engine's own.
	MemoryFraction float64

	Replicas, Prefill, Decode int // engines of the aggregated pool, or of two pools
	Router                    fleet.Router
	Caching                   bool // of prompts that begin alike
	DRAM, NVMe                KVTier
	LinkBytes                 float64 // per second and GPU
	MaxWaiting                int     // requests in the fleet beyond those that its engines hold
	Noise                     float64 // relative jitter of a step, 0 to below 1
	Seed                      uint64
	SLA                       profile.SLA
	Slower                    engine.Factors // a profile, by these; zero = as it is
}

// KVTier is memory below the KV cache of one engine's GPUs.
type KVTier struct{ Bytes, BytesPerSecond float64 }

// Tier is the same in blocks of so many tokens; none where there is none, or the KV's size
// is not known. It holds as many blocks as it has room for in all layers: of prefixes
// beyond the window of layers that have one it would hold more.
func (s KVTier) Tier(kv engine.KVBytes, blockSize int) sim.Tier {
	if s.Bytes == 0 || kv.PerToken == 0 {
		return sim.Tier{}
	}
	size := float64(blockSize)
	return sim.Tier{
		Blocks: int(min(s.Bytes/(kv.PerToken*size), math.MaxInt32)), Load: engine.FromSeconds(kv.PerToken * size / s.BytesPerSecond),
		Windowed: engine.FromSeconds(kv.Windowed * size / s.BytesPerSecond), Window: (kv.Window + blockSize - 1) / blockSize,
	}
}

// Build makes the fleet.
func (f Options) Build() (Fleet, error) {
	s, err := f.Source()
	if err != nil {
		return Fleet{}, err
	}
	return f.Of(s)
}

// Of makes the fleet of a source's engines.
func (f Options) Of(s Source) (Fleet, error) {
	out := Fleet{Config: fleet.Config{SLA: f.SLA, Provenance: profile.Estimated, MaxInFlight: f.MaxWaiting}}
	s.about(&out)
	roles := []engine.Role{engine.RoleAggregated}
	if f.Prefill > 0 {
		roles = []engine.Role{engine.RolePrefill, engine.RoleDecode}
	}
	for _, role := range roles {
		p, err := s.Pool(role)
		if err != nil {
			return out, err
		}
		p.Replicas = map[engine.Role]int{engine.RoleAggregated: f.Replicas, engine.RolePrefill: f.Prefill, engine.RoleDecode: f.Decode}[role]
		if p.Engine, err = p.Engine.Normal(); err != nil {
			return out, field.Errorf("%v", err)
		}
		out.MaxInFlight += p.Replicas * p.Engine.Limits.MaxNumSeqs
		out.Pools = append(out.Pools, f.finish(p, s.KVBytes()))
		out.Labels = append(out.Labels, s.Label(role))
	}
	out.BlockSize = out.Pools[0].Engine.Limits.BlockSize
	if s.KVBytes().PerToken == 0 && (f.DRAM.Bytes > 0 || f.NVMe.Bytes > 0) {
		return out, field.Errorf(field.KVDRAM+" and "+field.KVNVMe+": the catalog does not know %s, so their size in tokens is unknown", out.Model).
			Hint(field.Catalog + " FILE adds models")
	}
	if f.Prefill > 0 {
		out.Transfer = fleet.Transfer{
			KV: s.KVBytes(), BytesPerSecond: f.LinkBytes * float64(out.Pools[0].GPUs), Serial: true,
		}
		if s.KVBytes().PerToken == 0 {
			out.Warnings = append(out.Warnings, profile.Warnf("transfer_free", "the catalog does not know %s, so KV transfer from prefill to decode counts as free", out.Model))
		}
	}
	return out, nil
}

// Source is what times the fleet's steps.
func (f Options) Source() (Source, error) {
	if f.Profile != "" {
		return ReadProfile(f)
	}
	return NewModel(f)
}

// finish gives a pool what is asked for of every engine.
func (f Options) finish(p fleet.Pool, kv engine.KVBytes) fleet.Pool {
	p.Router = f.Router
	if p.Engine.Role == engine.RoleDecode && f.Router == fleet.KVAware {
		p.Router = fleet.LeastLoaded // what it gets, it gets whole
	}
	p.Engine.Noise, p.Engine.Seed = f.Noise, f.Seed
	p.Engine.PrefixCaching = f.Caching && p.Engine.Role != engine.RoleDecode
	if !p.Engine.PrefixCaching {
		return p
	}
	size := p.Engine.Limits.BlockSize
	p.Engine.DRAM, p.Engine.NVMe = f.DRAM.Tier(kv, size), f.NVMe.Tier(kv, size)
	return p
}
