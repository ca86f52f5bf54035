package profile

import (
	"fmt"
	"time"

	"plimsoll/engine/field"
)

// What an open-loop load says of an SLA: that the engine holds it, surely or as far
// as it tells, that it misses, or nothing.

// Few reports whether the SLA's statistic rests on fewer requests than it takes
// (SamplesFor), as far as phase goes: a percentile on fewer independent ones where
// their count is known. How many those of a mean are worth is in its interval.
func (a Attainment) Few(phase Phase, s SLA) bool {
	n := float64(a.Requests)
	if s.Stat.Quantile() > 0 {
		n = a.Worth(phase, s)
	}
	return n < float64(SamplesFor(s.Stat))
}

// TooFew says of a load that it has too few requests to judge by.
func (a Attainment) TooFew(phase Phase, s SLA) string {
	more := "raise " + field.LoadTime
	if a.Full {
		more = "a longer " + field.LoadTime + " would not help"
	}
	if n := a.Worth(phase, s); s.Stat.Quantile() > 0 && n < float64(a.Requests) {
		return fmt.Sprintf("%d correlated requests count as only %.0f, too few to judge a %s; %s", a.Requests, n, s.Stat, more)
	}
	return fmt.Sprintf("%d requests are too few to judge", a.Requests)
}

// Worth is how many independent requests a judged figure rests on, the fewest where
// there are two: all of them where that is not known.
func (a Attainment) Worth(phase Phase, s SLA) float64 {
	n := float64(a.Requests)
	if k := a.TTFT.Neff; phase != Decode && k > 0 {
		n = min(n, k)
	}
	if k := a.TPOT.Neff; phase != Prefill && k > 0 {
		n = min(n, k)
	}
	return n
}

// Holds reports whether the load was served within the SLA, as far as phase goes:
// TTFT for prefill, ITL for decode, both otherwise. More failures than the SLA allows
// are a miss (FailsTooOften) or decide nothing (SLA.Unsure), as do fewer requests than its
// statistic takes (Few).
func (a Attainment) Holds(phase Phase, s SLA) bool {
	if a.FailsTooOften || s.Exceeds(a.Failures, a.Requests) || a.Requests == 0 || a.Few(phase, s) || a.Growing || a.Stopped != "" {
		return false
	}
	ttft, itl := a.TTFT.At(s.Stat), a.TPOT.At(s.Stat)
	return (phase == Decode || ttft > 0 && ttft <= s.TTFT) && (phase == Prefill || itl > 0 && itl <= s.ITL && a.stalls(s) <= 0)
}

// stalls is how far the p99 gap between tokens exceeds the SLA's; 0 or below where it
// holds, or where none is promised.
func (a Attainment) stalls(s SLA) time.Duration {
	if s.Stall == 0 {
		return 0
	}
	return a.ITL.P99 - s.Stall
}

// Undecided reports whether a load that the engine served could as well have been
// on the other side of the SLA: where the 95 % interval of a judged figure holds
// its limit, or is not known (TooShort). A percentile's is that of the share of
// requests within the limit, which is the percentile's own at the limit.
func (a Attainment) Undecided(phase Phase, s SLA) bool {
	if a.FailsTooOften || a.Requests == 0 || a.Growing || a.Stopped != "" {
		return false
	}
	if s.Exceeds(a.Failures, a.Requests) {
		return true
	}
	q := s.Stat.Quantile()
	doubtful := func(d Distribution, limit time.Duration, within Interval) bool {
		if q > 0 {
			return within.Low < q && q <= within.High
		}
		return d.Half > 0 && d.Mean-d.Half <= limit && limit < d.Mean+d.Half
	}
	return a.TooShort(phase, s) || phase != Decode && doubtful(a.TTFT, s.TTFT, a.InTTFT) ||
		phase != Prefill && doubtful(a.TPOT, s.ITL, a.InITL)
}

// Surely reports whether the load holds the SLA by its 95 % intervals: without one
// nothing is sure.
func (a Attainment) Surely(phase Phase, s SLA) bool {
	return a.Holds(phase, s) && !a.Undecided(phase, s)
}

// surelyMisses reports whether the share of requests within a limit is below the
// percentile's quantile by its whole 95 % interval: fewer than the percentile takes
// show that, too.
func (a Attainment) surelyMisses(phase Phase, s SLA) bool {
	below := func(within Interval) bool { return within != (Interval{}) && within.High < s.Stat.Quantile() }
	return phase != Decode && below(a.InTTFT) || phase != Prefill && below(a.InITL)
}

// MissedBy reports whether a percentile surely misses a limit, by the share of
// requests, 0 to 1, that are within it, where those are worth so many independent ones:
// that are as many as it takes (SamplesFor), or too few of which the whole 95 %
// interval of their share is below its quantile.
func (s Statistic) MissedBy(within, worth float64) bool {
	q := s.Quantile()
	if q == 0 || worth <= 0 || within >= q {
		return false
	}
	return worth >= float64(SamplesFor(s)) || wilson(within, worth, z95).High < q
}

// TooShort reports whether there is no interval of a judged figure: the requests
// hang together for longer than the load lets tell.
func (a Attainment) TooShort(phase Phase, s SLA) bool {
	unknown := func(d Distribution, within Interval) bool {
		if s.Stat.Quantile() > 0 {
			return within == Interval{}
		}
		return d.Half == 0 && d.Neff == 0
	}
	return phase != Decode && unknown(a.TTFT, a.InTTFT) || phase != Prefill && unknown(a.TPOT, a.InITL)
}

// Untold says why a measurement tells nothing of whether its engine holds the SLA at
// that load: the figures are not the engine's, the load was not the one that was meant,
// or too few were judged. Empty where it holds, or misses.
func (p Point) Untold(s SLA) string {
	a := p.Load
	switch {
	case p.Invalid != "":
		return p.Invalid
	case a == nil:
		return p.unmeasured(s)
	case p.Meets(s):
		return a.Easier
	case a.Harder != "":
		return a.Harder
	case a.FailsTooOften || a.Growing || a.Stopped != "":
		return ""
	case s.Unsure(a.Failures, a.Requests) != "":
		return s.Unsure(a.Failures, a.Requests)
	case a.Requests == 0 || a.Few(p.Phase, s) && !a.surelyMisses(p.Phase, s):
		return a.TooFew(p.Phase, s)
	case p.Phase != Prefill && a.TPOT.At(s.Stat) <= 0:
		return "no gap between output tokens was seen"
	case p.Phase != Decode && a.TTFT.At(s.Stat) <= 0:
		return "no first token was seen"
	}
	return ""
}

// unmeasured is Untold of a measurement that is no open-loop load and not invalid.
func (p Point) unmeasured(s SLA) string {
	switch {
	case p.FailsTooOften:
		return "" // an engine that fails requests misses
	case s.Unsure(p.Failures, p.Requests) != "":
		return s.Unsure(p.Failures, p.Requests)
	case p.Latency(s) <= 0:
		return p.Unmeasurable()
	case p.Undecided(s):
		return fmt.Sprintf("too few samples to judge %s: %.0f independent ones, %d needed", s.Stat, p.Samples(s), SamplesFor(s.Stat))
	}
	return ""
}
