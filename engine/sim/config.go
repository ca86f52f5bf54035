package sim

import (
	"errors"
	"fmt"
	"math"

	"plimsoll/engine"
)

// What a zero field of engine.Limits becomes. BlockSize and
// MaxNumBatchedTokens are vLLM's defaults for its server on a data-centre GPU
// (v0.10, August 2025); MaxNumSeqs is this program's own.
const (
	DefaultMaxNumSeqs          = 64
	DefaultMaxNumBatchedTokens = 8192
	DefaultBlockSize           = 16
)

// Config is an engine to simulate. It is a value.
type Config struct {
	// Role is what the engine does; empty = aggregated.
	Role engine.Role
	// Limits bounds the scheduler. Zero fields take the defaults above;
	// MaxModelLen 0 = as much as the KV cache holds.
	Limits engine.Limits
	// KVBlocks is the capacity of the KV cache in blocks; at least 1.
	KVBlocks int
	// Window is what each sequence takes of them for layers with a sliding window;
	// zero = there are none. It is taken when the sequence starts, for as long as it
	// will be: an engine that takes it as the sequence grows has, at most, a little
	// more room while sequences are shorter than the window.
	Window engine.KVWindow
	// PrefixCaching keeps the KV of prompts for later requests.
	PrefixCaching bool
	// States says after which tokens of a prompt the state of layers of linear attention
	// is kept, from where alone a later prompt can go on; empty = there are none.
	States States
	// DRAM and NVMe take what the prefix cache evicts; zero = there is none.
	DRAM, NVMe Tier
	// AsyncScheduling schedules each step while the one before it runs, so that
	// a request that comes to a busy engine waits for one step more. vLLM does
	// so by default since 0.14.0 (release notes, January 2026), but not with
	// pipeline parallelism or on CPUs.
	AsyncScheduling bool
	// ReserveFullPrompt lets a request start only where free blocks hold all of
	// its tokens so far, not only its first chunk. Otherwise a long prompt starts
	// again and again in what is free, and is preempted before it is done. vLLM
	// does so by default since 0.19.0 (scheduler_reserve_full_isl; release notes,
	// April 2026).
	ReserveFullPrompt bool
	// PrefillAlone keeps prompts and decoding in steps apart: as long as a prompt can be
	// computed, decoding waits. SGLang schedules so unless told --enable-mixed-chunk
	// (docs.sglang.io, server_arguments, read in November 2026). It implies
	// ReserveFullPrompt: a prompt that does not fit would start again and again.
	PrefillAlone bool
	// HoldKV makes a prefill engine keep the KV of a finished request until its
	// caller says by Release that a decode engine has it. Other roles let it go.
	// It implies ReserveFullPrompt: what is held may never leave the room for the
	// rest of a prompt, which would start again and again for ever.
	HoldKV bool
	// Noise is the relative jitter of step times: σ of a lognormal factor with
	// mean 1, from 0 (none) to 1.
	Noise float64
	// Seed decides the jitter.
	Seed uint64
}

// States says where prefix caching keeps states. One is after a whole block.
type States string

// Where states are kept.
const (
	StatesAtEnds  States = "ends"  // of prompts
	StatesAtForks States = "forks" // there, and where a prompt leaves one that was computed before
)

// Tier is a place below HBM for blocks of the prefix cache.
type Tier struct {
	Blocks int                // capacity; 0 = there is no such tier
	Load   engine.Picoseconds // time to bring one block up
	// Windowed is the part of Load that is for layers with a sliding window: only the last
	// Window blocks of a prompt take it. 0 = there are none.
	Windowed engine.Picoseconds
	Window   int
}

// Normal fills in the defaults and refuses what cannot be simulated, all
// complaints at once.
func (c Config) Normal() (Config, error) {
	if c.Role == "" {
		c.Role = engine.RoleAggregated
	}
	c.HoldKV = c.HoldKV && c.Role == engine.RolePrefill
	c.ReserveFullPrompt = c.ReserveFullPrompt || c.HoldKV || c.PrefillAlone
	l := &c.Limits
	l.MaxNumSeqs = orDefault(l.MaxNumSeqs, DefaultMaxNumSeqs)
	// One step must hold a token of every running request.
	l.MaxNumBatchedTokens = orDefault(l.MaxNumBatchedTokens, max(DefaultMaxNumBatchedTokens, l.MaxNumSeqs))
	l.BlockSize = orDefault(l.BlockSize, DefaultBlockSize)
	l.MaxModelLen = orDefault(l.MaxModelLen, c.KVBlocks*l.BlockSize)

	var errs []error
	complain := func(bad bool, format string, args ...any) {
		if bad {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	switch c.Role {
	case engine.RoleAggregated, engine.RolePrefill, engine.RoleDecode:
	default:
		complain(true, "role %q: want aggregated, prefill or decode", c.Role)
	}
	complain(c.KVBlocks > 0 && c.Window.Longest(c.KVBlocks) < 1, "kv cache of %d blocks: too few for one token in every layer", c.KVBlocks)
	complain(c.KVBlocks < 1, "kv cache of %d blocks: want at least 1", c.KVBlocks)
	complain(l.MaxNumSeqs < 1, "max-num-seqs %d: want at least 1", l.MaxNumSeqs)
	complain(l.BlockSize < 1, "block size %d: want at least 1", l.BlockSize)
	complain(c.KVBlocks > 0 && l.MaxModelLen < 2, "max-model-len %d: want at least 2, one token in and one out", l.MaxModelLen)
	complain(l.MaxNumBatchedTokens < l.MaxNumSeqs, "max-num-batched-tokens %d is below max-num-seqs %d: a step must hold a token of every running request",
		l.MaxNumBatchedTokens, l.MaxNumSeqs)
	complain(c.PrefillAlone && c.AsyncScheduling, "prefill alone and asynchronous scheduling: want one of them")
	complain(math.IsNaN(c.Noise) || c.Noise < 0 || c.Noise > 1, "noise %v: want a relative jitter from 0 to 1", c.Noise)
	for _, t := range []struct {
		name string
		Tier
	}{{"dram", c.DRAM}, {"nvme", c.NVMe}} {
		complain(t.Blocks < 0, "%s tier of %d blocks: want 0 or more", t.name, t.Blocks)
		complain(t.Load < 0, "%s tier loads a block in %d ps: want 0 or more", t.name, t.Load)
		complain(t.Windowed < 0 || t.Windowed > max(t.Load, 0) || t.Window < 0, "%s tier loads %d ps of a block for a window of %d blocks: want no more than all of it, and neither below 0", t.name, t.Windowed, t.Window)
		complain(t.Blocks > 0 && !c.PrefixCaching, "%s tier of %d blocks without prefix caching: nothing would come into it", t.name, t.Blocks)
	}
	return c, errors.Join(errs...)
}

func orDefault(n, d int) int {
	if n == 0 {
		return d
	}
	return n
}

// MaxTokens is the largest prompt plus output that one request may have, in
// tokens: the model's length or the whole KV cache, whichever is less. The
// Config must be Normal.
func (c Config) MaxTokens() int {
	return min(c.Limits.MaxModelLen, c.Window.Longest(c.KVBlocks)*c.Limits.BlockSize)
}

// KVTokens is the capacity of the KV cache in tokens where every layer keeps all of
// them, which is what vLLM prints; long sequences have more room beside a window.
// The block size must be set.
func (c Config) KVTokens() int {
	return c.Window.All(c.KVBlocks) * c.Limits.BlockSize
}

// Output is how many of the wanted tokens the engine produces: all of them,
// but one where its role is prefill.
func (c Config) Output(wanted int) int {
	if c.Role == engine.RolePrefill {
		return min(wanted, 1)
	}
	return wanted
}

// Check refuses a request that the engine could never finish; a prompt and
// output that are too long give a *TooLongError. The Config must be Normal.
func (c Config) Check(r Request) error {
	switch {
	case r.PromptTokens < 1:
		return fmt.Errorf("request %d: prompt of %d tokens: want at least 1", r.ID, r.PromptTokens)
	case r.OutputTokens < 1:
		return fmt.Errorf("request %d: output of %d tokens: want at least 1", r.ID, r.OutputTokens)
	case len(r.Prefix) > r.PromptTokens/c.Limits.BlockSize:
		return fmt.Errorf("request %d: %d block hashes for %d prompt tokens in blocks of %d: want full blocks only",
			r.ID, len(r.Prefix), r.PromptTokens, c.Limits.BlockSize)
	// Not prompt + output > limit, which could overflow.
	case c.Output(r.OutputTokens) > c.MaxTokens()-r.PromptTokens:
		return &TooLongError{PromptTokens: r.PromptTokens, OutputTokens: c.Output(r.OutputTokens), Limit: c.MaxTokens()}
	}
	return nil
}

// TooLongError refuses a request whose prompt and output exceed the engine's
// context length or its whole KV cache.
type TooLongError struct {
	PromptTokens, OutputTokens, Limit int // tokens
}

func (e *TooLongError) Error() string {
	return fmt.Sprintf("%d prompt and %d output tokens are more than the %d that the engine can hold: shorten the prompt or ask for fewer tokens",
		e.PromptTokens, e.OutputTokens, e.Limit)
}
