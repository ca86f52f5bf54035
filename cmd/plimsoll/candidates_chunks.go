package main

import (
	"cmp"
	"slices"

	"plimsoll/capacity"
	"plimsoll/engine"
	"plimsoll/engine/argv"
	"plimsoll/engine/latency"
	"plimsoll/engine/sim/fleet"
	"plimsoll/sweep"
)

// restarts is how many engines of a measured run are started again with other tokens
// in a step; an estimate has as many of each layout as estimatedChunks.
const restarts, estimatedChunks = 2, 1

// chunkWords are the flags of engines for the tokens of one step.
var chunkWords = []string{"--max-num-batched-tokens", "--chunked-prefill-size", "--max-num-tokens"}

// withChunks adds, to candidates of aggregated engines, those with other tokens in a
// step that hold the highest rates by the latency model, where one stands for the
// engine or knows it and the tokens are not said.
func (d deployment) withChunks(o profileOptions, cs []engine.Config) ([]engine.Config, error) {
	if !d.searchesChunks(o) {
		return cs, nil
	}
	type rated struct {
		engine.Config
		rate float64 // requests/s/GPU
	}
	var best []rated
	for _, c := range cs {
		all, layouts := d.chunksOf(o, c)
		if len(all) < 2 {
			continue
		}
		order, rates, err := layouts.Best(o.alike(), o.sla, o.seed)
		if err != nil {
			return nil, err
		}
		if d.kind == engine.KindEstimate {
			order = order[:min(estimatedChunks, len(order))]
		}
		for _, i := range order {
			best = append(best, rated{all[i], rates[i] / float64(c.GPUs())})
		}
	}
	if d.kind != engine.KindEstimate {
		slices.SortStableFunc(best, func(a, b rated) int { return -cmp.Compare(a.rate, b.rate) })
		best = best[:min(restarts, len(best))]
	}
	for _, b := range best {
		cs = append(cs, b.Config)
	}
	return cs, nil
}

// alike is the workload of requests of the target's lengths, by short trials at any rate.
func (o profileOptions) alike() capacity.Workload {
	return capacity.Workload{
		Rate: 1, ISL: float64(o.isl), ISLP99: float64(o.isl), OSL: float64(o.osl), OSLP99: float64(o.osl), PeakToAverage: 1, Pattern: "flat",
	}
}

// searchesChunks reports whether other tokens in a step are tried.
func (d deployment) searchesChunks(o profileOptions) bool {
	return o.mode == sweep.Aggregated && d.hasChunks(o)
}

// hasChunks reports whether the engine is one of a known model and GPU that takes any
// tokens in a step, and nobody says how many.
func (d deployment) hasChunks(o profileOptions) bool {
	if o.limits.MaxNumBatchedTokens > 0 || d.model == nil || d.gpu == nil || argv.Says(o.extra, chunkWords...) {
		return false
	}
	switch d.kind { //nolint:exhaustive // the others have no such limit, or one in a file of theirs
	case engine.KindSim, engine.KindEstimate, engine.KindVLLM, engine.KindSGLang, engine.KindTRTLLM:
		return true
	case engine.KindCommand:
		return d.template.Uses("MaxNumBatchedTokens")
	}
	return false
}

// chunksOf are a candidate and the same with every other chunk that has room, and
// their engines by the latency model.
func (d deployment) chunksOf(o profileOptions, c engine.Config) ([]engine.Config, capacity.Variants) {
	own := latency.Limits(*d.model, *d.gpu, c).MaxNumBatchedTokens
	var all []engine.Config
	var layouts capacity.Variants
	for _, tokens := range append([]int{own}, capacity.Chunks()...) {
		v := c
		if len(all) > 0 {
			if tokens == own || d.kind != engine.KindEstimate && d.kind != engine.KindSim && c.Limits.MaxNumSeqs > tokens {
				continue
			}
			v.Chunked, v.Limits.MaxNumBatchedTokens, v.Limits.MaxNumSeqs = true, tokens, min(c.Limits.MaxNumSeqs, tokens)
		}
		m, err := d.speed(v)
		if err != nil && len(all) == 0 {
			return nil, nil
		}
		if err != nil {
			continue // its activations have no room
		}
		e := estimator{opts: o, dep: d}.engine(v, m)
		e.Role = engine.RoleAggregated
		all = append(all, v)
		layouts = append(layouts, capacity.Layout{Strategy: capacity.Aggregated, Pools: []capacity.EnginePool{{
			Pool: fleet.Pool{Engine: e, Timer: m, GPUs: v.GPUs(), Overhead: m.Overhead(), PerToken: m.PerToken(), Router: fleet.LeastLoaded},
		}}})
	}
	return all, layouts
}
