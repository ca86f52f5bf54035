package sweep

import (
	"fmt"
	"math"

	"plimsoll/engine"
	"plimsoll/profile"
)

// certainty says, while a load runs, whether it is certain to miss the SLA: no
// latency is below 0, so that a sum, or a number of those above the limit, which
// is too large for all that will be judged stays so. A queue that grows is found
// out so long before the load would end. Of a load that is worth fewer requests
// than its percentile takes the number has to be larger than chance makes it (see
// profile.Statistic.MissedBy): a few late ones are no miss of the engine.
type certainty struct {
	from, to int // indices of the requests that are judged, to excluded
	ttft     bool
	itl      bool
	sla      profile.SLA

	failed int

	sumTTFT, sumITL float64 // ns
	late            int     // requests above the TTFT
	worth           float64 // independent requests, as far as is known beforehand
	slack           int     // multiple of the allowed late requests that ends the load
}

// newCertainty knows beforehand which requests the load's window will leave.
func newCertainty(asks []profile.Ask, l openLoad, phase profile.Phase, sla profile.SLA) *certainty {
	c := &certainty{sla: sla, ttft: phase != profile.Decode, itl: phase != profile.Prefill}
	w := l.window(asks[0].Due, asks[len(asks)-1].Due)
	for c.from < len(asks) && asks[c.from].Due < w.From {
		c.from++
	}
	for c.to = c.from; c.to < len(asks) && asks[c.to].Due <= w.To; {
		c.to++
	}
	c.worth, c.slack = l.worth(float64(c.to-c.from), sla.Stat), 1
	if l.evidence { // which is of a rate, and not of how the load came out
		c.slack = evidenceFar
	}
	return c
}

// worth is how many independent requests so many judged ones of a load are expected
// to be worth, at least, where decides are worth as many as a percentile takes.
func (l openLoad) worth(judged float64, stat profile.Statistic) float64 {
	if l.decides <= 0 {
		return judged
	}
	return min(judged, judged*float64(profile.SamplesFor(stat))/float64(l.decides))
}

// missed takes in a request that ended; it says why the load misses, or nothing.
func (c *certainty) missed(q profile.Request) string {
	switch {
	case q.Index < c.from || q.Index >= c.to || q.Failure == profile.FailCanceled:
		return ""
	case !q.OK():
		if c.failed++; c.sla.FailsTooOften(c.failed, c.to-c.from) {
			return fmt.Sprintf("certain to miss: %d of %s failed", c.failed, engine.Count(c.to-c.from, "request"))
		}
		return ""
	}
	n := float64(c.to - c.from)
	late := q.TTFTFromDue()
	c.sumTTFT += float64(late)
	c.sumITL += float64(q.TPOT())
	if late > c.sla.TTFT {
		c.late++
	}
	switch {
	case c.ttft && c.sla.Stat == profile.Mean && c.sumTTFT > float64(c.slack)*n*float64(c.sla.TTFT):
		return fmt.Sprintf("certain to miss: requests %d to %d alone put the mean TTFT above the limit of %v", c.from, q.Index, c.sla.TTFT)
	case c.ttft && c.sla.Stat != profile.Mean && c.late > c.slack*c.allowed(n) && c.sla.Stat.MissedBy(1-float64(c.late)/n, c.worth):
		return fmt.Sprintf("certain to miss: %d requests exceed a TTFT of %v; %s allows %d", c.late, c.sla.TTFT, c.sla.Stat, c.allowed(n))
	case c.itl && c.sla.Stat == profile.Mean && c.sumITL > float64(c.slack)*n*float64(c.sla.ITL):
		return fmt.Sprintf("certain to miss: the mean ITL of all requests is already above the limit of %v", c.sla.ITL)
	}
	return ""
}

// allowed is how many of n may be above a limit that the percentile keeps: the
// quantile lies between the order statistics ⌊(n−1)q⌋ and the next.
func (c *certainty) allowed(n float64) int {
	return int(n) - 1 - int(math.Floor((n-1)*c.sla.Stat.Quantile()))
}
