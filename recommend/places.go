package recommend

import (
	"math"
	"time"

	"plimsoll/profile"
)

// places is a queue with a number of servers and equal service times (M/D/c): what a first
// guess takes an engine for, from requests sent one at a time and a burst.
type places struct {
	count float64
	most  float64 // requests/s that are served
}

// placesOf models the engine. If it computes prompts one after another and decodes them
// together, requests queue for prefill: one server, busy for TTFT. Otherwise they queue for a
// slot, held until the answer ends.
func placesOf(alone, burst *profile.Attainment) places {
	if first := alone.TTFT.Mean.Seconds(); first > 0 && !HoldsPlaces(alone, burst) && burst.Achieved*first <= sideBySide && burst.TTFT.Max > time.Duration(waited*float64(alone.TTFT.Mean)) {
		return places{count: 1, most: 1 / first}
	}
	return places{count: max(1, burst.Achieved*alone.E2E.Mean.Seconds()), most: burst.Achieved}
}

const (
	// sideBySide is how many prompts at once show that prompts do not wait for each other.
	sideBySide = 1.5
	// waited is the least ratio of the burst's longest TTFT to TTFT alone that shows a queue.
	waited = 1.5
	// mostUse is the highest expected rate, as a share of the burst's throughput.
	mostUse = 0.95
	// sameITL is the highest ratio of ITL in the burst to ITL alone that counts as the same.
	sameITL = 1.1
)

// HoldsPlaces reports whether requests wait for slots that others hold until they end: in the
// burst, some first tokens came only after other answers had ended, and ITL was no longer
// than alone.
func HoldsPlaces(alone, burst *profile.Attainment) bool {
	return burst.TTFT.Max > burst.E2E.Min && burst.TPOT.N > 0 && float64(burst.TPOT.Mean) <= sameITL*float64(alone.TPOT.Mean)
}

// late is the share of requests that wait longer than wait seconds at a utilization, 0 to 1;
// mean is the mean wait. Waits are exponential as in M/M/c (Erlang C), and half as long
// because service times are equal (Tijms, A First Course in Stochastic Models, 2003, §9.6).
// For 1 to 64 servers and shares near 5 %, late is off by at most a third.
func (p places) late(use, wait float64) float64 {
	return profile.ErlangC(int(math.Round(p.count)), use) * math.Exp(-2*p.most*(1-use)*max(wait, 0))
}

func (p places) mean(use float64) float64 {
	return profile.ErlangC(int(math.Round(p.count)), use) / (2 * p.most * (1 - use))
}

// held is the highest utilization at which a statistic of the wait is at most wait seconds.
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

// slope is d ln(odds of waiting longer than wait) / d ln(utilization) where the statistic is at
// its limit; for a mean, that of the mean wait.
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

// ExpectedRate guesses the highest rate within the SLA, requests/s, before any load: the rate
// at which a queue (places) uses up what TTFT leaves for waiting, or at which ITL, linear
// between one request and the burst, reaches its limit. The loads correct it.
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
