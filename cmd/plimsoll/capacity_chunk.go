package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"plimsoll/capacity"
	"plimsoll/engine"
	"plimsoll/engine/sglang"
	"plimsoll/engine/sim"
	"plimsoll/engine/sim/build"
	"plimsoll/engine/trtllm"
	"plimsoll/engine/vllm"
)

// planChunk is the tokens of one step that an aggregated plan's engines are told, and
// what their default would cost.
type planChunk struct {
	Tokens  int                    `json:"max_num_batched_tokens"`
	Default int                    `json:"engine_default,omitzero"`
	Flags   map[engine.Kind]string `json:"flags"` // in each engine's words
	// AtDefault is the cheapest plan's layout at the default, by short trials; nil
	// where it is the default, or a plan that lost.
	AtDefault *defaultChunk `json:"at_default,omitempty"`
	// Kept says why no other was tried: a profile's step times are those of one. Empty:
	// others were.
	Kept string `json:"kept,omitempty"`
}

// defaultChunk is a plan with the engine's own tokens in a step.
type defaultChunk struct {
	GPUs      int          `json:"gpus"` // spares included; 0 = no number of engines holds the SLO
	HourlyUSD capacity.USD `json:"hourly_cost_usd"`
	RPS       float64      `json:"highest_rps,omitzero"` // that it holds, where that was asked for
	GapP99Ms  float64      `json:"gap_p99_ms,omitzero"`  // of single gaps between tokens
}

// chunk is that of a candidate whose chunk was searched, or that of its profile; nil = it
// is neither.
func (c candidate) chunk() *planChunk {
	if c.chunked == nil {
		return c.kept
	}
	return &planChunk{Tokens: c.tokens, Default: c.chunked[0].tokens, Flags: chunkFlags(c.parallelism, c.tokens)}
}

// keptChunk is the chunk of a profile's aggregated engines, which is not searched.
func keptChunk(s build.Profile, l capacity.Layout) *planChunk {
	_, pick := s.Pick(engine.RoleAggregated)
	p := pick.Parallelism().Normal()
	limits := l.Pools[0].Engine.Limits
	tokens := cmp.Or(limits.MaxNumBatchedTokens, max(limits.MaxNumSeqs, sim.DefaultMaxNumBatchedTokens)) / p.DP
	kept := "the profile's step times come from engines that only prefill or only decode, without chunks"
	switch n, assumed := s.Chunk(); {
	case n > 0 && n/p.DP != tokens:
		kept = fmt.Sprintf("as asked for; the profile was measured at %d", n/p.DP)
	case n > 0 && assumed:
		kept = "the default of the engine that was profiled"
	case n > 0:
		kept = "as the profile was measured"
	case s.Recommendation.Aggregated != nil:
		kept = "the profile does not say with how many it was measured"
	}
	return &planChunk{Tokens: tokens, Flags: chunkFlags(p, tokens), Kept: kept}
}

// toldEngine is an engine whose flags are known.
type toldEngine struct {
	kind        engine.Kind
	name, image string
	server      server
}

// toldEngines are in the order of their mention.
var toldEngines = []toldEngine{
	{engine.KindVLLM, "vLLM", "vllm/vllm-openai", vllm.Server{}},
	{engine.KindSGLang, "SGLang", "lmsysorg/sglang", sglang.Server{}},
	{engine.KindTRTLLM, "TensorRT-LLM", "nvcr.io/nvidia/tensorrt-llm/release", trtllm.Server{}},
}

// chunkFlags is each engine's flag for so many tokens in a step, of those that run
// the layout.
func chunkFlags(p engine.Parallelism, tokens int) map[engine.Kind]string {
	return flagsFor(engine.Config{Parallelism: p}, engine.Config{Parallelism: p, Limits: engine.Limits{MaxNumBatchedTokens: tokens}})
}

// kvFlags is each engine's flag for a KV cache type; empty for the engine's own.
func kvFlags(kv engine.DType) map[engine.Kind]string {
	return flagsFor(engine.Config{}, engine.Config{KV: kv})
}

// flagsFor is what each engine is told for one configuration and not for the other, on its
// command line or in its file. An engine that cannot run both is left out.
func flagsFor(own, told engine.Config) map[engine.Kind]string {
	out := map[engine.Kind]string{}
	own.Model, told.Model = "model", "model"
	for _, e := range toldEngines {
		at := engine.Launch{Port: 1, LogPath: "engine.log"}
		without, err := e.server.Spec(own, at)
		with, err2 := e.server.Spec(told, at)
		if err != nil || err2 != nil {
			continue // it has no such layout
		}
		have := configWords(without)
		more := slices.DeleteFunc(configWords(with), func(word string) bool { return slices.Contains(have, word) })
		out[e.kind] = strings.Join(more, " ")
	}
	return out
}

// configWords are the words of a command line, and each value in the engine's files with
// the key of the mapping around it.
func configWords(s engine.Spec) []string {
	words, mapping := slices.Clone(s.Argv), ""
	for _, f := range s.Files {
		for line := range strings.Lines(f.Text) {
			if !strings.HasPrefix(line, " ") {
				mapping = ""
			}
			words = append(words, mapping+strings.TrimSpace(line))
			if strings.HasSuffix(line, ":\n") {
				mapping = strings.TrimSpace(line) + " "
			}
		}
	}
	return words
}

// words are what the chunk is and what the default would cost, where gap is the plan's p99
// gap between tokens in ms.
func (p planChunk) words(gap float64) string {
	if p.Kept != "" {
		return fmt.Sprintf("%d tokens in a step, not searched (%s): %s", p.Tokens, p.Kept, flagWords(p.Flags))
	}
	if p.Tokens == p.Default {
		return fmt.Sprintf("%d tokens in a step, the engine's default: none of the others tried takes less", p.Tokens)
	}
	s := fmt.Sprintf("%d tokens in a step: %s", p.Tokens, flagWords(p.Flags))
	switch d := p.AtDefault; {
	case d == nil:
	case d.RPS > 0:
		s += fmt.Sprintf("; at the default of %d it holds ≈ %s requests/s", p.Default, plain(d.RPS))
	case d.GPUs == 0:
		s += fmt.Sprintf("; at the default of %d no number of engines holds the SLO", p.Default)
	default:
		s += fmt.Sprintf("; at the default of %d it takes ≈ %s%s", p.Default, engine.Count(d.GPUs, "GPU"), hourly(d.HourlyUSD))
	}
	if d := p.AtDefault; d != nil && d.GapP99Ms > gap && gap > 0 {
		s += fmt.Sprintf(", with gaps between tokens of %.3g instead of %.3g ms at p99", d.GapP99Ms, gap)
	}
	return s
}

// flagWords lists the flags of all engines.
func flagWords(of map[engine.Kind]string) string {
	var flags []string
	for _, e := range toldEngines {
		if flag := of[e.kind]; flag != "" {
			flags = append(flags, e.name+" "+flag)
		}
	}
	return strings.Join(flags, ", ")
}

// addDefault says of the cheapest plan what its engines' own tokens in a step take.
func (z *sizing) addDefault() error {
	if !feasible(z.plans) || z.plans[0].candidate.layout.Chunk == 0 {
		return nil
	}
	best := &z.plans[0]
	own, err := z.sizeOne(best.candidate.chunked[0], z.traffic, capacity.SizeOptions{Rough: true})
	if err != nil {
		return err
	}
	p, err := capacity.NewPlan(own.sized, z.workload, z.slo, z.failures, best.Provenance)
	best.Chunk.AtDefault = &defaultChunk{GPUs: p.TotalGPUsFinal, HourlyUSD: p.HourlyUSD, GapP99Ms: p.EstimatedGapP99Ms}
	return err
}
