package planner

import "encoding/json"

// Policy is the rule behind the core.
type Policy interface {
	// Propose says what the pools should have: Want, Steps, Forecast, Correction,
	// Capacity, Warnings, and Missing where it cannot say. Want may exceed bounds
	// and budget: the core keeps those.
	Propose(Situation) Decision
}

// Stateful is a policy that outlasts a restart: each one that serves is.
type Stateful interface {
	Policy
	// Save gives what the policy remembers; Restore takes it back after a
	// restart, and refuses what it cannot have saved.
	Save() (json.RawMessage, error)
	Restore(json.RawMessage) error
}

// Situation is what a policy decides on.
type Situation struct {
	Observation
	Deployment Deployment
	Have       Replicas // asked for until now, draining ones not counted
}

// Forecaster predicts one series, an interval ahead or more.
type Forecaster interface {
	// Observe adds the value of the interval just ended; NaN is a gap, which is
	// not 0.
	Observe(value float64)
	// Forecast is what is expected steps intervals ahead (1 is the next); 0 before
	// anything was observed.
	Forecast(steps int) float64
	Save() (json.RawMessage, error)
	Restore(json.RawMessage) error
}
