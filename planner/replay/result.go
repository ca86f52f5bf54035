package replay

import (
	"time"

	"plimsoll/engine/sim/fleet"
	"plimsoll/planner"
	"plimsoll/profile"
)

// Result is what a replay took and gave. Requests are those that arrived in
// Scenario.Length: Requests = Finished + Rejected + Refused + Unfinished.
type Result struct {
	Provenance profile.Provenance `json:"provenance"`
	Length     time.Duration      `json:"length_ns"`

	Requests   int64 `json:"requests"`
	Finished   int64 `json:"finished"`
	Rejected   int64 `json:"rejected"`   // too long for an engine
	Refused    int64 `json:"refused"`    // came when as many were in flight as may be
	Unfinished int64 `json:"unfinished"` // when the drain ended

	Attainment Attainment `json:"attainment"`
	// UnderSLO is the share of the windows, minutes with arrivals, in which at least
	// DefaultTarget of them met both; 1 of none.
	UnderSLO float64 `json:"time_under_slo"`
	Windows  int     `json:"windows"`

	// Per second of Length: requests that met both, and their output tokens.
	GoodRequests float64 `json:"goodput_requests"`
	GoodTokens   float64 `json:"goodput_tokens"`
	// TTFT is of requests that got a first token, E2E and TPOT of finished ones, Gaps
	// between tokens.
	TTFT profile.Distribution `json:"-"`
	Gaps profile.Distribution `json:"-"`
	TPOT profile.Distribution `json:"-"`
	E2E  profile.Distribution `json:"-"`

	GPUHours float64      `json:"gpu_hours"` // from decision to process exit, or Length
	Pools    []PoolResult `json:"pools"`

	Decisions int `json:"decisions"`
	Unseen    int `json:"decisions_without_metrics"`
	HeldBack  int `json:"decisions_held_back_by_budget"`
	Scales    int `json:"scalings"` // decisions that changed what is asked for

	Timeline []Point `json:"timeline"`
	// Events are the changes of each pool's size.
	Events   []fleet.ScaleEvent `json:"-"`
	Warnings []profile.Warning  `json:"warnings,omitempty"`
}

// Attainment is the share of requests that met the SLA, from 0 to 1; 1 of none.
type Attainment struct {
	TTFT float64 `json:"ttft"`
	ITL  float64 `json:"itl"` // by a request's mean gap, its TPOT
	Both float64 `json:"both"`
}

// PoolResult is what a pool took.
type PoolResult struct {
	Role     planner.Role `json:"role"`
	GPUHours float64      `json:"gpu_hours"`
	Ups      int          `json:"ups"` // decisions that asked for more
	Downs    int          `json:"downs"`
	Most     int          `json:"most"` // replicas asked for
	Least    int          `json:"least"`
}

// Point is a span of the timeline. Requests count where they arrived.
type Point struct {
	From     time.Duration `json:"from_ns"`
	To       time.Duration `json:"to_ns"`
	Arrivals int64         `json:"arrivals"`
	MetTTFT  int64         `json:"met_ttft"`
	MetITL   int64         `json:"met_itl"`
	MetBoth  int64         `json:"met_both"`
	Pools    []PoolPoint   `json:"pools"`
}

// Attainment is that of the requests that arrived in the span.
func (p Point) Attainment() Attainment {
	return shares(p.Arrivals, p.MetTTFT, p.MetITL, p.MetBoth)
}

// PoolPoint is a pool at the end of a span, before what is decided there.
type PoolPoint struct {
	Wanted   int     `json:"wanted"`
	Ready    int     `json:"ready"`
	Starting int     `json:"starting"`
	Draining int     `json:"draining"`
	GPUs     float64 `json:"gpus"` // held, mean over the span
}

func shares(of, ttft, itl, both int64) Attainment {
	if of == 0 {
		return Attainment{1, 1, 1}
	}
	n := float64(of)
	return Attainment{float64(ttft) / n, float64(itl) / n, float64(both) / n}
}

// take adds what a report says.
func (r *Result) take(f fleet.Report) {
	r.Provenance, r.Warnings, r.Events = f.Provenance, f.Warnings, f.Scales
	r.TTFT, r.Gaps, r.TPOT, r.E2E = f.TTFT.Distribution(), f.ITL.Distribution(), f.TPOT.Distribution(), f.E2E.Distribution()
}
