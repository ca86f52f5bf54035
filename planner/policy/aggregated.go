package policy

import (
	"fmt"
	"math"
	"sort"

	"plimsoll/engine"
	"plimsoll/planner"
	"plimsoll/profile"
)

// shared is the mean ITL and the time of a prompt of an aggregated engine that
// gets rate requests/s, in seconds. Prompts take the share ρ = rate·TTFT(ISL) of
// its time, and what decodes meanwhile is slowed by 1/(1−ρ); the requests in
// flight follow by Little's law. It is not ok where the engine does not keep up,
// or would hold more than any measured load.
func (e engines) shared(need demand, rate float64) (itl, prompt float64, ok bool) {
	c := need.context()
	alone, _ := e.prompt(need)
	left := 1 - rate*alone
	if left <= 0 {
		return 0, 0, false
	}
	_, most := e.decode.InFlight(c)
	itlOf := e.decode.ITLOver(c)
	step := itlOf(1).Seconds() * e.slower.Decode
	for range 64 {
		crowd := rate * need.osl * step / left
		if crowd > most {
			return 0, 0, false
		}
		next := itlOf(math.Max(1, crowd)).Seconds() * e.slower.Decode
		done := math.Abs(next-step) <= 1e-6*step
		if step = next; done {
			break
		}
	}
	// A prompt shares each of its steps with what decodes.
	return step / left, alone + step, true
}

// knowing is e with the most requests/s of one aggregated engine, for demands whose
// requests are like these: it is searched for, and asked for more than once.
func (e engines) knowing(need demand) engines {
	e.most, e.mostKnown = e.aggregatedRate(need), true
	return e
}

// aggregatedRate is the most requests/s of one engine whose ITL keeps the SLA;
// 0 where none does.
func (e engines) aggregatedRate(need demand) float64 {
	if e.mostKnown {
		return e.most
	}
	holds := func(rate float64) bool {
		itl, _, ok := e.shared(need, rate)
		if p := e.sla.Stat.Quantile(); ok && e.byAnswer() {
			return e.interrupted(need, rate, itl) <= 1-p
		}
		return ok && itl <= e.itlLimit()*e.slower.Decode
	}
	alone, _ := e.prompt(need)
	low, high := 0.0, 1/alone
	if !e.mendsITL(need) || !holds(1e-9*high) {
		return 0
	}
	for range 40 {
		if mid := (low + high) / 2; holds(mid) {
			low = mid
		} else {
			high = mid
		}
	}
	return low
}

// Rated is the highest rate at which one aggregated engine was measured to hold an SLA,
// by requests that came on their own. Nothing else says how prompts and answers of one
// engine slow each other down, its scheduler's doing; surfaces are of each alone, and say
// how the rate changes with lengths and SLA.
type Rated struct {
	RPS      float64 // requests/s; 0: none was measured
	ISL, OSL float64 // tokens, mean
	SLA      profile.SLA
}

// over is the measured rate over what an engine's surfaces say of the same load; 0 where
// nothing was measured, or they hold it at no rate.
func (r Rated) over(e engines) float64 {
	e.sla = r.SLA
	if r.RPS == 0 {
		return 0
	}
	said := e.single(demand{isl: r.ISL, osl: r.OSL, varies: true})
	if said == 0 {
		return 0
	}
	return r.RPS / said
}

// ratedRate is the most requests/s of one engine of a demand by what was measured; 0
// where nothing was, or no rate holds. An engine that was seen to be faster than its
// surfaces carries no more: the measured rate has that in it.
func (e engines) ratedRate(need demand) float64 {
	if e.rated == 0 {
		return 0
	}
	if s := &e.slower; s.Prefill < 1 || s.Decode < 1 {
		s.Prefill, s.Decode, e.mostKnown = max(1, s.Prefill), max(1, s.Decode), false
	}
	return e.rated * e.single(need)
}

// single is the most requests/s at which one engine with a queue of its own holds both
// promises, by the surfaces; 0 where none does.
func (e engines) single(need demand) float64 {
	low, high := 0.0, e.aggregatedRate(need)
	prompt, _ := e.prompt(need)
	long := e.longPrompt(need) - prompt
	for range 30 {
		if mid := (low + high) / 2; e.sharedHolds(need, mid, long, 1) {
			low = mid
		} else {
			high = mid
		}
	}
	return low
}

// leastAggregated is the fewest engines that keep both promises.
func (e engines) leastAggregated(need demand) (int, string, []profile.Warning) {
	alone, warn := e.prompt(need)
	most := e.aggregatedRate(need)
	rate := need.all()
	if _, least, ok := e.shared(need, 0); most == 0 || !ok || least >= e.ttftLimit() {
		n := engineCount(rate * alone / keepUp)
		warn = append(warn, profile.Warnf("sla_unreachable", "even one request alone misses TTFT %v or ITL %v (a prompt of %.4g tokens takes %.4g ms). More replicas do not help; relax the SLA or use faster engines", e.sla.TTFT, e.sla.ITL, need.isl, 1e3*alone))
		return n, fmt.Sprintf("%.4g requests/s keep %s busy with prompts %.0f %% of the time; the SLA cannot be met", rate, engine.Count(n, "engine"), 100*rate*alone/float64(n)), warn
	}
	if measured := e.ratedRate(need); measured > 0 {
		n := engineCount(rate / measured)
		itl, _, _ := e.shared(need, rate/float64(n))
		return n, fmt.Sprintf("%.4g requests/s, an engine carries %.4g within the SLA (as measured, at the lengths seen): with %s ITL is %.4g ms", rate, measured, engine.Count(n, "engine"), 1e3*itl), warn
	}
	fullITL, _, _ := e.shared(need, most)
	n := e.spread(need, most, fullITL)
	// More engines never wait longer; beyond twice as many nobody waits.
	long := e.longPrompt(need)
	if long >= e.ttftLimit() {
		warn = append(warn, profile.Warnf("ttft_unreachable", "one prompt alone takes %.4g ms (%s; TTFT limit %v). More replicas do not help; relax TTFT or use faster engines", 1e3*long, stat(e.sla.Stat), e.sla.TTFT))
	}
	holds := func(n int) bool { return e.sharedHolds(need, rate, long-alone, n) }
	n += sort.Search(min(n+1000, mostEngines-n), func(more int) bool { return holds(n + more) })
	itl, _, _ := e.shared(need, rate/float64(n))
	ttft, _ := e.sharedTTFT(need, rate, n)
	return n, fmt.Sprintf("%.4g requests/s, an engine carries %.4g within ITL: with %s TTFT (%s) is %.4g ms, ITL %.4g ms",
		rate, most, engine.Count(n, "engine"), stat(e.sla.Stat), 1e3*ttft, 1e3*itl), warn
}

// sharedHolds reports whether n aggregated engines hold TTFT, as far as engines can: the
// mean prompt behind a long queue, and one that takes so much longer behind the mean one.
func (e engines) sharedHolds(need demand, rate, long float64, n int) bool {
	_, prompt, ok := e.shared(need, rate/float64(n))
	if !ok {
		return false
	}
	q := queue{rate: rate, mean: prompt, cv2: need.spread2}
	p := e.sla.Stat.Quantile()
	b := q.refused(n) // for both waits
	if prompt+q.waitOf(n, b, p) > e.ttftLimit() {
		return false
	}
	return p == 0 || q.waitOf(n, b, 0) <= e.waitLimit(long+prompt)
}

// sharedTTFT is the SLA's statistic of TTFT of n aggregated engines, in seconds;
// not ok where they do not keep up.
func (e engines) sharedTTFT(need demand, rate float64, n int) (float64, bool) {
	_, prompt, ok := e.shared(need, rate/float64(n))
	alone, _ := e.prompt(need)
	return e.ttft(queue{rate: rate, mean: prompt, cv2: need.spread2}, n, e.longPrompt(need)+prompt-alone), ok
}

var _ planner.Stateful = (*Default)(nil)
