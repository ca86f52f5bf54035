package policy

import (
	"math"
	"time"

	"plimsoll/planner"
)

// share is the part of a distribution above a limit. Between the percentiles that are
// known, and beyond the 99th, it falls exponentially, as waiting does: a promise of 99
// of 100 is told from one that is nearly missed. The median's where that is above the
// limit; NaN where there are no percentiles.
func share(s planner.Spread[time.Duration], limit time.Duration) float64 {
	knots := []struct {
		figure planner.Figure[time.Duration]
		above  float64
	}{{s.P50, 0.50}, {s.P90, 0.10}, {s.P95, 0.05}, {s.P99, 0.01}}
	for _, k := range knots {
		if !k.figure.Known {
			return math.NaN()
		}
	}
	if s.P50.Value > limit {
		return 0.5
	}
	for i := 1; ; i++ {
		low, high := knots[i-1], knots[i]
		if high.figure.Value <= limit && i+1 < len(knots) {
			continue
		}
		width := high.figure.Value - low.figure.Value
		if width <= 0 { // a step: nothing is above it
			return 0
		}
		return low.above * math.Pow(high.above/low.above, float64(limit-low.figure.Value)/float64(width))
	}
}

// unmended is the share of prompts, of lognormal lengths, that break TTFT alone on an
// idle engine: no number of replicas mends that. Where lengths are not known to vary
// it is all or none.
func (e engines) unmended(need demand) float64 {
	breaks := func(z float64) bool { return e.promptAt(need, z) >= e.ttftLimit() }
	low, high := -rarest, rarest
	if !breaks(high) {
		return 0
	}
	if !need.varies || breaks(low) {
		return 1
	}
	for range 30 {
		if mid := (low + high) / 2; breaks(mid) {
			high = mid
		} else {
			low = mid
		}
	}
	return math.Erfc(high/math.Sqrt2) / 2
}

// rarest is the standard deviations beyond which no prompt is looked for.
const rarest = 4.0

// mendable is what more replicas can mend of the share of requests that missed TTFT,
// and what may be left of it: what prompts alone break is taken off both. Where that
// is more than may be missed at all the promise cannot be held, and the profile's word
// on it is the less trusted the more it is.
func (e engines) mendable(need demand, missed, may float64) (left, allowed float64) {
	alone := e.unmended(need)
	return max(0, missed-alone-max(0, alone-may)), max(may-alone, leastAllowed*may)
}

// leastAllowed keeps a promise that prompts alone nearly break from asking for a fleet
// in which nobody ever waits.
const leastAllowed = 0.25

// itlMissed is the share of requests, or of gaps, above the ITL promised; NaN where it
// cannot be told.
func itlMissed(s planner.Situation) float64 {
	sla := s.Deployment.SLA
	return share(s.Promised(sla), sla.ITL)
}

// missedTTFT is the share of requests that missed TTFT and the one that may, as far as
// replicas can mend it; NaN where it is not known.
func (p *Default) missedTTFT(s planner.Situation, seen demand) (missed, may float64) {
	sla := s.Deployment.SLA
	may = 1 - sla.Stat.Quantile()
	missed = share(s.TTFT, sla.TTFT)
	if math.IsNaN(missed) {
		return missed, may
	}
	return p.engines(sla).mendable(seen, missed, may)
}
