package store

import (
	"fmt"
	"slices"
	"strings"

	"plimsoll/engine/field"
	"plimsoll/profile"
)

// The codes of Caveats.
const (
	ProfileInfeasible = "profile_infeasible"
	ProfileMissed     = "profile_missed"
)

// Caveats are what whoever builds on the picks has to be told: first that figures
// behind them cannot be right (profile.Implausible), then that they are no answer,
// because nothing met the SLA and they are the nearest, or because they missed it when
// they were run under load. Nil where there is nothing to tell.
func (r Recommendation) Caveats() []profile.Warning {
	ws := profile.Implausible(r.Warnings)
	for i := range ws {
		ws[i].Message = "the profile's figures are implausible: " + ws[i].Message
	}
	if r.Feasible {
		return ws
	}
	return append(ws, r.infeasible()...)
}

// infeasible says why the picks are no answer.
func (r Recommendation) infeasible() []profile.Warning {
	var ws []profile.Warning
	for _, x := range r.Picks() {
		switch {
		case x.Run != nil && !x.Run.Holds:
			ws = append(ws, profile.Warnf(ProfileMissed, "the profile's %s pick %s misses its own SLA (%s) under load: %.1f %% of requests met it at %.4g requests/s, the lowest rate tried",
				x.Phase, x.Label, r.SLA.of(x.Phase), 100*x.Run.Within, x.Run.RateRPS))
		case x.Margin < 0:
			ws = append(ws, profile.Warnf(ProfileInfeasible, "nothing in the profile meets its own SLA in %s (%s). The nearest, %s, is %.3g %% above it",
				x.Phase, r.SLA.of(x.Phase), x.Label, -100*x.Margin))
		}
	}
	if len(ws) == 0 { // the file does not say by which pick
		ws = append(ws, profile.Warnf(ProfileInfeasible, "nothing in the profile meets its own SLA (%s). Its picks are the nearest", r.SLA.of(profile.Aggregated)))
	}
	return ws
}

// ProfileDoubts is the code of Doubts.
const ProfileDoubts = "profile_doubts"

// Doubts are what the profile itself warns of its figures, in one line for whoever
// builds on them: how many warnings there are, and the first, which is the most
// important. Nil where there is nothing.
func (r Recommendation) Doubts() []profile.Warning {
	ws := slices.DeleteFunc(slices.Clone(r.Warnings), func(w profile.Warning) bool { // Caveats has those that are implausible; a tie makes no figure less certain
		return w.Implausible() || w.Code == "tied"
	})
	switch len(ws) {
	case 0:
		return nil
	case 1:
		return []profile.Warning{profile.Warnf(ProfileDoubts, "the profile has a warning: %s", ws[0].Message)}
	}
	return []profile.Warning{profile.Warnf(ProfileDoubts, "the profile has %d warnings, which plimsoll report on its folder shows. The most important: %s", len(ws), ws[0].Message)}
}

// OtherStat warns where the profile's picks hold the SLA by another statistic than what is
// built on it; an empty one is by none.
func (r Recommendation) OtherStat(by profile.Statistic) []profile.Warning {
	if by == "" || r.SLA.Stat == "" || by == r.SLA.Stat {
		return nil
	}
	return []profile.Warning{profile.Warnf("other_stat", "the profile's picks hold the SLA by the %s, but this plans by the %s. Profile with "+field.SLAStat+" %[2]s to match", r.SLA.Stat, by)}
}

// of is what the SLA limits in a phase, in words.
func (s SLA) of(phase profile.Phase) string {
	var limits []string
	if phase != profile.Decode {
		limits = append(limits, fmt.Sprintf("%s TTFT ≤ %.6g ms", s.Stat, s.TTFTMillis))
	}
	if phase != profile.Prefill {
		limits = append(limits, fmt.Sprintf("%s ITL ≤ %.6g ms", s.Stat, s.ITLMillis))
	}
	return strings.Join(limits, ", ")
}
