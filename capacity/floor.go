package capacity

import (
	"math"
	"sort"
	"time"

	"plimsoll/engine"
	"plimsoll/profile"
)

// floor is the number of replicas in each pool below which no schedule keeps up
// with the traffic. A search starts there.
func (l Layout) floor(t Traffic, slo SLO) []int {
	out := make([]int, len(l.Pools))
	for i, work := range l.work(t, slo) {
		out[i] = max(1, int(math.Ceil(min(work, maxReplicas)-1e-9)))
	}
	return out
}

// work is the least engine time that each pool takes, in seconds per second. Prompts
// are taken to fill steps; decode steps to hold as many sequences as the KV cache, the
// engine and, alone, the ITL allow (by Little's law they stay for OSL steps).
func (l Layout) work(t Traffic, slo SLO) []float64 {
	out := make([]float64, len(l.Pools))
	for i, p := range l.Pools {
		if p.Engine.Role != engine.RoleDecode {
			out[i] += t.Rate * p.prefillSeconds(t.ISL) * p.computed(t)
		}
		if p.Engine.Role != engine.RolePrefill {
			out[i] += t.Rate * t.OSL * p.tokenSeconds(t, slo.step())
		}
	}
	return out
}

// computed is the least share of the prompts' tokens that no cache holds.
func (p EnginePool) computed(t Traffic) float64 {
	if !p.Engine.PrefixCaching {
		return 1
	}
	return max(0, 1-t.Shared/t.ISL)
}

// maxReplicas bounds a pool; more is a mistake in units.
const maxReplicas = 100_000

// tokenSeconds is the least engine time of one output token: a step at the
// largest batch over that batch. Sequences are taken to be as short as those of answers
// that are all alike: if answers vary, running ones are longer.
func (p EnginePool) tokenSeconds(t Traffic, itl time.Duration) float64 {
	context := profile.Context(t.ISL, t.OSL, 0)
	// The first batch that takes longer than the ITL; steps grow with their batch.
	slow := sort.Search(p.room(context), func(n int) bool { return p.step(n+1, context) > itl.Seconds() })
	n := max(1, slow)
	return p.step(n, context) / float64(n)
}

// idle is how many engines are so many that hardly a request finds another one in
// its engine: the requests under way at once, each by itself, are Poisson (M/G/∞),
// here of twice their mean, plus five of its deviations. More engines help no one,
// but where a trace has bursts.
func (p EnginePool) idle(t Traffic) int {
	if t.Requests > 0 {
		return maxReplicas
	}
	seconds := 0.0
	if p.Engine.Role != engine.RoleDecode {
		var prompt engine.Batch
		prompt.AddChunk(max(1, int(t.ISL)), 0)
		seconds += p.Timer.StepTime(prompt).Seconds()
	}
	if p.Engine.Role != engine.RolePrefill {
		seconds += t.OSL * p.step(1, t.context())
	}
	busy := 2 * t.Rate * seconds
	return int(math.Ceil(min(maxReplicas, busy+5*math.Sqrt(busy)+5)))
}

// PoolFloorsUSD is what each pool's floor costs per hour at the prices of Ranked.
func (l Layout) PoolFloorsUSD(t Traffic, slo SLO) []USD {
	out := make([]USD, len(l.Pools))
	for i, n := range l.floor(t, slo) {
		out[i] = USD(n*l.Pools[i].GPUs) * l.Pools[i].ranked()
	}
	return out
}

// FloorGPUs are those of the floor.
func (l Layout) FloorGPUs(t Traffic, slo SLO) int { return l.GPUs(l.floor(t, slo)) }

// FloorUSD is what the floor costs per hour at the prices of Ranked: a plan of the
// layout hardly costs less.
func (l Layout) FloorUSD(t Traffic, slo SLO) USD { return l.Ranked().HourlyUSD(l.floor(t, slo)) }
