package serve

import (
	"time"

	"plimsoll/planner"
)

// Kind says what an Event is of.
type Kind string

// The kinds of events.
const (
	Started  Kind = "started"
	Decided  Kind = "decision" // with Observation and Decision
	Scaled   Kind = "scaled"   // the target took Decision.Want
	Advised  Kind = "advice"   // it would have been asked, but for advisory mode
	Failed   Kind = "error"
	Warned   Kind = "warning"
	Changed  Kind = "changed" // somebody changed what the planner keeps to
	Finished Kind = "stopped"
)

// Event is a line of the log.
type Event struct {
	At          time.Time            `json:"at"`
	Name        string               `json:"deployment"`
	Kind        Kind                 `json:"kind"`
	Text        string               `json:"text,omitempty"`
	Observation *planner.Observation `json:"observation,omitempty"`
	Decision    *planner.Decision    `json:"decision,omitempty"`
	GPUHours    float64              `json:"gpu_hours"`
}

func (r *Runner) emit(k Kind, text string, o *planner.Observation, d *planner.Decision) {
	e := Event{Name: r.o.Name, Kind: k, Text: text, Observation: o, Decision: d, GPUHours: r.Status().GPUHours}
	r.emitting.Lock()
	defer r.emitting.Unlock()
	e.At = time.Now()
	r.o.On(e)
}
