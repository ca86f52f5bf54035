package main

import (
	"strings"

	"plimsoll/planner/replay"
	"plimsoll/plots/pages"
)

// page is the comparison as one HTML file.
func (c comparison) page(f replayFile) pages.Replay {
	r := pages.Replay{
		Origin: pages.Origin{
			Title:      "Policies on " + c.loadName(),
			Provenance: f.Provenance, Virtual: true, Version: f.Version, Command: f.Command,
		},
		Seeds: len(f.Seeds), Target: replay.DefaultTarget, Terms: replayTerms(), NotModelled: f.NotModelled,
	}
	for _, line := range c.head(f)[1:] { // the first says the provenance
		name, text, _ := strings.Cut(line, ": ")
		r.Facts = append(r.Facts, pages.Fact{Name: name, Text: text})
	}
	for _, w := range f.Warnings {
		r.Warnings = append(r.Warnings, pages.Warning{Warning: w})
	}
	for _, p := range f.Policies {
		for _, w := range p.Warnings {
			r.Warnings = append(r.Warnings, pages.Warning{Warning: w, Of: p.Name})
		}
	}
	for i, p := range f.Policies {
		r.Policies = append(r.Policies, c.pageOf(p, c.outcomes[i], c.hindsight.plan && i == 0))
	}
	return r
}

func (c comparison) pageOf(p replayPolicyFile, x outcomeOf, plan bool) pages.Policy {
	first := x.results[0]
	points := wholePoints(first)
	out := pages.Policy{
		Name: p.Name, About: p.begins(), Clairvoyant: plan, Replicas: x.between(),
		Both: pages.Figure(p.Both), TTFT: pages.Figure(p.TTFT), ITL: pages.Figure(p.ITL), UnderSLO: pages.Figure(p.UnderSLO),
		GoodRequests: pages.Figure(p.GoodRequests), GoodTokens: pages.Figure(p.GoodTokens), GPUHours: pages.Figure(p.GPUHours), Scalings: pages.Figure(p.Scalings), OverPlan: (*pages.Figure)(p.OverPlan),
		Timeline: pages.Timeline{Start: points[0].From, Width: points[0].To - points[0].From, Panels: replayPanels(first, points)},
	}
	if a := p.Against; a != nil && c.options.seeds > 1 {
		out.Against = &pages.Difference{Policy: a.Policy, Both: pages.Figure(a.Both), GPUHours: pages.Figure(a.GPUHours)}
	}
	return out
}
