package capacity

import (
	"errors"
	"fmt"
	"math"
	"strings"

	"plimsoll/engine"
	"plimsoll/engine/sim"
	"plimsoll/engine/sim/fleet"
)

// Layout is a kind of fleet that could carry the traffic: engines of which only
// the number is open.
type Layout struct {
	Strategy Strategy
	// Pools are one aggregated pool, or prefill and then decode; Replicas are not
	// looked at.
	Pools    []EnginePool
	Transfer fleet.Transfer
}

// EnginePool is one pool of a Layout.
type EnginePool struct {
	fleet.Pool
	Label         string  // of each engine: "TP:2"
	GPU           string  // catalog name
	USDPerGPUHour float64 // of each of its GPUs
	// InstanceGPUs is how many are rented at a time; 0 = each by itself. Pools of
	// the same GPU and price share instances.
	InstanceGPUs int
}

// Check says what is wrong with l.
func (l Layout) Check() error {
	var errs []error
	roles := map[int][]engine.Role{1: {engine.RoleAggregated}, 2: {engine.RolePrefill, engine.RoleDecode}}[len(l.Pools)]
	if roles == nil || (len(l.Pools) == 2) != (l.Strategy == Disaggregated) {
		return fmt.Errorf("a layout of %d pools, %s: want one pool aggregated, or two disaggregated", len(l.Pools), l.Strategy)
	}
	for i, p := range l.Pools {
		if p.Engine.Role != roles[i] {
			errs = append(errs, fmt.Errorf("pool %d is %s: want %s", i+1, p.Engine.Role, roles[i]))
		}
		errs = append(errs, within("gpus", float64(p.GPUs), 1, maxEngineGPUs), within("usd_per_gpu_hour", p.USDPerGPUHour, 0, 1e6), within("instance_gpus", float64(p.InstanceGPUs), 0, maxEngineGPUs))
	}
	return errors.Join(errs...)
}

// maxEngineGPUs bounds one engine; more is a mistake in units.
const maxEngineGPUs = 100_000

// Name is "TP:2", or "TP:1 prefill + TP:2 decode", with the GPUs where they differ.
func (l Layout) Name() string {
	var parts []string
	for _, p := range l.Pools {
		s := p.Label
		if len(l.Pools) > 1 {
			if l.Pools[0].GPU != l.Pools[1].GPU {
				s += " on " + p.GPU
			}
			s += " " + string(p.Engine.Role)
		}
		parts = append(parts, s)
	}
	return strings.Join(parts, " + ")
}

// GPUs of so many replicas.
func (l Layout) GPUs(replicas []int) int {
	sum := 0
	for i, n := range replicas {
		sum += n * l.Pools[i].GPUs
	}
	return sum
}

// HourlyUSD is what so many replicas cost, in whole instances.
func (l Layout) HourlyUSD(replicas []int) float64 {
	gpus := make([]float64, len(replicas))
	for i, n := range replicas {
		gpus[i] = float64(n * l.Pools[i].GPUs)
	}
	_, usd := l.Billed(gpus)
	return usd
}

// forgiven is what GPUs may be above whole instances: the rounding of a mean.
const forgiven = 1e-6

// Billed is how many GPUs are paid for where the pools have so many, which may be
// a mean over a time, and what they cost an hour.
func (l Layout) Billed(gpus []float64) (all, usd float64) {
	shared := len(gpus) == 2 && l.Pools[0].GPU == l.Pools[1].GPU && l.Pools[0].USDPerGPUHour == l.Pools[1].USDPerGPUHour &&
		l.Pools[0].InstanceGPUs == l.Pools[1].InstanceGPUs
	if shared {
		gpus = []float64{gpus[0] + gpus[1]}
	}
	for i, n := range gpus {
		if instance := float64(l.Pools[i].InstanceGPUs); instance > 0 {
			n = math.Ceil((n-forgiven)/instance) * instance
		}
		all += n
		usd += n * l.Pools[i].USDPerGPUHour
	}
	return all, usd
}

// fleet is the layout with so many replicas.
func (l Layout) fleet(replicas []int, seed uint64) fleet.Config {
	c := fleet.Config{Transfer: l.Transfer}
	for i, p := range l.Pools {
		pool := p.Pool
		pool.Replicas, pool.Engine.Seed = replicas[i], seed
		c.Pools = append(c.Pools, pool)
	}
	return c
}

// step is how long one step of a pool takes that decodes so many sequences.
func (p EnginePool) step(seqs int, context float64) float64 {
	return p.Timer.StepTime(engine.Batch{DecodeSeqs: seqs, DecodeContext: int64(float64(seqs) * context)}).Seconds()
}

// prefillSeconds is the least engine time that one prompt takes: its chunks, each
// in a step that other prompts fill as well as they can.
func (p EnginePool) prefillSeconds(isl float64) float64 {
	chunk := p.Engine.Limits.MaxNumBatchedTokens
	if chunk <= 0 {
		chunk = sim.DefaultMaxNumBatchedTokens
	}
	var b engine.Batch
	tokens := 0
	for n := 0; n < max(1, int(float64(chunk)/isl)); n++ {
		c := min(chunk, max(1, int(isl)))
		b.AddChunk(c, 0)
		tokens += c
	}
	return p.Timer.StepTime(b).Seconds() * isl / float64(tokens)
}

// room is how many sequences of so much context one engine decodes at once.
func (p EnginePool) room(context float64) int {
	limit := p.Engine.Limits.MaxNumSeqs
	if limit <= 0 {
		limit = sim.DefaultMaxNumSeqs
	}
	block := float64(max(1, p.Engine.Limits.BlockSize))
	return max(1, min(limit, int(float64(p.Engine.KVBlocks)*block/max(1, context))))
}
