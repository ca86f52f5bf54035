// Package sim is a continuous-batching inference engine as a state machine:
// requests go in, steps come out, and the caller owns time. It takes a Config,
// a StepTimer and Requests; it gives, step by step, what the batch holds, how
// long it lasts, and which requests got their first or last token by it. It
// refuses requests that could never finish. It reads no clock, starts no
// goroutine and draws randomness only from its own seed, so that the same
// calls give the same answers.
//
// # Scheduling
//
// As in vLLM's version 1 scheduler: every decoding request advances by one
// token in every step; what is left of MaxNumBatchedTokens goes to prompts in
// order of arrival, cut into chunks where they do not fit; a request starts
// when a place (MaxNumSeqs) and KV blocks for its first chunk are free. Where
// decoding needs a block and none is left, the latest arrival loses all of its
// blocks, goes back to the head of the queue and computes its prompt and its
// output so far again.
//
// # Prefix cache
//
// The cache knows full blocks of prompts by their hash chain (BlockHashes). A
// block nobody uses stays until its room is needed, the least recently used
// first. At least the last token of a prompt is always computed. Output tokens
// are not cached.
//
// # Roles
//
// An aggregated engine does everything. A prefill engine computes the prompt,
// produces one token whatever was asked for, and lets its KV go: the transfer
// to a decode engine takes no time. A decode engine takes the KV of a new
// prompt as transferred: the prompt costs blocks but no computing, and the
// first token comes out of the first decode step; after a preemption it must
// compute prompt and output itself, as real ones do.
//
// # Cost
//
// A step that only decodes costs O(1), however many requests it holds: counts
// and total context are kept incrementally, the need for new blocks is counted
// by phase of the step number, and finishes are keyed by step number. Starting,
// finishing and preempting cost O(log requests + blocks of the request).
package sim

import (
	"errors"
	"fmt"
	"math"

	"plimsoll/engine"
)

// StepTimer says how long one forward step of a batch takes.
type StepTimer interface {
	StepTime(b engine.Batch) engine.Picoseconds
}

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
	// PrefixCaching keeps the KV of prompts for later requests.
	PrefixCaching bool
	// Noise is the relative jitter of step times: σ of a lognormal factor with
	// mean 1, from 0 (none) to 1.
	Noise float64
	// Seed decides the jitter.
	Seed uint64
}

// Normal fills in the defaults and refuses what cannot be simulated, all
// complaints at once.
func (c Config) Normal() (Config, error) {
	if c.Role == "" {
		c.Role = engine.RoleAggregated
	}
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
	complain(c.KVBlocks < 1, "kv cache of %d blocks: want at least 1", c.KVBlocks)
	complain(l.MaxNumSeqs < 1, "max-num-seqs %d: want at least 1", l.MaxNumSeqs)
	complain(l.BlockSize < 1, "block size %d: want at least 1", l.BlockSize)
	complain(c.KVBlocks > 0 && l.MaxModelLen < 2, "max-model-len %d: want at least 2, one token in and one out", l.MaxModelLen)
	complain(l.MaxNumBatchedTokens < l.MaxNumSeqs, "max-num-batched-tokens %d is below max-num-seqs %d: a step must hold a token of every running request",
		l.MaxNumBatchedTokens, l.MaxNumSeqs)
	complain(math.IsNaN(c.Noise) || c.Noise < 0 || c.Noise > 1, "noise %v: want a relative jitter from 0 to 1", c.Noise)
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
func (c Config) MaxTokens() int { return min(c.Limits.MaxModelLen, c.KVBlocks*c.Limits.BlockSize) }

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

// Request is one request to an engine.
type Request struct {
	ID           uint64   // unique among the requests that the engine holds
	PromptTokens int      // at least 1
	Prefix       []uint64 // hash chain of the prompt's full blocks, from BlockHashes; nil shares nothing
	OutputTokens int      // produced exactly, unless the role is prefill; at least 1
	// WarmUp marks a request that only fills the cache: its prompt costs
	// neither step time nor token budget, but fills KV like any other.
	WarmUp bool
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

// Step is one forward step.
type Step struct {
	Batch    engine.Batch
	Duration engine.Picoseconds // 0 where the step only finishes warm-up prompts
}

// Event is a request's first or last token.
type Event struct {
	ID           uint64
	First        bool // the request's first token came out of this step
	Last         bool // its last one did, and the engine has forgotten the request
	CachedTokens int  // prompt tokens that the prefix cache held when it started
}

// Stats is what an engine is doing and what it has done.
type Stats struct {
	Running, Waiting int // requests
	KVUsed, KVTotal  int // blocks; used = held by running requests

	Steps         int64
	PromptTokens  int64 // of requests that got their first token
	OutputTokens  int64
	PrefixQueries int64 // prompt tokens looked up in the prefix cache, once for each request
	PrefixHits    int64 // of them, found
	Preemptions   int64
}
