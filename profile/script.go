package profile

import "time"

// Ask is one request of a Script.
type Ask struct {
	Due time.Duration `json:"due_ns"` // since the script's start; never before the Ask that precedes it
	ISL int           `json:"isl"`    // prompt tokens; an estimate, which nothing is judged by, where Prompt is given
	OSL int           `json:"osl"`    // output tokens, exactly (ignore_eos)
	// Prompt is the text that is sent as it is; empty: ISL tokens are made up.
	Prompt string `json:"prompt,omitempty"`
	// Shared, from 1, names one of several made-up prompts: all asks of the same
	// Seed, ISL and Shared have the same one, in every Script, so that a prefix
	// cache can hold it. 0: the prompt is new to the engine.
	Shared int `json:"shared,omitempty"`
}

// Script is an open-loop load whose requests each have an instant, lengths and,
// where it matters, a prompt of their own.
type Script struct {
	Asks []Ask
	Seed uint64 // with ISL, decides the prompts
	// MaxInFlight holds requests back that would be one too many, however long
	// they have been due: their latency counts from then. 0: none is held back.
	MaxInFlight int
	// Warmup marks requests whose only purpose is to fill caches, as in Workload.
	Warmup bool
	// Transferred marks requests whose prompts a prefill engine computes. In virtual time
	// their KV costs nothing. A real engine finds all but the end of each prompt in its
	// prefix cache.
	Transferred bool
	// Timeout bounds one request.
	Timeout time.Duration
}
