package capacity

import (
	"math"
	"time"

	"plimsoll/engine"
)

// floor is the number of replicas in each pool below which no schedule keeps up
// with the traffic: work per second over what one engine can do. A search starts
// there. Prompts are taken to fill steps; decode steps to hold as many sequences
// as the KV cache, the engine and, alone, the ITL allow (by Little's law they
// stay for OSL steps).
func (l Layout) floor(t Traffic, slo SLO) []int {
	out := make([]int, len(l.Pools))
	for i, p := range l.Pools {
		work := 0.0 // engine seconds per second
		if p.Engine.Role != engine.RoleDecode {
			work += t.Rate * p.prefillSeconds(t.ISL)
		}
		if p.Engine.Role != engine.RolePrefill {
			work += t.Rate * t.OSL * p.tokenSeconds(t, slo.ITLP99)
		}
		out[i] = max(1, int(math.Ceil(min(work, maxReplicas)-1e-9)))
	}
	return out
}

// maxReplicas bounds a pool; more is a mistake in units.
const maxReplicas = 100_000

// tokenSeconds is the least engine time of one output token: a step at the
// largest batch over that batch.
func (p EnginePool) tokenSeconds(t Traffic, itl time.Duration) float64 {
	context := t.ISL + t.OSL/2
	best := math.Inf(1)
	for n := p.room(context); n >= 1; n /= 2 {
		if s := p.step(n, context); s <= itl.Seconds() || n == 1 {
			best = min(best, s/float64(n))
		}
	}
	return best
}
