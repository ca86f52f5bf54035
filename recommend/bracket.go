package recommend

import (
	"fmt"
	"math"

	"plimsoll/profile"
)

// Bracket is between which rates, in requests/s of one engine of the pick's configuration,
// the highest lies that holds the SLA: the highest that was seen to hold, 0 where none was,
// and the least above it that missed, infinite where none did. It is of aggregated engines.
func (ch Choice) Bracket(sla profile.SLA) (atLeast, atMost float64) {
	if len(ch.All) == 0 || ch.Phase != profile.Aggregated {
		return 0, math.Inf(1)
	}
	label := ch.Picked.Label()
	for _, c := range ch.All {
		if c.Feasible && c.Label() == label {
			atLeast = max(atLeast, c.RPS)
		}
	}
	return atLeast, missedAbove(ch.All, label, atLeast, sla)
}

// BracketWords are a bracket in a phrase: "at least 5, at most 7.1 requests/s".
func BracketWords(atLeast, atMost float64) string {
	switch none := math.IsInf(atMost, 1); {
	case atLeast > 0 && none:
		return fmt.Sprintf("at least %.3g requests/s", atLeast)
	case atLeast > 0:
		return fmt.Sprintf("at least %.3g, at most %.3g requests/s", atLeast, atMost)
	case none:
		return "no rate was tried long enough to tell"
	}
	return fmt.Sprintf("at most %.3g requests/s", atMost)
}

// SoFar is what a search that did not end knows; empty where that is nothing.
func (ch Choice) SoFar(sla profile.SLA) string {
	switch {
	case len(ch.All) == 0:
		return ""
	case ch.Phase == profile.Aggregated:
		return fmt.Sprintf("%s holds the SLA at %s so far", ch.Picked.Label(), BracketWords(ch.Bracket(sla)))
	case ch.Feasible:
		return fmt.Sprintf("%s: %s holds the SLA so far, at %.3g requests/s", ch.Phase, ch.Picked.Label(), ch.Picked.RPS)
	}
	return fmt.Sprintf("%s: nothing holds the SLA so far", ch.Phase)
}
