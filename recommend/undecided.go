package recommend

import (
	"fmt"
	"math"
	"strings"

	"plimsoll/engine"
	"plimsoll/profile"
)

// The codes of a rate, and of requests in flight, of which measurements do not say
// whether they hold.
const (
	undecidedRate  = "undecided_rate"
	undecidedCount = "undecided_count"
)

// leftOpen are the loads that might show a configuration to be better than it seems: of
// each the least above what was seen to hold and below what missed whose measurement
// says nothing of the engine.
func (ch Choice) leftOpen(points []profile.Point, sla profile.SLA) (open []profile.Point) {
	seen := map[string]bool{}
	for _, p := range points {
		label := p.Config.Label()
		if p.Phase != ch.Phase || seen[label] || ch.knows(label) {
			continue
		}
		seen[label] = true
		held := ch.held(label)
		if o, ok := leastUntold(points, ch.Phase, label, held, sla); ok && loadOf(o) < missedAbove(ch.All, label, held, sla) {
			open = append(open, o)
		}
	}
	return open
}

// loadOf is what a configuration's points are ordered by: requests/s of open-loop
// loads, requests in flight of others.
func loadOf(p profile.Point) float64 {
	if p.Phase == profile.Aggregated {
		return p.Rate
	}
	return float64(p.Asked)
}

// undecided warns of what is left open.
func (ch Choice) undecided(open []profile.Point, sla profile.SLA) (ws []profile.Warning) {
	for _, p := range open {
		code, what := undecidedCount, fmt.Sprintf("meets the SLA at %d in flight", p.Asked)
		if p.Phase == profile.Aggregated {
			code, what = undecidedRate, fmt.Sprintf("holds %.4g requests/s", p.Rate)
		}
		ws = append(ws, profile.Warnf(code, "%s: %s may be better than shown. Whether it %s is undecided: %s",
			ch.Phase, p.Config.Label(), what, p.Untold(sla)))
	}
	return ws
}

// labels are the configurations of points but for one.
func labels(points []profile.Point, but string) (ls []string) {
	for _, p := range points {
		if l := p.Config.Label(); l != but {
			ls = append(ls, l)
		}
	}
	return ls
}

// withOpen is why something was picked, and over which configurations that says nothing.
func withOpen(why string, open []string) string {
	if len(open) == 0 {
		return why
	}
	return fmt.Sprintf("%s; %s may do better (undecided)", why, strings.Join(open, ", "))
}

// undecidedPick warns of an aggregated pick whose load might miss in another.
func (ch Choice) undecidedPick(sla profile.SLA) []profile.Warning {
	p := ch.Picked.Point
	if ch.Picked.Bracket != nil {
		return ch.wide()
	}
	if !ch.Feasible || p.Load.Surely(p.Phase, sla) {
		return nil
	}
	why := ", whose 95 % interval includes the limit"
	if p.Load.TooShort(p.Phase, sla) {
		why = ", too correlated for a 95 % interval"
	}
	return []profile.Warning{profile.Warnf(undecidedRate, "%s: the pick %s at %.4g requests/s is too close to the SLA to call (%s%s)",
		ch.Phase, ch.Picked.Label(), p.Rate, engine.Count(p.Load.Requests, "request"), why)}
}

// held is the highest load that a configuration holds, 0 where it holds none.
func (ch Choice) held(label string) (load float64) {
	for _, c := range ch.All {
		if c.Feasible && c.Label() == label {
			load = max(load, loadOf(c.Point))
		}
	}
	return load
}

// leastUntold is the measurement of a configuration at the least load above another
// that says nothing.
func leastUntold(points []profile.Point, phase profile.Phase, label string, load float64, sla profile.SLA) (least profile.Point, found bool) {
	for _, p := range points {
		if p.Phase == phase && p.Config.Label() == label && (p.Load != nil || phase != profile.Aggregated) &&
			loadOf(p) > load && p.Untold(sla) != "" && (!found || loadOf(p) < loadOf(least)) {
			least, found = p, true
		}
	}
	return least, found
}

// missedAbove is the least load above another at which a configuration did not hold,
// +Inf where there is none.
func missedAbove(all []Candidate, label string, load float64, sla profile.SLA) float64 {
	missed := math.Inf(1)
	for _, c := range all {
		if p := c.Point; c.Label() == label && loadOf(p) > load && !c.Feasible && p.Untold(sla) == "" {
			missed = min(missed, loadOf(p))
		}
	}
	return missed
}
