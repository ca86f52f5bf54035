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
// when a place (MaxNumSeqs) and KV blocks for its first chunk are free, with
// ReserveFullPrompt those for all of its tokens; only the chunk's are taken. Where
// decoding needs a block and none is left, the latest arrival loses all of its
// blocks, goes back to the head of the queue and computes its prompt and its
// output so far again. With AsyncScheduling a step takes in only who came before
// the step ahead of it began, unless the engine was idle.
//
// # Prefix cache
//
// The cache knows full blocks of prompts by their hash chain (BlockHashes). A
// block nobody uses stays until its room is needed, the least recently used
// first. At least the last token of a prompt is always computed. Output tokens
// are not cached.
//
// Below HBM there may be two tiers of cached blocks, DRAM and NVMe. A block
// evicted from HBM goes to DRAM, the least recently used one there to NVMe, and
// the one there is gone; a tier without blocks is passed over. A block is in
// one tier at a time. A prompt that finds a block in a lower tier takes a block
// of HBM for it, and the step that starts the prompt is longer by the tier's
// load time for each: the load blocks the engine, without jitter. A prompt that
// computes a block anew, because what precedes it is gone, or gets it by
// transfer, brings it up without a load, and warm-ups load in no time.
//
// # Roles
//
// An aggregated engine does everything. A prefill engine computes the prompt,
// produces one token whatever was asked for, and lets its KV go: the transfer
// to a decode engine takes no time. With HoldKV it keeps the KV until it is told
// that a decode engine has it, and where that leaves no room for the next prompt
// it has no step to do. A decode engine takes the KV of a new
// prompt as transferred: the prompt costs blocks but no computing, and the
// first token comes out of the first decode step; after a preemption it must
// compute prompt and output itself, as real ones do.
//
// # Cost
//
// A step that only decodes costs O(1), however many requests it holds: counts
// and total context are kept incrementally, the need for new blocks is counted
// by phase of the step number, and finishes are keyed by step number. Starting,
// finishing and preempting cost O(log requests + blocks of the request), and no
// memory once the engine has held as many before.
//
// Steps between two changes need not be taken one by one: Ahead gives a run of
// them, whose length in time is a formula, and Skip takes any number of its
// steps in O(block size), exactly as Begin and End would. Where the next step gives
// a last token, BeginLast begins it, at a time known beforehand. That needs a timer
// that is a DecodeTimer, and no noise.
package sim

import "plimsoll/engine"

// StepTimer says how long one forward step of a batch takes.
type StepTimer interface {
	StepTime(b engine.Batch) engine.Picoseconds
}

// Request is one request to an engine.
type Request struct {
	ID           uint64   // unique among the requests that the engine holds
	PromptTokens int      // at least 1
	Prefix       []uint64 // hash chain of the prompt's full blocks, from BlockHashes; nil shares nothing; not to be changed while the engine holds the request
	OutputTokens int      // produced exactly, unless the role is prefill; at least 1
	// WarmUp marks a request that only fills the cache: its prompt costs
	// neither step time nor token budget, but fills KV like any other.
	WarmUp bool
	// Transferred marks a request whose KV comes from a prefill engine, as those of an
	// engine with the role decode all do.
	Transferred bool
}

// Step is one forward step.
type Step struct {
	Batch    engine.Batch
	Duration engine.Picoseconds // 0 where the step only finishes warm-up prompts
	Load     engine.Picoseconds // part of Duration that waits for blocks of lower tiers
}

// Event is a request's first or last token.
type Event struct {
	ID           uint64
	First        bool // the request's first token came out of this step
	Last         bool // its last one did, and the engine has forgotten the request
	CachedTokens int  // prompt tokens that the prefix cache held when it started
}
