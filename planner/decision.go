package planner

import (
	"fmt"
	"slices"
	"time"

	"plimsoll/engine"
	"plimsoll/profile"
)

// Decision is what is to be done after an interval, and how the planner came to it.
type Decision struct {
	At   time.Time `json:"at"`
	From Replicas  `json:"from"` // asked for until now
	Want Replicas  `json:"want"`
	// Proposed is what the policy asked for, before bounds and budget.
	Proposed Replicas `json:"proposed"`
	Act      bool     `json:"act"` // Want is to be asked of the target

	// Missing are the figures that the policy could not do without. What is done
	// then is the core's rule for lost metrics, not the policy's.
	Missing []string `json:"missing,omitempty"`

	Steps      []Step         `json:"steps"` // in order; the last of a pool says what it ends with
	Forecast   Demand         `json:"forecast"`
	Correction Correction     `json:"correction"`
	Capacity   []PoolCapacity `json:"capacity,omitempty"`
	// Sized is the fewest replicas for so many times the forecast load and a part, 0 to 1, of
	// the reserve that Want has beyond it. More of either never takes fewer. nil where the
	// policy does not know what a replica carries, and once the core has kept the budget.
	Sized      func(load, reserve float64) Replicas `json:"-"`
	GPUs       int                                  `json:"gpus"`       // of Want
	Provenance profile.Provenance                   `json:"provenance"` // of the latencies behind it
	Warnings   []profile.Warning                    `json:"warnings,omitempty"`
}

// HeldBack reports whether the budget left less than was wanted.
func (d Decision) HeldBack() bool {
	return slices.ContainsFunc(d.Steps, func(s Step) bool { return s.Rule == budgetRule || s.Rule == drainingRule })
}

// The rules by which a budget holds a decision back: it is too small, or replicas that
// stop still hold its GPUs.
const (
	budgetRule   = "budget"
	drainingRule = "draining"
)

// Step is one rule that took or kept a pool's replicas.
type Step struct {
	Rule string `json:"rule"`           // in a few fixed words: "demand", "budget", "hold"
	Role Role   `json:"role,omitempty"` // empty: all pools
	From int    `json:"from"`
	To   int    `json:"to"`
	Why  string `json:"why"`
}

// Demand is what is expected of the next interval.
type Demand struct {
	Rate Figure[float64] `json:"rate"` // requests/s
	High Figure[float64] `json:"high"` // requests/s that are sized for, the forecast's error included
	ISL  Figure[float64] `json:"isl"`  // tokens, mean
	OSL  Figure[float64] `json:"osl"`  // tokens, mean
}

// Correction is how much slower the fleet was than its profile: observed over
// predicted. 1 is as profiled.
type Correction struct {
	Prefill Figure[float64] `json:"prefill"`
	Decode  Figure[float64] `json:"decode"`
}

// PoolCapacity is what the profile says that one replica carries within the SLA.
type PoolCapacity struct {
	Role     Role            `json:"role"`
	Rate     Figure[float64] `json:"rate"`      // requests/s, of each where there are as many as the load takes
	InFlight Figure[float64] `json:"in_flight"` // requests
	Latency  Figure[float64] `json:"latency"`   // ms predicted with Want: TTFT of prefill, ITL of decode
}

// Words are replicas of the pools that the decision is about, also where there are none.
func (d Decision) Words(r Replicas) string {
	if slices.ContainsFunc(d.Steps, func(s Step) bool { return s.Role == engine.RoleAggregated }) {
		return fmt.Sprintf("aggregated=%d", r.Aggregated)
	}
	return r.String()
}
