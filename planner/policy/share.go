package policy

import (
	"math"
	"time"

	"plimsoll/planner"
)

// missed is the share of requests above a limit as far as it is known.
type missed struct {
	least, most float64 // NaN: it is not known
	width       float64 // of the bucket in which the limit lies, high over low
}

// known reports whether anything is.
func (m missed) known() bool { return !math.IsNaN(m.least) }

// learnt is the share that may be learnt from, of what it may be that which is nearest to a
// share that teaches nothing; NaN where the bucket is too wide to tell both ways.
func (m missed) learnt(nothing float64) float64 {
	if !(m.width <= mostWidth) {
		return math.NaN()
	}
	return within(nothing, m.least, m.most)
}

// mostWidth is high over low of a bucket at most for the shares above its ends to be near
// each other.
const mostWidth = 1.5

// share is the part of a distribution above a limit. Where percentiles are exact: between
// those that are known, and beyond the 99th, it falls exponentially, as waiting does: a
// promise of 99 of 100 is told from one that is nearly missed. The median's where that is
// above the limit. Of a histogram it is what the buckets around the limit say.
func share(s planner.Spread[time.Duration], limit time.Duration) missed {
	if len(s.Buckets) > 0 {
		least, most, width := s.Above(limit)
		return missed{least, most, width}
	}
	knots := []struct {
		figure planner.Percentile[time.Duration]
		above  float64
	}{{s.P50, 0.50}, {s.P90, 0.10}, {s.P95, 0.05}, {s.P99, 0.01}}
	for _, k := range knots {
		if !k.figure.Known {
			return missed{math.NaN(), math.NaN(), math.NaN()}
		}
	}
	exactly := func(share float64) missed { return missed{share, share, 1} }
	if s.P50.Value > limit {
		return exactly(0.5)
	}
	for i := 1; ; i++ {
		low, high := knots[i-1], knots[i]
		if high.figure.Value <= limit && i+1 < len(knots) {
			continue
		}
		width := high.figure.Value - low.figure.Value
		if width <= 0 { // a step: nothing is above it
			return exactly(0)
		}
		return exactly(low.above * math.Pow(high.above/low.above, float64(limit-low.figure.Value)/float64(width)))
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

// itlMissed is the share of requests, or of gaps, above the ITL promised.
func itlMissed(s planner.Situation) missed {
	sla := s.Deployment.SLA
	return share(s.Promised(sla), sla.ITL)
}

// missedTTFT is the share of requests that missed TTFT and the one that may, as far as
// replicas can mend it.
func (p *Default) missedTTFT(s planner.Situation, seen demand) (m missed, may float64) {
	sla := s.Deployment.SLA
	may = 1 - sla.Stat.Quantile()
	m = share(s.TTFT, sla.TTFT)
	if !m.known() {
		return m, may
	}
	e := p.engines(sla)
	least, allowed := e.mendable(seen, m.least, may)
	most, _ := e.mendable(seen, m.most, may)
	return missed{least, most, m.width}, allowed
}
