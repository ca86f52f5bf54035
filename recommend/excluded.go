package recommend

import (
	"fmt"

	"plimsoll/profile"
)

// The metrics of points that are not compared at all.
const (
	metricFailures  = "failures"
	metricInvalid   = "invalid"
	metricUndecided = "undecided"
)

// excluded says why a point cannot be compared, where it cannot: it has no
// latency, its figures are not the engine's, or its percentile is undecided.
func excluded(p profile.Point, sla profile.SLA) (Rejected, bool) {
	r := Rejected{Phase: p.Phase, Label: p.Config.Label(), InFlight: float64(p.Asked)}
	switch {
	case p.Invalid != "":
		r.Metric, r.Value = metricInvalid, profile.Milliseconds(p.Latency(sla))
		r.Reason = "invalid: " + p.Invalid
	case p.Latency(sla) <= 0 || p.ThroughputPerGPU <= 0:
		r.Metric, r.Value = metricFailures, float64(p.Failures)
		r.Reason = p.Unmeasurable()
	case sla.Unsure(p.Failures, p.Requests) != "":
		r.Metric, r.Value = metricFailures, float64(p.Failures)
		r.Reason = sla.Unsure(p.Failures, p.Requests)
	case !p.FailsTooOften && p.Undecided(sla):
		r.Metric, r.Value = metricUndecided, p.Samples(sla)
		r.Reason = fmt.Sprintf("too few samples to judge %s %s: %.0f independent ones, %d needed", sla.Stat, metricName(p.Phase), p.Samples(sla), sla.Needed(p.Phase))
	default:
		return Rejected{}, false
	}
	return r, true
}

// Uncompared reports whether the candidate's figures were not the engine's, or
// too few to say anything of, so that it was held against nothing.
func (r Rejected) Uncompared() bool { return r.Metric == metricInvalid || r.Metric == metricUndecided }

// nothing is the error where no point can be compared.
func nothing(rs []Rejected, sla profile.SLA) error {
	most := -1.0
	var phase profile.Phase
	for _, r := range rs {
		if r.Metric == metricUndecided && r.Value > most {
			most, phase = r.Value, r.Phase
		}
	}
	if most < 0 {
		return ErrNoPoints
	}
	return fmt.Errorf("%w: %s %s is %w at every measured point. It needs %d independent samples; the most were %.0f",
		ErrNoPoints, sla.Stat, metricName(phase), ErrUndecided, sla.Needed(phase), most)
}
