package main

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"plimsoll/engine"
	"plimsoll/profile"
	"plimsoll/profile/store"
	"plimsoll/sweep"
)

// costText is a sweep's cost in one line.
func costText(c sweep.Cost) string {
	loading := ""
	if c.LoadingSeconds > 0 {
		loading = fmt.Sprintf(" (%.0f without loading)", c.Measuring())
	}
	return fmt.Sprintf("%s, %.0f engine-seconds%s, %.0f GPU-seconds, %s, %s, %s",
		engine.Count(c.Launches, "launch"), c.EngineSeconds, loading, c.GPUSeconds, engine.Count(c.Requests, "request"), engine.Count(c.PromptTokens, "prompt token"), engine.Count(c.OutputTokens, "output token"))
}

// costLine says what a profile has cost; of engines in virtual time, what they
// would have been asked for.
func costLine(b *bytes.Buffer, c sweep.Cost, k engine.Kind) {
	what := "Cost"
	if k == engine.KindEstimate {
		what = "Cost in virtual time"
	}
	fmt.Fprintf(b, "%s: %s\n", what, costText(c))
}

// stageNames are the stages of a profile as its cost names them, in their order.
var stageNames = []struct {
	stage profile.Stage
	name  string
}{{profile.StageSweep, "search"}, {profile.StageVerify, "run under load"}, {profile.StageSurface, "surfaces"}}

// stageLine says what each stage of a profile had of its cost.
func stageLine(b *bytes.Buffer, by map[profile.Stage]store.Cost) {
	var parts []string
	for _, s := range stageNames {
		if c, ok := by[s.stage]; ok {
			parts = append(parts, fmt.Sprintf("%s %.0f engine-seconds, %s", s.name, c.EngineSeconds, engine.Count(c.Requests, "request")))
		}
	}
	if len(parts) > 0 {
		fmt.Fprintf(b, "  of these: %s\n", strings.Join(parts, "; "))
	}
}

// searchCost is what a search is expected to cost, without loading; seconds are 0
// where no latency model knows them.
type searchCost struct {
	Search  sweep.Search `json:"search"`
	Cost    sweep.Cost   `json:"cost"`
	Unrated bool         `json:"more,omitempty"` // Cost is without loads whose rates nobody knows
}

func newSearchCost(so sweep.Options) searchCost {
	plan := sweep.Plan(so)
	return searchCost{so.Search, sweep.Total(plan), slices.ContainsFunc(plan, func(s sweep.Step) bool { return s.Unrated })}
}

// more goes before a sum that lacks such loads.
func (c searchCost) more() string {
	if c.Unrated {
		return "more than "
	}
	return ""
}

// searchCosts are those of the search that was asked for and of the other; nil in
// aggregated mode, which has none.
func searchCosts(so sweep.Options) (chosen searchCost, other *searchCost) {
	chosen = newSearchCost(so)
	if so.Open.Mode == sweep.Aggregated {
		return chosen, nil
	}
	elsewhere := so
	if elsewhere.Search = sweep.Grid; so.Search == sweep.Grid {
		elsewhere.Search = sweep.Adaptive
	}
	elsewhere.Open.Verify = so.Open.Verify && elsewhere.Search == sweep.Adaptive // as --verify auto
	return chosen, new(newSearchCost(elsewhere))
}

// planFactor is how far the plan of the adaptive search may be off what it then
// costs, either way, by a latency model and without verification: it holds on each
// deployment of TestAdaptiveAgainstGrid.
const planFactor = 2.5

// expected prints it; known says whether there is a latency model.
func (c searchCost) expected(b *bytes.Buffer, what string, known bool) {
	text := costText(c.Cost)
	if !known {
		text = fmt.Sprintf("%s, %s%s, %s, %s", engine.Count(c.Cost.Launches, "launch"), c.more(), engine.Count(c.Cost.Requests, "request"), engine.Count(c.Cost.PromptTokens, "prompt token"), engine.Count(c.Cost.OutputTokens, "output token"))
	}
	off := ""
	if c.Search == sweep.Adaptive && known {
		off = fmt.Sprintf(" (the search to a factor of %g)", planFactor)
	}
	fmt.Fprintf(b, "--search %s %s about %s%s\n", c.Search, what, text, off)
}
