package engine

import (
	"fmt"
	"strings"
)

// Parallelism is how one engine spreads over GPUs. A zero field means 1.
//
// DP counts attention replicas inside one engine, EP the GPUs that experts are
// spread over; EP shares the GPUs of TP·DP and does not add to them.
type Parallelism struct {
	TP int `json:"tp"`
	PP int `json:"pp"`
	DP int `json:"dp"`
	EP int `json:"ep"`
}

// TP is n-way tensor parallelism and nothing else.
func TP(n int) Parallelism { return Parallelism{TP: n, PP: 1, DP: 1, EP: 1} }

// Normal returns p with each zero field set to 1, so that equal layouts compare equal.
func (p Parallelism) Normal() Parallelism {
	return Parallelism{TP: max(p.TP, 1), PP: max(p.PP, 1), DP: max(p.DP, 1), EP: max(p.EP, 1)}
}

// GPUs is TP·PP·DP.
func (p Parallelism) GPUs() int {
	p = p.Normal()
	return p.TP * p.PP * p.DP
}

// Label is the name shown to people: "TP:4", "TP:4 PP:2", "TEP:8" (experts
// spread over the TP ranks), "DEP:8" (experts spread over attention replicas).
func (p Parallelism) Label() string {
	p = p.Normal()
	var s string
	switch {
	case p.EP > 1 && p.DP > 1 && p.TP == 1:
		s = fmt.Sprintf("DEP:%d", p.DP)
	case p.EP > 1 && p.DP == 1:
		s = fmt.Sprintf("TEP:%d", p.TP)
	default:
		s = fmt.Sprintf("TP:%d", p.TP)
		if p.DP > 1 {
			s += fmt.Sprintf(" DP:%d", p.DP)
		}
		if p.EP > 1 {
			s += fmt.Sprintf(" EP:%d", p.EP)
		}
	}
	if p.PP > 1 {
		s += fmt.Sprintf(" PP:%d", p.PP)
	}
	return s
}

// Nodes are the servers that one engine spans; zero: it is on one, or that is not known.
type Nodes struct {
	Count       int     `json:"count"`
	GPUs        int     `json:"gpus"`          // of each
	BytesPerSec float64 `json:"bytes_per_sec"` // between them, per GPU, one way, assumed; 0 = not known
}

// String is "2 nodes of 8, 50 GB/s per GPU assumed"; empty for zero.
func (n Nodes) String() string {
	switch {
	case n.Count == 0:
		return ""
	case n.BytesPerSec == 0:
		return n.short() + ", network speed unknown"
	}
	return fmt.Sprintf("%s, %g GB/s per GPU assumed", n.short(), n.BytesPerSec/1e9)
}

// Of is how many of an engine's GPUs one server has.
func (n Nodes) Of(gpus int) int {
	if n.Count > 0 {
		return n.GPUs
	}
	return gpus
}

func (n Nodes) short() string { return fmt.Sprintf("%d nodes of %d", n.Count, n.GPUs) }

// Slug is Label in lower case without punctuation, for file names: "tp4pp2".
func (p Parallelism) Slug() string {
	return strings.ToLower(strings.NewReplacer(":", "", " ", "").Replace(p.Label()))
}
