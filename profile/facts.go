package profile

import "plimsoll/engine"

// EngineFacts is what a running engine says of itself.
type EngineFacts struct {
	Version     string     `json:"version,omitempty"`
	Model       string     `json:"model,omitempty"`         // as the engine names it
	KVTokens    int        `json:"kv_tokens"`               // KV capacity over all ranks, with sliding windows at the target's length; 0 = unknown
	KVSource    string     `json:"kv_source,omitempty"`     // flag, log, metrics
	BlockSize   int        `json:"block_size,omitempty"`    // 0 = unknown
	MaxNumSeqs  int        `json:"max_num_seqs,omitempty"`  // 0 = unknown or no limit
	MaxModelLen int        `json:"max_model_len,omitempty"` // 0 = unknown
	Provenance  Provenance `json:"provenance"`
	Command     []string   `json:"command,omitempty"`   // argv, without credentials
	TTFTError   ModelError `json:"ttft_error,omitzero"` // of the latency model behind it
	ITLError    ModelError `json:"itl_error,omitzero"`
	// StartUpSeconds is from a launch until the engine answered, the longest of its
	// launches; 0 = it was not launched, or only in virtual time.
	StartUpSeconds float64   `json:"start_up_seconds,omitempty"`
	Warnings       []Warning `json:"warnings,omitempty"`
	// WindowedKV says the KV capacity at every length of a model with sliding windows.
	WindowedKV engine.WindowedKV `json:"windowed_kv,omitzero"`
}

// KVTokensAt is the KV capacity in tokens where every sequence has so many.
func (f EngineFacts) KVTokensAt(context float64) int {
	if f.WindowedKV.Known() {
		return f.WindowedKV.TokensAt(context)
	}
	return f.KVTokens
}

// KVUse is the share of the KV cache that so many sequences of a mean context take.
func (f EngineFacts) KVUse(inFlight, context float64) float64 {
	return inFlight * context / float64(f.KVTokensAt(context))
}

// Replica is f with the KV cache of one of dp attention replicas.
func (f EngineFacts) Replica(dp int) EngineFacts {
	f.KVTokens /= dp
	f.WindowedKV.Blocks /= dp
	return f
}

// Longest is how many tokens, in whole blocks, one sequence has at most in the KV cache.
func (f EngineFacts) Longest() int {
	if w := f.WindowedKV; w.Known() {
		return w.Window.Longest(w.Blocks) * w.BlockSize
	}
	block := max(f.BlockSize, 1)
	return f.KVTokens / block * block
}

// Cacheable is how many of a prompt's tokens the prefix cache can serve: whole blocks,
// and never the last token, whose step gives the first of the answer.
func (f EngineFacts) Cacheable(isl int) int {
	block := max(f.BlockSize, 1)
	return (isl - 1) / block * block
}

// blockLoss is the share of a prompt that may stay uncached before another length is tried.
const blockLoss = 0.05

// CachedPrompt is isl, unless the prefix cache would leave more than blockLoss of the prompt
// uncached; then it is the nearest length from low to high with one uncached token, if there
// is one. A prompt of whole blocks leaves its last block uncached: with blocks of 128 tokens,
// half of a prompt of 256.
func (f EngineFacts) CachedPrompt(isl, low, high int) int {
	below := f.Cacheable(isl) + 1
	above := below + max(f.BlockSize, 1)
	switch {
	case float64(isl-below) < blockLoss*float64(isl):
	case above <= high && (below < low || above-isl <= isl-below):
		return above
	case below >= low:
		return below
	}
	return isl
}

// MaxInFlight is how many requests of isl + osl tokens the engine holds at
// once: min(max_num_seqs, blocks // ceil((isl+osl)/block_size)), less where layers
// with a sliding window take blocks, too; limit caps it where above 0. It is 0 where
// not even one fits.
func (f EngineFacts) MaxInFlight(isl, osl, limit int) int {
	block := max(f.BlockSize, 1)
	per := (isl + osl + block - 1) / block
	n := f.KVTokens / block / max(per, 1)
	if f.WindowedKV.Known() {
		n = f.WindowedKV.Sequences(isl + osl)
	}
	if f.MaxNumSeqs > 0 {
		n = min(n, f.MaxNumSeqs)
	}
	if limit > 0 {
		n = min(n, limit)
	}
	return n
}

// Skip is a configuration that was left out, or dropped half-way, and why.
// Phase is empty where it concerns both.
type Skip struct {
	Phase  Phase  `json:"phase,omitempty"`
	Label  string `json:"label"` // "TP:4"
	Reason string `json:"reason"`
}
