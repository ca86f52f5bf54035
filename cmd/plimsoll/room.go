package main

import (
	"cmp"
	"fmt"

	"plimsoll/engine"
	"plimsoll/engine/catalog"
	"plimsoll/engine/latency"
	"plimsoll/engine/sim"
	"plimsoll/profile"
)

// noRoom is the refusal of an engine that cannot run, with what would let it.
func noRoom(m catalog.Model, g catalog.GPU, c engine.Config, err error) *usageError {
	e := usagef("%s on %d × %s: %v", m.Name, c.GPUs(), g.Name, err)
	if n := contextRoom(m, g, c); n > 0 && n < c.Limits.MaxModelLen {
		e = e.hint("--max-model-len %d would do", n)
	}
	check := func(c engine.Config) error { return latency.Check(m, g, c) }
	short := c
	short.Limits.MaxModelLen = 0
	if w := smallerWeights(c, check); w != "" {
		e = e.hint("--weights %s would do", w)
	} else if w := smallerWeights(short, check); w != "" && contextRoom(m, g, c) == 0 {
		short.Weights = w
		e = e.hint("--weights %s with --max-model-len %d would do", w, contextRoom(m, g, short))
	}
	for _, n := range []int{2, 4, 8, 16} {
		wider := c
		if wider.Parallelism.TP = n; n > c.Parallelism.TP && check(wider) == nil {
			return e.hint("--tp %d would do", n)
		}
	}
	return e
}

// contextRoom is the longest sequence that the KV cache of an engine holds; 0
// where there is no room for any.
func contextRoom(m catalog.Model, g catalog.GPU, c engine.Config) int {
	c.Limits.MaxModelLen = 0
	l, err := latency.New(m, g, c)
	if err != nil {
		return 0
	}
	return l.KVTokens() / c.Parallelism.Normal().DP
}

// forTraffic gives modelled candidates a context for the longest request that is to
// be played, as far as the model and each one's KV cache have it; surfaces reach no
// further for that. One that was asked for stays.
func (d deployment) forTraffic(o profileOptions, cs []engine.Config) []engine.Config {
	if !d.modelled() || o.maxContext > 0 {
		return cs
	}
	for i, c := range cs {
		room := cmp.Or(o.kvBlocks(sim.DefaultBlockSize)*sim.DefaultBlockSize, contextRoom(*d.model, *d.gpu, c))
		cs[i].Limits.MaxModelLen = max(c.Limits.MaxModelLen, min(o.traffic.longest(), d.model.MaxContext, room))
	}
	return cs
}

// smallerWeights is the largest storage below c's with which it fits; "" where
// there is none.
func smallerWeights(c engine.Config, fits func(engine.Config) error) engine.DType {
	have := c.Weights.Bytes()
	for _, w := range []engine.DType{engine.FP8, engine.FP4} {
		if c.Weights = w; w.Bytes() < have && fits(c) == nil {
			return w
		}
	}
	return ""
}

// kvBeyond refuses a KV cache that is larger than all memory of the engine's
// GPUs, whatever else is in it. A layer with a sliding window may keep next to
// nothing, so that only the others count.
func kvBeyond(m catalog.Model, g catalog.GPU, c engine.Config, tokens int) error {
	share := float64(max(m.FullAttentionLayers, 1)) / float64(m.Layers)
	need, have := float64(tokens)*m.KVBytesPerToken(c.KV)*share, float64(c.GPUs())*float64(g.MemoryBytes)
	if need <= have {
		return nil
	}
	return fmt.Errorf("a KV cache of %d tokens takes %.0f GB at least: %d × %s have %.0f GB in all", tokens, need/1e9, c.GPUs(), g.Name, have/1e9)
}

// kvWarnings says where a KV cache is larger than what the latency model finds
// left for it.
func kvWarnings(flag string, l latency.Model, label string, tokens int) []profile.Warning {
	if tokens <= l.KVTokens() {
		return nil
	}
	return []profile.Warning{profile.Warnf("kv_beyond_room", "%s: the KV cache of %d tokens is taken as given, but by the latency model %s has room for %d", flag, tokens, label, l.KVTokens())}
}

// kvWarnings are those of the candidates whose KV cache --kv-tokens says.
func (d deployment) kvWarnings(o profileOptions, cs []engine.Config) []profile.Warning {
	var out []profile.Warning
	for _, c := range cs {
		if l, err := d.speed(c); err == nil && d.modelled() && o.kvTokens > 0 {
			out = append(out, kvWarnings("--kv-tokens", l, c.Parallelism.Label(), o.kvTokens)...)
		}
	}
	return out
}
