package recommend

import (
	"math"
	"time"

	"plimsoll/profile"
)

// A server with so many places, each of which a request takes for as long as it takes
// alone, in order of arrival (M/D/c): what requests one after the other and a burst suggest
// of any server before it was loaded.
type places struct {
	count float64
	most  float64 // requests/s that are served
}

// placesOf is by how long a request takes alone, and how many of a burst are served; of an
// engine that computes prompts one after another and decodes all together it is the queue of
// its prompts, one place for as long as a first token takes.
func placesOf(alone, burst *profile.Attainment) places {
	if first := alone.TTFT.Mean.Seconds(); first > 0 && !HoldsPlaces(alone, burst) && burst.Achieved*first <= sideBySide && burst.TTFT.Max > time.Duration(waited*float64(alone.TTFT.Mean)) {
		return places{count: 1, most: 1 / first}
	}
	return places{count: max(1, burst.Achieved*alone.E2E.Mean.Seconds()), most: burst.Achieved}
}

const (
	// sideBySide is how many prompts an engine computes at once, at least, whose prompts do
	// not wait for each other.
	sideBySide = 1.5
	// waited is how many times as long as alone a first token of a burst takes, at least, where
	// prompts wait for each other.
	waited = 1.5
	// mostUse is the share of what a burst is served at that is expected to hold, at most.
	mostUse = 0.95
	// sameITL is by how much ITL may be longer in a burst where places are all that
	// requests share.
	sameITL = 1.1
)

// HoldsPlaces reports whether requests wait for places that others hold until their end:
// some of a burst got their first token only after others had ended, and none decoded more
// slowly for it.
func HoldsPlaces(alone, burst *profile.Attainment) bool {
	return burst.TTFT.Max > burst.E2E.Min && burst.TPOT.N > 0 && float64(burst.TPOT.Mean) <= sameITL*float64(alone.TPOT.Mean)
}

// late is the share of requests that wait for longer than wait seconds at a use, 0 to 1, and
// mean the mean wait: by the chance of waiting at all in M/M/c (Erlang C), after which waits
// are exponential, and half as long where services are all alike (Tijms, A First Course in
// Stochastic Models, 2003, §9.6). Of 1 to 64 places near 5 % it is off by a third at most.
func (p places) late(use, wait float64) float64 {
	return erlangC(p.count, use*p.count) * math.Exp(-2*p.most*(1-use)*max(wait, 0))
}

func (p places) mean(use float64) float64 {
	return erlangC(p.count, use*p.count) / (2 * p.most * (1 - use))
}

// held is the use up to which a statistic of the wait is at most wait seconds.
func (p places) held(wait float64, stat profile.Statistic) float64 {
	low, high := 0., 0.98
	for range 40 {
		mid := (low + high) / 2
		holds := p.mean(mid) <= wait
		if q := stat.Quantile(); q > 0 {
			holds = p.late(mid, wait) <= 1-q
		}
		if holds {
			low = mid
		} else {
			high = mid
		}
	}
	return max(low, 1e-3)
}

// slope is how the odds of waiting for longer than wait, or the mean wait, grow with the use,
// both logarithmic, where the statistic is at its limit.
func (p places) slope(wait float64, stat profile.Statistic) float64 {
	const step = 0.02
	use := p.held(wait, stat)
	of := func(use float64) float64 {
		if stat.Quantile() == 0 {
			return math.Log(p.mean(use))
		}
		x := p.late(use, wait)
		return math.Log(x / (1 - x))
	}
	return min(max((of(use*(1+step))-of(use*(1-step)))/(2*step), leastSlope), mostSlope)
}

// erlangC is the chance that all of so many places are taken, in M/M/c at an offered load.
func erlangC(places, load float64) float64 {
	c := math.Round(places)
	if load >= c {
		return 1
	}
	blocked := 1.0 // Erlang B, by its recursion
	for k := 1.0; k <= c; k++ {
		blocked = load * blocked / (k + load*blocked)
	}
	return blocked / (1 - load/c*(1-blocked))
}

// ExpectedRate is the rate, requests/s, that an aggregated engine is expected to hold, by
// requests one after the other and a burst: by what is left of the SLA's TTFT for waiting in
// a queue with as many places as they show, and by where ITL reaches its limit between the
// two. It is a beginning: loads tell the rest.
func ExpectedRate(alone, burst profile.Point, sla profile.SLA) float64 {
	return expectedRate(alone.Load, burst.Load, sla, alone.OSL)
}

func expectedRate(alone, burst *profile.Attainment, sla profile.SLA, osl int) float64 {
	if burst.Achieved <= 0 {
		return 0
	}
	p := placesOf(alone, burst)
	rate := min(p.most*p.held((sla.TTFT-alone.TTFT.Mean).Seconds(), sla.Stat), mostUse*burst.Achieved)
	few, many := float64(alone.TPOT.Mean), float64(burst.TPOT.At(sla.Stat))
	if limit := float64(sla.ITL); many > limit && many > few {
		n := 1 + (burst.InFlight-1)*(limit-few)/(many-few)
		rate = min(rate, 0.9*max(n, 0.5)/(alone.TTFT.Mean+time.Duration(osl)*sla.ITL).Seconds())
	}
	return rate
}
