package deployment

import (
	"fmt"

	"plimsoll/engine"
	"plimsoll/engine/catalog"
	"plimsoll/engine/field"
	"plimsoll/engine/latency"
	"plimsoll/profile"
)

// NoRoom is the refusal of an engine that cannot run, with what would let it.
func NoRoom(m catalog.Model, g catalog.GPU, c engine.Config, err error) *field.Error {
	e := field.Errorf("%s on %d × %s: %v", m.Name, c.GPUs(), g.Name, err)
	if n := ContextRoom(m, g, c); n > 0 && n < c.Limits.MaxModelLen {
		e = e.Hint(field.MaxModelLen+" %d would do", n)
	}
	check := func(c engine.Config) error { return latency.Check(m, g, c) }
	short := c
	short.Limits.MaxModelLen = 0
	if w := SmallerWeights(c, check); w != "" {
		e = e.Hint(field.Weights+" %s would do", w)
	} else if w := SmallerWeights(short, check); w != "" && ContextRoom(m, g, c) == 0 {
		short.Weights = w
		e = e.Hint(field.Weights+" %s with "+field.MaxModelLen+" %d would do", w, ContextRoom(m, g, short))
	}
	for _, n := range []int{2, 4, 8, 16} {
		wider := c
		if wider.Parallelism.TP = n; n > c.Parallelism.TP && check(wider) == nil {
			return e.Hint(field.TP+" %d would do", n)
		}
	}
	return e
}

// ContextRoom is the longest sequence that the KV cache of an engine holds; 0
// where there is no room for any.
func ContextRoom(m catalog.Model, g catalog.GPU, c engine.Config) int {
	c.Limits.MaxModelLen = 0
	l, err := latency.New(m, g, c)
	if err != nil {
		return 0
	}
	return l.LongestSequence()
}

// SmallerWeights is the largest storage below c's with which it fits; "" where
// there is none.
func SmallerWeights(c engine.Config, fits func(engine.Config) error) engine.DType {
	have := c.Weights.Bytes()
	for _, w := range []engine.DType{engine.FP8, engine.FP4} {
		if c.Weights = w; w.Bytes() < have && fits(c) == nil {
			return w
		}
	}
	return ""
}

// KVBeyond refuses a KV cache that is larger than all memory of the engine's
// GPUs, whatever else is in it. A layer with a sliding window may keep next to
// nothing, so that only the others count.
func KVBeyond(m catalog.Model, g catalog.GPU, c engine.Config, tokens int) error {
	share := float64(max(m.FullAttentionLayers, 1)) / float64(m.KVLayers())
	need, have := float64(tokens)*m.KVBytesPerToken(c.KV)*share, float64(c.GPUs())*float64(g.MemoryBytes)
	if need <= have {
		return nil
	}
	return fmt.Errorf("a KV cache of %d tokens needs at least %.0f GB; %d × %s have %.0f GB in all", tokens, need/1e9, c.GPUs(), g.Name, have/1e9)
}

// KVWarnings says where a KV cache, given by a field, is larger than what the latency
// model finds left for it.
func KVWarnings(of string, l latency.Model, label string, tokens int) []profile.Warning {
	if tokens <= l.KVTokens() {
		return nil
	}
	return []profile.Warning{profile.Warnf("kv_beyond_room", "%s: the given KV cache of %d tokens is used, but %s has room for only %d by the latency model", of, tokens, label, l.KVTokens())}
}
