package main

import (
	"strings"

	"plimsoll/plots/pages"
	"plimsoll/profile"
	"plimsoll/profile/store"
	"plimsoll/recommend"
)

// endingOf is what a profile comes to, as its page shows it: what the terminal says.
func endingOf(run store.Run, rec store.Recommendation) pages.Ending {
	e := pages.Ending{Recommended: map[profile.Phase]pages.Recommended{}}
	e.Suggested = append(recommendedLines(rec), suggestedLines(rec)...)
	for _, x := range rec.Picks() {
		r := pages.Recommended{Rate: x.SustainedRPS, UnderLoad: loadVerdict(x.Pick)}
		if x.Run != nil {
			r.Verified, r.Missed = strings.Join(attainedFigures(x.Run, rec.SLA), ", "), !x.Run.Holds
		}
		e.Recommended[x.Phase] = r
	}
	if rec.Feasible {
		return e
	}
	for _, line := range shortfallLines(choicesOf(run, rec), run.SLA) {
		e.Shortfall = append(e.Shortfall, strings.TrimSpace(line))
	}
	e.Infeasible = "what is shown is the nearest candidate, not an answer"
	if len(e.Shortfall) == 0 {
		e.Infeasible = "a pick missed its SLA under load at every tried rate, so there is no answer"
	}
	return e
}

// choicesOf are the picks of a run again, for its own SLA.
func choicesOf(run store.Run, rec store.Recommendation) (all []recommend.Choice) {
	add := func(ch recommend.Choice, err error) {
		if err == nil {
			all = append(all, ch)
		}
	}
	points := chosenFrom(run)
	if rec.Mode == store.Aggregated {
		add(recommend.ChooseAggregated(points, run.SLA))
		return all
	}
	for _, phase := range []profile.Phase{profile.Prefill, profile.Decode} {
		add(recommend.Choose(phase, points, run.SLA, rankOf(run), rec.Workload.OSL))
	}
	return all
}

// ttftErrors are the latency model's errors of TTFT, of aggregated engines by slug.
func ttftErrors(run store.Run) map[string]profile.ModelError {
	out := map[string]profile.ModelError{}
	for _, e := range run.Engines {
		if slug, is := strings.CutPrefix(e.Key, string(profile.Aggregated)+"/"); is && e.TTFTError.Known() {
			out[slug] = e.TTFTError
		}
	}
	return out
}
