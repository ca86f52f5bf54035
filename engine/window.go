package engine

import "math"

// KVWindow is what a sequence takes of a KV cache for the layers with a sliding
// window or a state (KVState), beside the blocks of all its tokens in the others. The
// zero KVWindow is of a model without such layers, or of an engine that keeps all tokens
// in them.
type KVWindow struct {
	Blocks int     `json:"blocks"` // of tokens that such a layer keeps of a sequence at most
	Share  float64 `json:"share"`  // of a block each: layers with a window over those without, as the engine groups them
}

// KVState is the KVWindow of layers that keep a state of so many blocks of a sequence,
// however long it is: all of it from the first block on.
func KVState(blocks float64) KVWindow { return KVWindow{Blocks: 1, Share: blocks} }

// All is how many of so many blocks are for tokens where every layer with a window keeps
// all of them; that sequences have a state is not counted.
func (w KVWindow) All(blocks int) int {
	if w.Blocks <= 1 {
		return blocks
	}
	return int(float64(blocks) / (1 + w.Share))
}

// Extra is how many blocks a sequence needs for its window layers, on top of the blocks
// that it needs for its tokens.
func (w KVWindow) Extra(blocks int) int {
	return int(math.Ceil(w.Share * float64(min(blocks, w.Blocks))))
}

// Longest is how many blocks of tokens one sequence has at most in a cache of so
// many blocks.
func (w KVWindow) Longest(blocks int) int {
	if n := blocks - w.Extra(w.Blocks); n >= w.Blocks {
		return n
	}
	n := int(float64(blocks) / (1 + w.Share))
	for n > 0 && n+w.Extra(n) > blocks {
		n--
	}
	return n
}

// WindowedKV is the KV cache of a model that has layers with a sliding window or a state.
// A token of a short sequence takes more of it, so its capacity in tokens depends on how
// long sequences are. The zero WindowedKV is of a cache with one capacity.
type WindowedKV struct {
	Blocks    int      `json:"blocks"`     // over all ranks
	BlockSize int      `json:"block_size"` // tokens
	Window    KVWindow `json:"window"`
}

// Known reports whether the capacity depends on the length of sequences.
func (c WindowedKV) Known() bool { return c.Window.Share > 0 }

// sequence is how many blocks of tokens a sequence has, and how many it takes with
// those of its window layers.
func (c WindowedKV) sequence(tokens float64) (blocks, taken int) {
	blocks = max(1, int(math.Ceil(tokens/float64(max(c.BlockSize, 1)))))
	return blocks, blocks + c.Window.Extra(blocks)
}

// Sequences is how many sequences of so many tokens fit.
func (c WindowedKV) Sequences(tokens int) int {
	_, taken := c.sequence(float64(tokens))
	return c.Blocks / taken
}

// TokensAt is the capacity in tokens where every sequence has so many.
func (c WindowedKV) TokensAt(context float64) int {
	blocks, taken := c.sequence(context)
	return int(float64(c.Blocks) / float64(taken) * float64(blocks*c.BlockSize))
}

// KVBytes is the size of a sequence's KV, over all GPUs of an engine. The zero KVBytes is
// not known.
type KVBytes struct {
	PerToken float64 // in all layers that keep KV
	State    float64 // of a sequence of any length, in layers that keep a state instead
	Windowed float64 // of PerToken: in layers with a sliding window, which keep Window tokens; 0 = there are none
	Window   int
}

// Of is the size with so many tokens.
func (b KVBytes) Of(tokens int) float64 {
	return b.State + b.PerToken*float64(tokens) - b.Windowed*float64(max(0, tokens-b.Window))
}
