package planner

import (
	"fmt"

	"plimsoll/engine"
)

// Role is what the engines of a pool do: prefill, decode, or both (aggregated).
type Role = engine.Role

// Replicas are engines per pool. A deployment has either prefill and decode, or
// aggregated; what it does not have is 0.
type Replicas struct {
	Prefill    int `json:"prefill,omitempty"`
	Decode     int `json:"decode,omitempty"`
	Aggregated int `json:"aggregated,omitempty"`
}

// Of is the number of a role.
func (r Replicas) Of(role Role) int {
	switch role {
	case engine.RolePrefill:
		return r.Prefill
	case engine.RoleDecode:
		return r.Decode
	default:
		return r.Aggregated
	}
}

// With is r with another number of a role.
func (r Replicas) With(role Role, n int) Replicas {
	switch role {
	case engine.RolePrefill:
		r.Prefill = n
	case engine.RoleDecode:
		r.Decode = n
	default:
		r.Aggregated = n
	}
	return r
}

// Max is the larger number of each role.
func (r Replicas) Max(o Replicas) Replicas {
	return Replicas{max(r.Prefill, o.Prefill), max(r.Decode, o.Decode), max(r.Aggregated, o.Aggregated)}
}

// String is prefill=2, decode=3, or aggregated=4.
func (r Replicas) String() string {
	if r.Prefill == 0 && r.Decode == 0 && r.Aggregated > 0 {
		return fmt.Sprintf("aggregated=%d", r.Aggregated)
	}
	return fmt.Sprintf("prefill=%d, decode=%d", r.Prefill, r.Decode)
}
