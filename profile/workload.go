package profile

import "time"

// Arrival names how requests that come on their own are spaced.
type Arrival string

// The arrival processes.
const (
	Constant Arrival = "constant"
	Poisson  Arrival = "poisson"
	Gamma    Arrival = "gamma"
)

// Workload is one load to send to one engine: a closed loop, in which a request is
// sent when another one ends.
type Workload struct {
	ISL      int    `json:"isl"`       // prompt tokens, exactly
	OSL      int    `json:"osl"`       // output tokens, exactly (ignore_eos)
	Requests int    `json:"requests"`  // how many in all
	InFlight int    `json:"in_flight"` // how many at once
	Seed     uint64 `json:"seed"`      // with ISL, decides every prompt

	// SharedPrompts makes request i reuse the prompt that request i of any
	// other workload with the same Seed had, as far as both reach, so that a
	// prefix cache can hold it. Otherwise every prompt of every call is new to the engine.
	SharedPrompts bool `json:"shared_prompts"`
	// Warmup marks requests whose only purpose is to fill caches; the embedded
	// engine prefills them in no time, every other engine ignores the mark.
	Warmup bool `json:"warmup"`
	// Timeout bounds one request.
	Timeout time.Duration `json:"timeout_ns"`
}
