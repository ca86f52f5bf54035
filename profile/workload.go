package profile

import "time"

// Arrival names how an open-loop schedule spaces its requests.
type Arrival string

// The arrival processes; ClosedLoop keeps a fixed number in flight instead.
const (
	ClosedLoop Arrival = "closed"
	Constant   Arrival = "constant"
	Poisson    Arrival = "poisson"
	Gamma      Arrival = "gamma"
)

// Workload is one load to send to one engine.
type Workload struct {
	ISL      int     `json:"isl"`       // prompt tokens, exactly
	OSL      int     `json:"osl"`       // output tokens, exactly (ignore_eos)
	Requests int     `json:"requests"`  // how many in all
	InFlight int     `json:"in_flight"` // closed loop: how many at once
	Arrival  Arrival `json:"arrival"`
	Rate     float64 `json:"rate_rps,omitempty"` // open loop: requests per second
	CV       float64 `json:"cv,omitempty"`       // gamma: coefficient of variation of the gaps
	Seed     uint64  `json:"seed"`               // with ISL, decides every prompt and gap

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
