package recommend

import (
	"math"

	"plimsoll/profile"
)

// undecidedRate is the code of a rate of which loads do not say whether it holds.
const undecidedRate = "undecided_rate"

// undecided says what the loads of aggregated engines leave open: of which
// configurations a rate that might be better than what was seen to hold, and whether
// the pick's surely holds.
func (ch Choice) undecided(points []profile.Point, sla profile.SLA) (ws []profile.Warning) {
	seen := map[string]bool{}
	for _, p := range points {
		label := p.Config.Parallelism.Label()
		if p.Phase != profile.Aggregated || seen[label] {
			continue
		}
		seen[label] = true
		if o, ok := leastUntold(points, label, ch.held(label), sla); ok && o.Rate < missedAbove(ch.All, label, ch.held(label), sla) {
			ws = append(ws, profile.Warnf(undecidedRate, "%s: whether %s holds %.4g requests/s is undecided, so that it may be better than it seems: %s",
				ch.Phase, label, o.Rate, o.Untold(sla)))
		}
	}
	p := ch.Picked.Point
	if !ch.Feasible || p.Load.Surely(p.Phase, sla) {
		return ws
	}
	why := "the 95 % interval of what was seen holds the limit"
	if p.Load.TooShort(p.Phase, sla) {
		why = "which hang together, no 95 % interval can be given"
	}
	return append(ws, profile.Warnf(undecidedRate, "%s: that the pick %s holds %.4g requests/s is undecided: by the %d requests that were judged, %s",
		ch.Phase, ch.Picked.Label(), p.Rate, p.Load.Requests, why))
}

// held is the highest rate that a configuration holds, 0 where it holds none.
func (ch Choice) held(label string) (rate float64) {
	for _, c := range ch.All {
		if c.Feasible && c.Label() == label {
			rate = max(rate, c.Point.Rate)
		}
	}
	return rate
}

// leastUntold is the load of a configuration at the least rate above another that says
// nothing.
func leastUntold(points []profile.Point, label string, rate float64, sla profile.SLA) (least profile.Point, found bool) {
	for _, p := range points {
		if p.Phase == profile.Aggregated && p.Load != nil && p.Config.Parallelism.Label() == label &&
			p.Rate > rate && p.Untold(sla) != "" && (!found || p.Rate < least.Rate) {
			least, found = p, true
		}
	}
	return least, found
}

// missedAbove is the least rate above another at which a configuration did not hold,
// +Inf where there is none.
func missedAbove(all []Candidate, label string, rate float64, sla profile.SLA) float64 {
	missed := math.Inf(1)
	for _, c := range all {
		if p := c.Point; c.Label() == label && p.Rate > rate && !c.Feasible && p.Untold(sla) == "" {
			missed = min(missed, p.Rate)
		}
	}
	return missed
}
