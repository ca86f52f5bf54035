package capacity

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
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
	// Chunk is the tokens of one step that its engines are told; 0 = their own.
	Chunk int
}

// EnginePool is one pool of a Layout.
type EnginePool struct {
	fleet.Pool
	Label         string // of each engine: "TP:2"
	GPU           string // catalog name
	USDPerGPUHour USD    // of each of its GPUs; 0 = they are owned, UnknownUSD = there is no price
	// FromDataSheet says that step times are of a latency model that knows no more of the
	// GPU than its data sheet.
	FromDataSheet bool
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
		errs = append(errs, within("gpus", float64(p.GPUs), 1, maxEngineGPUs), checkPrice("usd_per_gpu_hour", p.USDPerGPUHour), within("instance_gpus", float64(p.InstanceGPUs), 0, maxEngineGPUs))
	}
	return errors.Join(errs...)
}

// maxEngineGPUs bounds one engine; more is a mistake in units.
const maxEngineGPUs = 100_000

// Name is "TP:2", or "TP:1 prefill + TP:2 decode", with the GPUs where they differ,
// and "TP:2, chunk 512".
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
	name := strings.Join(parts, " + ")
	if l.Chunk > 0 {
		name += fmt.Sprintf(", chunk %d", l.Chunk)
	}
	return name
}

// GPUs of so many replicas.
func (l Layout) GPUs(replicas []int) int {
	sum := 0
	for i, n := range replicas {
		sum += n * l.Pools[i].GPUs
	}
	return sum
}

// leastUSD is what a GPU costs an hour where layouts are compared and it costs
// nothing, or has no price: of such fleets the smaller one is the cheaper.
const leastUSD = 1e-6

// ranked is the price of a GPU by which the pool is compared.
func (p EnginePool) ranked() USD {
	if p.USDPerGPUHour > leastUSD {
		return p.USDPerGPUHour
	}
	return leastUSD
}

// Priced reports whether all of its GPUs have a price.
func (l Layout) Priced() bool {
	return !slices.ContainsFunc(l.Pools, func(p EnginePool) bool { return !p.USDPerGPUHour.Known() })
}

// Ranked is l at the prices by which fleets are compared, all above 0: those of
// GPUs that are free, or without a price, count the GPUs alone.
func (l Layout) Ranked() Layout {
	l.Pools = slices.Clone(l.Pools)
	for i := range l.Pools {
		l.Pools[i].USDPerGPUHour = l.Pools[i].ranked()
	}
	return l
}

// FromDataSheet reports whether the step times of a pool are from its GPU's data sheet alone.
func (l Layout) FromDataSheet() bool {
	return slices.ContainsFunc(l.Pools, func(p EnginePool) bool { return p.FromDataSheet })
}

// Preferred orders layouts before they are compared by cost: those with step times from a
// data sheet alone come last, and of either kind those whose GPUs have no price.
func Preferred(a, b Layout) int {
	return cmp.Or(last(a.FromDataSheet(), b.FromDataSheet()), last(!a.Priced(), !b.Priced()))
}

// last orders what is so behind what is not.
func last(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// checkPrice refuses what no GPU costs; no price at all is none of these.
func checkPrice(field string, usd USD) error {
	if !usd.Known() {
		return nil
	}
	return within(field, float64(usd), 0, 1e6)
}

// HourlyUSD is what so many replicas cost, in whole instances.
func (l Layout) HourlyUSD(replicas []int) USD {
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
func (l Layout) Billed(gpus []float64) (all float64, usd USD) {
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
		usd += USD(n) * l.Pools[i].USDPerGPUHour
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
	blocks := max(1, context) / float64(max(1, p.Engine.Limits.BlockSize))
	blocks += p.Engine.Window.Share * min(blocks, float64(p.Engine.Window.Blocks))
	return max(1, min(limit, int(float64(p.Engine.KVBlocks)/blocks)))
}
