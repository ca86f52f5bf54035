package recommend

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"plimsoll/engine"
	"plimsoll/profile"
)

// fewRequests is the metric of loads whose percentile rests on too few of them.
const fewRequests = "requests"

// ChooseAggregated picks among the loads of aggregated engines: of each
// configuration the highest rate whose TTFT and ITL both hold, by their intervals
// where those of one do (the highest that held by chance is no rate that holds), and of
// those the
// one with most output tokens/s/GPU. The least rate above it that missed gives the
// upper end of its interval. A rate whose load says nothing (see profile.Point.Untold)
// neither holds nor misses, which is said. Points without a load are rejected; if no
// request was served at any, the error is ErrNoPoints.
func ChooseAggregated(points []profile.Point, sla profile.SLA) (Choice, error) {
	ch := Choice{Phase: profile.Aggregated, Rank: BySingle}
	for _, p := range points {
		if p.Phase != profile.Aggregated {
			continue
		}
		if p.Invalid != "" || p.Load == nil || p.Load.TTFT.N == 0 || p.ThroughputPerGPU <= 0 {
			ch.Rejected = append(ch.Rejected, unserved(p))
			continue
		}
		if !IsBurst(p) {
			ch.All = append(ch.All, aggregated(p, sla))
		}
	}
	if len(ch.All) == 0 {
		return ch, ErrNoPoints
	}
	ch.bracket(points, sla)
	firmOnly(ch.All, sla)
	ch.endRates(sla)
	best, open := highestHeld(ch.All), ch.leftOpen(points, sla)
	if ch.Feasible = best >= 0; ch.Feasible {
		ch.Why = ch.All[best].WithEnd(whyAggregated(ch.All, best, labels(open, ch.All[best].Label())))
	} else {
		best = leastExcess(ch.All, sla)
		ch.Why = "one request at a time holds the SLA, but no tried rate does"
		if s, short := shortAggregated(ch.All[best].Point, sla); short {
			ch.Why = s.String()
		}
	}
	ch.Picked = bracketed(ch.All, best, sla)
	if ch.Open(sla) {
		ch.Why = ch.whyOpen(points, sla)
	} else if other := ch.Picked.Elsewhere(sla); other != "" {
		ch.Why += "; " + other
	}
	for i, c := range ch.All {
		if i != best {
			ch.Rejected = append(ch.Rejected, ch.LostAggregated(c, sla))
		}
	}
	ch.Warnings = append(ch.Warnings, ch.tied()...)
	ch.Warnings = append(ch.Warnings, ch.undecided(open, sla)...)
	ch.Warnings = append(ch.Warnings, ch.undecidedPick(sla)...)
	ch.Warnings = append(ch.Warnings, ch.refused(points)...)
	ch.Warnings = append(ch.Warnings, ch.queuedAlone(sla)...)
	ch.Warnings = append(ch.Warnings, ch.atCap()...)
	ch.Warnings = append(ch.Warnings, faster(ch.All, sla.Stat)...)
	return ch, nil
}

// unserved says why a load of which no request was served is compared with none.
func unserved(p profile.Point) Rejected {
	return Rejected{Phase: p.Phase, Label: p.Config.Label(), InFlight: p.InFlight, Metric: metricFailures, Value: float64(p.Failures), Reason: p.Unmeasurable()}
}

// aggregated is a load as a candidate. One without a rate, requests one after the
// other, is none: it says only what no rate is better than.
func aggregated(p profile.Point, sla profile.SLA) Candidate {
	c := Candidate{Point: p, Feasible: p.Rate > 0 && p.Meets(sla) && p.Untold(sla) == "", Margin: 1 - excess(p, sla)}
	if c.Feasible {
		c.RPS, c.Sustained, c.Utilization = p.Rate, p.ThroughputPerGPU, 1
	}
	return c
}

// firmOnly leaves of each configuration the rates whose intervals do not hold a limit,
// where there is one. One without an interval stays: that is its load's length, and says
// no more against it than for it.
func firmOnly(all []Candidate, sla profile.SLA) {
	firm := map[string]bool{}
	isFirm := func(c Candidate) bool {
		if c.Bracket != nil {
			return true
		}
		a := c.Point.Load
		return a.Surely(profile.Aggregated, sla) || a.TooShort(profile.Aggregated, sla)
	}
	for _, c := range all {
		firm[c.Label()] = firm[c.Label()] || c.Feasible && isFirm(c)
	}
	for i, c := range all {
		all[i].Feasible = c.Feasible && (isFirm(c) || !firm[c.Label()])
	}
}

// excess is the largest of what is promised, each over its limit.
func excess(p profile.Point, sla profile.SLA) float64 {
	x := max(float64(p.Load.TTFT.At(sla.Stat))/float64(sla.TTFT), float64(p.Load.TPOT.At(sla.Stat))/float64(sla.ITL))
	if sla.Stall > 0 {
		x = max(x, float64(p.Load.ITL.P99)/float64(sla.Stall))
	}
	return x
}

// highestHeld is the index of the feasible load of most tokens/s/GPU among the
// highest of each configuration, or of nearly as many and smaller gaps, −1 where there is
// none. Fewer GPUs win a tie.
func highestHeld(all []Candidate) int {
	best := -1
	for i, c := range all {
		if !c.Feasible || !highest(all, c) {
			continue
		}
		if best < 0 || cmp.Or(cmp.Compare(c.Point.ThroughputPerGPU, all[best].Point.ThroughputPerGPU),
			-cmp.Compare(c.Point.Config.GPUs(), all[best].Point.Config.GPUs())) > 0 {
			best = i
		}
	}
	if best < 0 {
		return best
	}
	return smoothest(all, best)
}

// nearMost is the share of the best throughput from which smaller gaps between tokens are
// preferred to it.
const nearMost = 0.95

// smoothest returns the load with the smallest p99 gap between tokens: the best one, or
// one of the same layout with another chunk and nearly the same throughput.
func smoothest(all []Candidate, best int) int {
	out := best
	for i, c := range all {
		if !c.Feasible || !highest(all, c) || c.Point.Config.Parallelism != all[best].Point.Config.Parallelism || c.Point.ThroughputPerGPU < nearMost*all[best].Point.ThroughputPerGPU {
			continue
		}
		if gap := c.Point.Load.ITL.P99; gap > 0 && gap < all[out].Point.Load.ITL.P99 {
			out = i
		}
	}
	return out
}

// highest reports whether no load of c's configuration holds at a higher rate.
func highest(all []Candidate, c Candidate) bool {
	for _, o := range all {
		if o.Feasible && o.Label() == c.Label() && o.Point.Rate > c.Point.Rate {
			return false
		}
	}
	return true
}

// bracketed is the pick with its interval: up to the least rate that missed.
func bracketed(all []Candidate, best int, sla profile.SLA) Candidate {
	c := all[best]
	if c.Bracket != nil {
		if t, most := c.Point.ThroughputPerGPU, c.Bracket.AtMost; c.Feasible && !math.IsInf(most, 1) {
			c.Point.Throughput95 = profile.Interval{Low: t, High: t * most / c.RPS}
		}
		return c
	}
	if missed := missedAbove(all, c.Label(), c.Point.Rate, sla); c.Feasible && !math.IsInf(missed, 1) {
		t := c.Point.ThroughputPerGPU
		c.Point.Throughput95 = profile.Interval{Low: t, High: t * missed / c.Point.Rate}
	}
	return c
}

// leastExcess is the load nearest to the SLA, of those that miss it: requests one
// at a time may hold it where no rate does. Those without failures come first.
func leastExcess(all []Candidate, sla profile.SLA) int {
	best := 0
	for i, c := range all {
		a, b := c.Point, all[best].Point
		if x, y := fits(a, sla), fits(b, sla); x != y {
			if y {
				best = i
			}
			continue
		}
		if cmp.Or(cmp.Compare(failing(a), failing(b)), cmp.Compare(excess(a, sla), excess(b, sla)),
			-cmp.Compare(a.ThroughputPerGPU, b.ThroughputPerGPU)) < 0 {
			best = i
		}
	}
	return best
}

// failing is 1 for a load with more failures than the SLA allows, otherwise 0.
func failing(p profile.Point) int {
	if p.Load.FailsTooOften {
		return 1
	}
	return 0
}

// whyAggregated says by how much the winner leads the best other configuration, of
// those that are not left open.
func whyAggregated(all []Candidate, best int, open []string) string {
	w, second := all[best], -1
	for i, c := range all {
		if c.Feasible && c.Label() != w.Label() && !slices.Contains(open, c.Label()) && highest(all, c) && (second < 0 || c.Point.ThroughputPerGPU > all[second].Point.ThroughputPerGPU) {
			second = i
		}
	}
	switch {
	case second < 0 && len(open) == 0:
		return "the only configuration that holds the SLA at any rate"
	case second < 0:
		return withOpen("most output tokens/s/GPU at the highest rate seen to hold", open)
	}
	if s := all[second].Point; s.ThroughputPerGPU > w.Point.ThroughputPerGPU && s.Config.Parallelism == w.Point.Config.Parallelism {
		ms := profile.Milliseconds
		return withOpen(fmt.Sprintf("p99 gap between tokens of %.1f ms; %[3]s gives %.0[4]f %% more output tokens/s/GPU but has %.1[2]f ms",
			ms(w.Point.Load.ITL.P99), ms(s.Load.ITL.P99), all[second].Label(), 100*(s.ThroughputPerGPU/w.Point.ThroughputPerGPU-1)), open)
	}
	return withOpen(fmt.Sprintf("most output tokens/s/GPU at the highest rate that holds (%+.0f %% over %s)",
		100*(w.Point.ThroughputPerGPU/all[second].Point.ThroughputPerGPU-1), all[second].Label()), open)
}

// LostAggregated says why a load of ChooseAggregated is not the pick.
func (ch Choice) LostAggregated(c Candidate, sla profile.SLA) Rejected {
	p := c.Point
	r := Rejected{Phase: p.Phase, Label: c.Label(), InFlight: p.InFlight}
	at := fmt.Sprintf("at %.4g requests/s: ", p.Rate)
	if p.Rate == 0 {
		at = "one request at a time: "
	}
	s, short := shortAggregated(p, sla)
	switch {
	case short && c.Bracket != nil && s.Metric == fewRequests && sla.Unsure(p.Load.Failures, p.Load.Requests) == "":
		r.Metric, r.Value, r.Reason = metricUndecided, float64(p.Load.Requests), at+"too few requests for a verdict of its own; judged together with the other loads"
	case short:
		r.Reason = at + s.miss()
		switch s.Metric {
		case "TTFT":
			r.Metric, r.Value = "ttft_ms", profile.Milliseconds(s.Latency)
		case "ITL":
			r.Metric, r.Value = "itl_ms", profile.Milliseconds(s.Latency)
		case Stall:
			r.Metric, r.Value = "gap_ms", profile.Milliseconds(s.Latency)
		case fewRequests:
			r.Metric, r.Value = metricUndecided, float64(p.Load.Requests)
		default:
			r.Metric, r.Value = metricFailures, float64(p.Failures)
		}
	case p.Rate > 0 && p.Untold(sla) != "":
		r.Metric, r.Value, r.Reason = metricUndecided, p.ThroughputPerGPU, at+p.Untold(sla)
	case p.Rate > 0 && !c.Feasible:
		r.Metric, r.Value, r.Reason = metricUndecided, p.ThroughputPerGPU, at+"holds in this load, but the 95 % interval includes a miss"
	case p.Rate == 0:
		r.Metric, r.Value, r.Reason = "throughput_per_gpu", p.ThroughputPerGPU, at+"holds the SLA, but does not tell at which rate"
	default:
		r.Metric, r.Value = "throughput_per_gpu", p.ThroughputPerGPU
		r.Reason = c.WithEnd(fmt.Sprintf("%slower throughput: %s tokens/s/GPU (pick: %s)", at, engine.Number(p.ThroughputPerGPU), engine.Number(ch.Picked.Point.ThroughputPerGPU)))
	}
	return r
}

// shortAggregated says what binds: the latency that is further above its limit.
func shortAggregated(p profile.Point, sla profile.SLA) (Shortfall, bool) {
	if fits(p, sla) {
		return Shortfall{}, false
	}
	a := p.Load
	s := Shortfall{Metric: "TTFT", Latency: a.TTFT.At(sla.Stat), Limit: sla.TTFT, Failures: a.Failures, Requests: a.Requests}
	if itl := a.TPOT.At(sla.Stat); float64(itl)/float64(sla.ITL) > float64(s.Latency)/float64(s.Limit) {
		s.Metric, s.Latency, s.Limit = "ITL", itl, sla.ITL
	}
	if gap := a.ITL.P99; sla.Stall > 0 && float64(gap)/float64(sla.Stall) > float64(s.Latency)/float64(s.Limit) {
		s.Metric, s.Latency, s.Limit = Stall, gap, sla.Stall
	}
	if a.FailsTooOften {
		s.Metric = metricFailures
		return s, true
	}
	if s.Why = sla.Unsure(a.Failures, a.Requests); s.Why == "" && tooFew(p, sla) {
		s.Why = a.TooFew(p.Phase, sla)
	}
	if s.Why != "" {
		s.Metric = fewRequests
		return s, true
	}
	if s.Latency > s.Limit {
		if !a.Growing && a.Stopped == "" && !a.Few(p.Phase, sla) {
			s.Promise, s.Besides = roundUp(s.Latency), besides(p, sla)
			if s.Metric == Stall && (a.TTFT.At(sla.Stat) > sla.TTFT || a.TPOT.At(sla.Stat) > sla.ITL) {
				s.Promise, s.Besides = 0, 0
			}
		}
		return s, true
	}
	switch {
	case a.Growing:
		s.Why = "the queue grows: requests arrive faster than the engine serves them"
	case a.Stopped != "":
		s.Why = a.Stopped
	case a.TTFT.At(sla.Stat) <= 0:
		s.Why = "TTFT is unknown: no first token was seen"
	case a.TPOT.At(sla.Stat) <= 0:
		s.Metric, s.Latency, s.Limit = "ITL", 0, sla.ITL
		s.Why = "ITL is unknown: no gap between output tokens was seen"
	default:
		s.Why = p.Invalid
	}
	return s, true
}

// tooFew reports whether a load has too few requests to say that it misses. Those one
// after the other wait for nobody: what their median misses, a percentile misses, too.
func tooFew(p profile.Point, sla profile.SLA) bool {
	if p.Rate == 0 && sla.Stat.Quantile() > 0 {
		medians := sla
		medians.Stat = profile.P50
		if p.Untold(medians) == "" && !p.Meets(medians) {
			return false
		}
	}
	return p.Load.Few(p.Phase, sla) && p.Untold(sla) != ""
}

// besides is what could be promised of the metric that does not bind, where a load
// misses both; 0 where it misses one.
func besides(p profile.Point, sla profile.SLA) time.Duration {
	ttft, itl := p.Load.TTFT.At(sla.Stat), p.Load.TPOT.At(sla.Stat)
	switch {
	case ttft <= sla.TTFT || itl <= sla.ITL:
		return 0
	case float64(itl)/float64(sla.ITL) > float64(ttft)/float64(sla.TTFT):
		return roundUp(ttft)
	}
	return roundUp(itl)
}

// fits reports whether a load holds the SLA, or requests one after the other do as
// far as so few say anything of its percentile.
func fits(p profile.Point, sla profile.SLA) bool {
	alone := p.Rate == 0 && p.Invalid == "" && !p.Load.FailsTooOften && (p.Load.Few(p.Phase, sla) || sla.Exceeds(p.Load.Failures, p.Load.Requests))
	return p.Meets(sla) || alone && excess(p, sla) <= 1
}

// miss is one clause for people.
func (s Shortfall) miss() string {
	switch {
	case s.Metric == metricFailures:
		return fmt.Sprintf("%d of %s failed", s.Failures, engine.Count(s.Requests, "request"))
	case s.Undecided():
		return s.Why
	case s.Latency <= s.Limit:
		return s.Why
	default:
		return fmt.Sprintf("misses the SLA: %s %s", s.Metric, above(s.Latency, s.Limit))
	}
}
