// Package accuracy compares measured latencies of whole engines with the latency
// model: it takes rows of a table, simulates the load that each was measured under,
// and gives errors by group. It is pure but for randomness, whose seed is fixed.
package accuracy

import (
	"cmp"

	"plimsoll/engine"
	"plimsoll/engine/catalog"
	"plimsoll/engine/latency"
)

// Loop is how load was made.
type Loop string

// The loops.
const (
	Closed Loop = "closed" // so many requests in flight: each that ends is followed by another
	Open   Loop = "open"   // Poisson arrivals
	Single Loop = "single" // one prompt at a time
	Step   Loop = "step"   // a batch that decodes, at a context of ISL
)

// Row is one measured operating point. Zero fields were not said, or not measured.
type Row struct {
	Model   catalog.Model
	GPU     catalog.GPU
	Version string // of the engine
	Config  engine.Config

	Loop        Loop
	ISL, OSL    int       // tokens, means
	Concurrency int       // of a closed loop; sequences of a step
	Rate        float64   // of an open loop, per second
	Regular     bool      // its requests come at equal distances, not at random
	Requests    []Request // recorded ones of an open loop; nil: as many as it takes, by Rate and mean lengths
	Poll        int       // decode steps between looks at who has arrived; 0 = each looks
	Cached      int       // of ISL, tokens that the prefix cache holds

	TTFT, TPOT float64 // means, seconds
	Throughput float64 // output tokens per second
	Left       string  // why the row is left out; empty = it is not
}

// Request is one that was recorded: when it came, s, and its tokens.
type Request struct {
	At       float64
	ISL, OSL int
}

// Group is what rows of one kind have in common.
func (r Row) Group() string {
	return r.Model.Name + " " + string(cmp.Or(r.Config.Weights, engine.BF16)) + " " + r.GPU.Name + " " + string(r.Config.Kind)
}

// Engine is the row's engine as the shipped fits have it: where a row does not say its share
// of memory it has vLLM's of 0.19 and before, and KV blocks have 16 tokens.
func (r Row) Engine() engine.Config {
	c := r.Config
	if c.MemoryFraction == 0 || c.Kind == engine.KindVLLM {
		c.Release = engine.Release{Kind: engine.KindVLLM, Version: "0.19"}
	}
	c.Limits.BlockSize = cmp.Or(c.Limits.BlockSize, 16)
	return c
}

// Fit is the shipped fit for the row's engine.
func (r Row) Fit() latency.Fit { return latency.FitFor(r.Config.Kind, r.Version) }
