package policy

import (
	"fmt"
	"math"
	"slices"

	"plimsoll/planner"
)

// WVAEngine is one engine of a pool by its arguments, and how full it may be.
type WVAEngine struct {
	Role             planner.Role
	KVTokens         int // its KV cache holds
	MaxBatchedTokens int // --max-num-batched-tokens
	MaxSeqs          int // --max-num-seqs

	KVThreshold float64 // kvCacheThreshold: the KV use that saturates it, above 0 to 1
}

// variant is one pool to the variant autoscaler.
type variant struct {
	WVAEngine
	have, pending int // replicas asked for, and those of them that are not ready
	replicas      []planner.ReplicaObservation
}

// Its defaults (config/manager/configmap-saturation-scaling.yaml,
// internal/interfaces/saturation_scaling.go).
const (
	DefaultKVThreshold = 0.80
	saturatedQueue     = 5.0 // requests waiting at a replica
	tokensUp           = 0.85
	tokensDown         = 0.70
)

// mostBounds is its RollingAverageWindowSize.
const mostBounds = 10

// tokens is its analysis (internal/engines/analyzers/saturation_v2/analyzer.go,
// internal/engines/pipeline/cost_aware_optimizer.go):
//
//	demand   = sum over replicas of tokens in the KV cache + requests waiting · ISL
//	capacity = median over replicas of min(KVThreshold · KVTokens, k2)
//	up by      ceil((demand/0.85 − (ready + pending)·capacity) / capacity)
//	down by    floor((ready·capacity − demand/0.70) / capacity), to one at least
//
// k2 is what computing allows: the tokens in the cache where 5 requests or more
// wait, else the mean of the last 10 of these at the pool and of the like outputs
// (below 100 tokens, below 500, longer), else what the engine's arguments let run in
// the long run, min(B·OSL/(ISL+OSL), seqs)·(ISL + OSL/2) with B tokens in a step.
func (w *WVA) tokens(v variant) (to int, rule, why string) {
	isl, osl := meanLengths(w.s.Lengths)
	demand := 0.0
	var capacities []float64
	for _, r := range v.replicas {
		inUse := math.Round(min(r.KVUsage, 1) * float64(v.KVTokens))
		demand += inUse + r.Waiting*isl
		capacities = append(capacities, math.Floor(min(v.KVThreshold*float64(v.KVTokens), w.computeBound(v.WVAEngine, r, inUse, isl, osl))))
	}
	capacity := median(capacities)
	ready := max(0, v.have-v.pending)
	why = fmt.Sprintf("demand %.5g tokens of %.5g for each of %d replicas, %d ready", demand, capacity, v.have, ready)
	required := demand/tokensUp - float64(ready+v.pending)*capacity
	spare := float64(ready)*capacity - demand/tokensDown
	switch fewer := whole(math.Floor(spare / capacity)); {
	case !(capacity > 0):
		return v.have, "enough", why
	case required > 0:
		return v.have + whole(required/capacity), "up", fmt.Sprintf("%s: above %.3g", why, tokensUp)
	case fewer > 0:
		return max(1, v.have-fewer), "down", fmt.Sprintf("%s: %d more than %.3g needs", why, fewer, tokensDown)
	default:
		return v.have, "enough", fmt.Sprintf("%s: within %.3g and %.3g", why, tokensDown, tokensUp)
	}
}

// computeBound is k2 of a replica, in tokens; one that is observed is remembered.
func (w *WVA) computeBound(e WVAEngine, r planner.ReplicaObservation, inUse, isl, osl float64) float64 {
	what := string(e.Role) + outputs(osl)
	if r.Waiting >= saturatedQueue && inUse > 0 {
		past := append(slices.Clone(w.s.Bounds[what]), inUse)
		w.s.Bounds[what] = past[max(0, len(past)-mostBounds):]
		return inUse
	}
	if past := w.s.Bounds[what]; len(past) > 0 {
		sum := 0.0
		for _, x := range past {
			sum += x
		}
		return sum / float64(len(past))
	}
	if osl > 0 {
		running := min(float64(e.MaxBatchedTokens)*osl/(isl+osl), float64(e.MaxSeqs))
		if derived := math.Floor(running * (isl + osl/2)); derived > 0 {
			return derived
		}
	}
	return math.Inf(1)
}

// outputs is the class of a mean OSL.
func outputs(osl float64) string {
	switch {
	case osl < 100:
		return " short"
	case osl < 500:
		return " medium"
	default:
		return " long"
	}
}

// median is the mean of both in the middle where they are even; 0 of none.
func median(values []float64) float64 {
	n := len(values)
	if n == 0 {
		return 0
	}
	slices.Sort(values)
	if n%2 == 0 {
		return math.Floor((values[n/2-1] + values[n/2]) / 2)
	}
	return values[n/2]
}
