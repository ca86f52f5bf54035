package recommend

import (
	"fmt"
	"math"
	"slices"
	"time"

	"plimsoll/engine"
	"plimsoll/engine/field"
	"plimsoll/profile"
)

// A load's figures stand for the recommended rate if its own rate, over that, is between these.
const (
	nearBelow = 0.85
	nearRate  = 1.05
)

// Near reports whether the figures of a load at a rate stand for the recommended one.
func Near(rate, recommended float64) bool {
	return rate >= nearBelow*recommended && rate <= nearRate*recommended
}

// Elsewhere says that no load was near the rate of a feasible candidate, and what the load
// that stands for it had; empty where one was.
func (c Candidate) Elsewhere(sla profile.SLA) string {
	p := c.Point
	if !c.Feasible || c.Bracket == nil || Near(p.Rate, c.RPS) {
		return ""
	}
	ms := profile.Milliseconds
	return fmt.Sprintf("no load was near %.3g requests/s; at %.3g, %s TTFT was %.4g ms and ITL %.4g ms",
		c.RPS, p.Rate, sla.Stat, ms(p.Load.TTFT.At(sla.Stat)), ms(p.Load.TPOT.At(sla.Stat)))
}

// bracket applies HighestRate to each configuration whose search began with a burst, and marks
// the loads up to its lower end as feasible. One of them stands for the recommended rate.
func (ch *Choice) bracket(points []profile.Point, sla profile.SLA) {
	done := map[string]bool{}
	for _, p := range points {
		label := p.Config.Label()
		if !IsBurst(p) || p.Load.LimitTTFT != sla.TTFT || p.Load.LimitITL != sla.ITL || done[label] {
			continue
		}
		done[label] = true
		var own []profile.Point
		for _, q := range points {
			if q.Config.Label() == label {
				own = append(own, q)
			}
		}
		ch.within(label, HighestRate(own, sla))
	}
	for _, c := range ch.All { // requests one at a time hold, and the search ended before anything else
		label := c.Label()
		loaded := slices.ContainsFunc(points, func(p profile.Point) bool { return p.Config.Label() == label && p.Rate > 0 })
		if !done[label] && !loaded && fits(c.Point, sla) {
			ch.within(label, Bracket{AtMost: math.Inf(1)})
		}
	}
}

// within applies a bracket to a configuration's loads.
func (ch *Choice) within(label string, b Bracket) {
	stands := -1
	for i, c := range ch.All {
		if c.Label() != label {
			continue
		}
		c.Feasible, c.RPS, c.Sustained, c.Bracket = false, 0, 0, &b
		if ch.All[i] = c; b.AtLeast <= 0 || c.Point.Rate <= 0 {
			continue
		}
		if c.Point.Rate <= b.AtLeast*nearRate {
			ch.All[i].Feasible, ch.All[i].RPS = true, min(c.Point.Rate, b.AtLeast)
		}
		if stands < 0 || standsBetter(c.Point.Rate, ch.All[stands].Point.Rate, b.AtLeast) {
			stands = i
		}
	}
	if stands < 0 {
		return
	}
	c := &ch.All[stands]
	c.Feasible, c.RPS, c.Utilization = true, b.AtLeast, 1
	ratio := b.AtLeast / c.Point.Rate
	c.Point.ThroughputPerGPU *= ratio
	c.Sustained = c.Point.ThroughputPerGPU
	if !Near(c.Point.Rate, b.AtLeast) { // by Little's law, of about as long a stay
		c.Point.InFlight, c.Point.KVUsage, c.Margin = ratio*c.Point.InFlight, min(1, ratio*c.Point.KVUsage), 0
	}
}

// knows reports whether a configuration's rate is between two that are known.
func (ch Choice) knows(label string) bool {
	return slices.ContainsFunc(ch.All, func(c Candidate) bool { return c.Bracket != nil && c.Label() == label })
}

// wideBracket is the code of a bracket that is wide.
const wideBracket = "wide_bracket"

// Wide reports whether the ends are more than ± 30 % apart, or not both known.
func (b Bracket) Wide() bool { return b.Width() > 1.67 }

// wide warns if the bracket is wide.
func (ch Choice) wide() []profile.Warning {
	b := ch.Picked.Bracket
	if !ch.Feasible || !b.Wide() {
		return nil
	}
	return []profile.Warning{profile.Warnf(wideBracket, "%s: of %s, %s hold the SLA. More load brings these nearer to each other: go on with "+field.Resume,
		ch.Phase, ch.Picked.Label(), BracketWords(b.AtLeast, b.AtMost)).By(min(b.Width(), 100))}
}

// refused warns that the server refused some of the pick's burst, and tells of the largest of
// which it did not.
func (ch Choice) refused(points []profile.Point) []profile.Warning {
	var least, most *profile.Point
	for _, p := range points {
		switch {
		case !IsBurst(p) || p.Config.Label() != ch.Picked.Label():
		case p.Failures == 0 && (most == nil || p.Asked > most.Asked):
			most = &p
		case refuses(p) && (least == nil || p.Asked < least.Asked):
			least = &p
		}
	}
	if least == nil || most == nil {
		return nil
	}
	return []profile.Warning{profile.Warnf("refused", "%s: the server refused %d of %d requests with %d at once, and none with %d. If clients keep to fewer, measure with "+field.MaxInFlight+" %[5]d",
		ch.Phase, least.Failures, least.Requests, least.Asked, most.Asked)}
}

// queuedAlone warns that requests sent to somebody's server one at a time may have waited for
// those of others.
func (ch Choice) queuedAlone(sla profile.SLA) []profile.Warning {
	p := ch.Picked.Point
	if ch.Feasible || p.Config.Kind != engine.KindEndpoint || p.Rate > 0 || p.Load.TTFT.At(sla.Stat) <= sla.TTFT || p.Load.TPOT.At(sla.Stat) > sla.ITL {
		return nil
	}
	return []profile.Warning{profile.Warnf("queued_alone",
		"one request at a time has its first token after %.4g ms, though ITL holds. If others use the server, it waited for them: stop them and start over with "+field.Force, profile.Milliseconds(p.Load.TTFT.P50))}
}

// standsBetter reports whether a load at rate a stands for a rate better than one at b: the
// highest up to it, or else the nearest above.
func standsBetter(a, b, rate float64) bool {
	in := func(x float64) bool { return x <= rate*nearRate }
	switch {
	case in(a) != in(b):
		return in(a)
	case in(a):
		return a > b
	}
	return a < b
}

// Bracket is between which rates, in requests/s of one engine of the pick's configuration,
// the highest lies that holds the SLA: the highest that holds, 0 where none is known to,
// and the least above it that does not, infinite where none is known. It is of aggregated
// engines.
func (ch Choice) Bracket(sla profile.SLA) (atLeast, atMost float64) {
	if len(ch.All) == 0 || ch.Phase != profile.Aggregated {
		return 0, math.Inf(1)
	}
	if b := ch.Picked.Bracket; b != nil {
		return b.AtLeast, b.AtMost
	}
	label := ch.Picked.Label()
	for _, c := range ch.All {
		if c.Feasible && c.Label() == label {
			atLeast = max(atLeast, c.RPS)
		}
	}
	return atLeast, missedAbove(ch.All, label, atLeast, sla)
}

// MostOf is the highest rate of the pick's configuration at which profile.MostRequests of
// requests are within the SLA's limits, by all of its loads.
func (ch Choice) MostOf(points []profile.Point, sla profile.SLA) float64 {
	sla.Stat = profile.P95
	var own []profile.Point
	for _, p := range points {
		if p.Config.Label() == ch.Picked.Label() {
			own = append(own, p)
		}
	}
	return HighestRate(own, sla).AtLeast
}

// Needs is for how long an engine would have to be loaded for a rate to be named that holds;
// 0 where nothing is known of the rate.
func (b Bracket) Needs(stat profile.Statistic) time.Duration {
	if b.Likely == 0 {
		return 0
	}
	return time.Duration(float64(profile.SamplesFor(stat)) / b.Likely * float64(time.Second)).Round(time.Minute)
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
		low, high := ch.Bracket(sla)
		if low == 0 && math.IsInf(high, 1) {
			return ch.Picked.Label() + ": " + BracketWords(low, high)
		}
		return fmt.Sprintf("%s: %s hold the SLA so far", ch.Picked.Label(), BracketWords(low, high))
	case ch.Feasible:
		return fmt.Sprintf("%s: %s holds the SLA so far, at %.3g requests/s", ch.Phase, ch.Picked.Label(), ch.Picked.RPS)
	}
	return fmt.Sprintf("%s: nothing holds the SLA so far", ch.Phase)
}

// Open reports whether nobody knows yet if a rate holds: too few requests were judged at
// any, and requests one after the other do not miss.
func (ch Choice) Open(sla profile.SLA) bool {
	if ch.Feasible || len(ch.All) == 0 || ch.Picked.Bracket == nil {
		return false
	}
	for _, c := range ch.All {
		if c.Point.Rate == 0 && c.Label() == ch.Picked.Label() && !fits(c.Point, sla) {
			return false
		}
	}
	return true
}

// whyOpen says why nobody knows, and what is known.
func (ch Choice) whyOpen(points []profile.Point, sla profile.SLA) string {
	b := *ch.Picked.Bracket
	switch silent := Silent(points); {
	case silent != "":
		return "undecided: no load says anything of the rate: " + silent
	case b.Failures > 0:
		return fmt.Sprintf("undecided: %d of %d requests failed, more than the %.4g %% allowed, and no lower rate with fewer failures is known: %s",
			b.Failures, b.Requests, 100*sla.MaxFailures, BracketWords(b.AtLeast, b.AtMost))
	}
	return "undecided: too few requests were judged to name a rate that holds: " + BracketWords(b.AtLeast, b.AtMost)
}
