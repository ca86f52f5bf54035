package main

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"sort"

	"plimsoll/capacity"
	"plimsoll/engine"
	"plimsoll/engine/catalog"
	dep "plimsoll/engine/deployment"
	"plimsoll/engine/field"
	"plimsoll/engine/latency"
	"plimsoll/engine/sim/build"
	"plimsoll/profile"
)

// engineOn is "H100-SXM, TP8", with the nodes where the engine spans several.
func engineOn(g catalog.GPU, p engine.Parallelism) string {
	s := fmt.Sprintf("%s, TP%d", g.Name, p.GPUs())
	if n := g.Nodes(p); n.Count > 0 {
		s += " (" + n.String() + ")"
	}
	return s
}

// modelThroughputs are what one engine of each size does at most by the latency
// model: prompts that fill its steps, and the largest batch whose step is within the
// ITL. Sizes that hold no request of the workload, or break the SLO with one, are
// left out; the most tokens/s/GPU come first, and there is at least one.
func (o oneEngine) modelThroughputs(cat catalog.Catalog, m catalog.Model, g catalog.GPU) ([]capacity.Throughput, error) {
	fit, err := build.LoadFit(field.Fit, o.fleet.Fit)
	if err != nil {
		return nil, err
	}
	var last error
	var unmet *unmetError
	var out []capacity.Throughput
	stored := dep.StorageOf(o.fleet.Weights, o.fleet.KV, m)
	layouts := o.asked
	if layouts == nil {
		layouts = dep.PowersOfTwo(catalog.UsualPerNode)
	}
	for _, layout := range layouts {
		tp := layout.GPUs()
		on := engineOn(g, layout)
		l, err := latency.NewWith(m, g, engine.Config{Parallelism: layout, Weights: stored.Weights, KV: stored.KV, Limits: o.fleet.Limits, MemoryFraction: o.fleet.MemoryFraction, Release: fit.Release()}, fit)
		if err == nil {
			err = o.roomIn(float64(l.LongestSequence()), on)
		}
		if err != nil {
			last = err
			continue
		}
		if step := l.ITL(1, o.workload.Context()).Seconds(); step > o.slo.ITL.Seconds() {
			unmet = tooSlow(step, on, o.slo.ITL, profile.Estimated) // a larger engine may do
			continue
		}
		isl, context := int(o.workload.ISL), o.workload.Context()
		batch := largestBatch(l, context, o.slo.ITL.Seconds())
		out = append(out, capacity.Throughput{
			Name: fmt.Sprintf("%s on %s%s", m.Name, on, stored.Phrase()), Model: m.Name, GPU: g.Name, TP: tp,
			PrefillTPS: modelPromptRate(l, isl),
			DecodeTPS:  float64(batch) / l.ITL(batch, context).Seconds(), MaxBatch: batch,
			KVBytesPerToken: int64(m.KVBytesPerToken(stored.KV)), GPUMemoryBytes: g.MemoryBytes, Provenance: profile.Estimated,
		})
	}
	switch {
	case len(out) > 0:
		slices.SortStableFunc(out, func(a, b capacity.Throughput) int {
			return cmp.Compare(o.gpuSeconds(a), o.gpuSeconds(b))
		})
		return out, nil
	case unmet != nil:
		return nil, unmet
	}
	return nil, field.Errorf("%s: %v", m.Name, last).Hint("%s", o.whatHolds(o.fleet, cat, m))
}

// roomIn refuses an engine whose KV cache holds no request of the workload's p99
// lengths: by the formulas it would serve them one at a time, or not at all.
func (d demand) roomIn(kvTokens float64, on string) error {
	if need := d.longest(); kvTokens < need {
		return fmt.Errorf("%s has room for %.0f tokens of KV cache, but a request needs up to %.0f", on, kvTokens, need)
	}
	return nil
}

// longest are the tokens of a request of the p99 lengths, or of the means.
func (d demand) longest() float64 {
	w := d.workload
	return math.Ceil(max(w.ISL, w.ISLP99) + max(w.OSL, w.OSLP99))
}

// gpuSeconds are what a request takes of a GPU's time: the least at the most
// tokens/s/GPU of prompts and of outputs together.
func (d demand) gpuSeconds(t capacity.Throughput) float64 {
	return float64(t.TP) * (d.workload.ISL/t.PrefillTPS + d.workload.OSL/t.DecodeTPS)
}

// modelPromptRate is the prompt tokens/s of one engine of prompts that fill its
// steps: several at once where they are short.
func modelPromptRate(l latency.Model, isl int) float64 {
	most := l.Limits()
	k := min(most.MaxNumBatchedTokens/max(isl, 1), most.MaxNumSeqs)
	if k < 2 {
		return float64(isl) / (l.TTFT(isl, 0) - l.Outside(isl).Duration()).Seconds()
	}
	var b engine.Batch
	for range k {
		b.AddChunk(isl, 0)
	}
	return float64(k*isl) / l.StepTime(b).Seconds()
}

// largestBatch is the most sequences that a step within itl seconds decodes, at
// least 1.
func largestBatch(l latency.Model, context, itl float64) int {
	most := max(1, min(l.Limits().MaxNumSeqs, int(float64(l.KVTokensAt(int(context)))/context)))
	return max(1, sort.Search(most, func(n int) bool { return l.ITL(n+1, context).Seconds() > itl }))
}
