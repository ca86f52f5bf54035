package policy

import (
	"fmt"
	"math"

	"plimsoll/engine"
	"plimsoll/interpolation"
	"plimsoll/planner"
	"plimsoll/profile"
)

// engines are one engine of each pool as profiled, slowed by what was seen.
type engines struct {
	prefill interpolation.Prefill
	decode  interpolation.Decode
	sla     profile.SLA
	slower  correction

	most      float64 // requests/s of an aggregated engine, where it is known
	mostKnown bool

	rated float64 // what was measured of an aggregated engine over what surfaces say; 0: nothing was
}

// least is the fewest replicas of a role for a demand, in words too.
func (e engines) least(role planner.Role, need demand) (int, string, []profile.Warning) {
	switch role {
	case engine.RolePrefill:
		return e.leastPrefill(need)
	case engine.RoleDecode:
		return e.leastDecode(need)
	default:
		return e.leastAggregated(need)
	}
}

// prompt is how long one prompt takes an idle engine, in seconds.
func (e engines) prompt(need demand) (float64, []profile.Warning) {
	t := e.prefill.TTFT(need.prompt())
	return t.Value.Seconds() * e.slower.Prefill, t.Warnings()
}

// longPrompt is that of the prompt at the SLA's percentile, and no shorter than the mean
// one's, which it is where the SLA is by means or lengths are not known to vary.
func (e engines) longPrompt(need demand) float64 {
	p := e.sla.Stat.Quantile()
	if p == 0 {
		t, _ := e.prompt(need)
		return t
	}
	return max(e.promptAt(need, normal(p)), e.promptAt(need, 0.5*need.sigma()))
}

// promptAt is the time in seconds of a prompt so many standard deviations from the
// median, of lognormal lengths; of the mean one where they are not known to vary.
func (e engines) promptAt(need demand, deviations float64) float64 {
	if sigma := need.sigma(); need.varies {
		need.isl *= math.Exp(sigma*deviations - sigma*sigma/2)
	}
	t, _ := e.prompt(need)
	return t
}

// ttft is what n engines make of a demand with prompts of mean seconds, the
// longest that count of long: the mean TTFT in seconds, or its percentile. A
// percentile is the mean prompt behind a long queue, or a long prompt behind the
// mean one, whichever takes longer: both at once are rarer.
func (e engines) ttft(q queue, n int, long float64) float64 {
	p := e.sla.Stat.Quantile()
	if p == 0 {
		return q.mean + q.wait(n, 0)
	}
	return max(q.mean+q.wait(n, p), long+q.wait(n, 0))
}

// leastPrefill sizes a queue whose TTFT, the prompt and its waiting, keeps the
// SLA. Upstream sizes by throughput alone, so that waiting never adds a replica
// (dynamo#10528).
func (e engines) leastPrefill(need demand) (int, string, []profile.Warning) {
	service, warn := e.prompt(need)
	long := e.longPrompt(need)
	q := queue{rate: need.all(), mean: service, cv2: need.spread2}
	limit := e.ttftLimit()
	left := limit - service
	if long >= limit {
		warn = append(warn, profile.Warnf("ttft_unreachable", "one prompt alone takes %.4g ms (%s; mean %.4g tokens; TTFT limit %v). More replicas do not help; relax TTFT or use faster engines", 1e3*long, stat(e.sla.Stat), need.isl, e.sla.TTFT))
	}
	if left <= 0 {
		// Replicas do not make one prompt faster (dynamo#11624): as many as keep up
		// without much of a queue, and no more.
		busy := q.load()
		if b, ok := e.batching(need); ok {
			busy = q.rate * b.takes(b.most) / b.most
		} else {
			warn = append(warn, e.prefill.Short(need.prompt())...)
		}
		n := engineCount(busy / keepUp)
		return n, fmt.Sprintf("%.4g requests/s of %.4g ms each keep %s %.0f %% busy; TTFT cannot be met", q.rate, 1e3*service, engine.Count(n, "engine"), 100*busy/float64(n)), warn
	}
	n := max(1, q.servers(left, e.sla.Stat.Quantile()))
	n = max(n, q.servers(e.waitLimit(long), 0))
	if b, ok := e.batching(need); ok && long < limit {
		if fewer, ttft := b.servers(q.rate, limit-(long-service), e.sla.Stat != profile.Mean && e.sla.Stat != "", n); fewer < n {
			return fewer, fmt.Sprintf("%.4g requests/s of %.4g ms each, %.4g ms more for each that shares a step: with %s TTFT (%s) is %.4g ms",
				q.rate, 1e3*service, 1e3*b.more, engine.Count(fewer, "engine"), stat(e.sla.Stat), 1e3*ttft), warn
		}
	} else if !ok {
		warn = append(warn, e.prefill.Short(need.prompt())...)
	}
	return n, fmt.Sprintf("%.4g requests/s of %.4g ms each: with %s TTFT (%s) is %.4g ms, of them %.4g waiting in the mean",
		q.rate, 1e3*service, engine.Count(n, "engine"), stat(e.sla.Stat), 1e3*e.ttft(q, n, long), 1e3*q.wait(n, 0)), warn
}

// ttftLimit is what prompt and queue may take of the TTFT promised, in seconds; 0 or
// less where nothing is left of it.
func (e engines) ttftLimit() float64 { return (e.sla.TTFT - e.slower.Extra).Seconds() }

// waitLimit is what the mean wait behind a long prompt may take of the TTFT, in
// seconds. More engines make waiting shorter and not the prompt: of a promise that the
// prompt alone nearly breaks, or breaks, they are not asked for more than leastWait.
func (e engines) waitLimit(long float64) float64 {
	return max(e.ttftLimit()-long, leastWait*e.ttftLimit())
}

// leastWait is the share of TTFT that waiting may take in any case.
const leastWait = 0.1

// keepUp is how busy engines may be where no number of them holds the TTFT.
const keepUp = 0.8

func stat(s profile.Statistic) string {
	if s == "" {
		return string(profile.Mean)
	}
	return string(s)
}

// itlLimit is the mean ITL of a profiled engine at which the SLA's statistic is
// what it promises.
func (e engines) itlLimit() float64 {
	limit := e.sla.ITL.Seconds() / e.slower.Decode
	if e.sla.Stat.Quantile() > 0 {
		limit /= e.slower.Tail
	}
	return limit
}

// leastDecode sizes for the requests in flight at the fullest moment: Little's
// law for their mean, Poisson for how far they go above it.
func (e engines) leastDecode(need demand) (int, string, []profile.Warning) {
	each, itl, feasible, warn := e.carries(need)
	crowd := need.all() * need.osl * itl
	high := need.even*crowd + (1-need.even)*crowdHigh(crowd)
	n := engineCount(high / each)
	why := fmt.Sprintf("%.4g requests/s of %.4g tokens at ITL %.4g ms are %.4g in flight, %.4g at the fullest; an engine carries %.4g",
		need.all(), need.osl, 1e3*itl, crowd, high, each)
	if !feasible {
		why += "; ITL cannot be met"
	}
	return n, why, warn
}

// carries is the requests that one decode engine holds, and their ITL in seconds.
// Where no load keeps the ITL, more engines do not help: it is what one keeps up
// with then, or the fleet would explode as upstream's does.
func (e engines) carries(need demand) (each, itl float64, feasible bool, warn []profile.Warning) {
	c := need.context()
	best := e.decode.BestThroughput(duration(e.itlLimit()), c)
	warn = best.Warnings()
	each, itl = math.Max(1, best.InFlight), best.ITL.Seconds()
	if !best.Feasible {
		warn = append(warn, profile.Warnf("itl_unreachable", "ITL is at least %[3]v at a context of %.4[2]g tokens (limit %[1]v). More replicas do not help; relax ITL or use faster engines", e.sla.ITL, c, duration(itl*e.slower.Decode)))
		_, most := e.decode.InFlight(c)
		each = math.Max(1, keepUp*most)
		itl = e.decode.ITLAt(each, c).Value.Seconds()
	}
	return each, itl * e.slower.Decode, best.Feasible, warn
}

// crowdHigh is what a Poisson number exceeds in 1 % of cases, by the normal
// approximation.
func crowdHigh(mean float64) float64 { return mean + profile.Z99*math.Sqrt(mean) }

// rateOf is the requests/s that each of n replicas of a role carries within the SLA.
func (e engines) rateOf(role planner.Role, need demand, n int) float64 {
	if role == engine.RoleAggregated {
		if measured := e.ratedRate(need); measured > 0 {
			return measured
		}
		return e.aggregatedRate(need)
	}
	prompts, step := e.fullStep(need)
	low, high := 0.0, prompts/step
	if role == engine.RoleDecode {
		each, itl, _, _ := e.carries(need)
		high = each / (need.osl * itl)
	}
	for range 12 { // to a four-thousandth
		need.rate, need.backlog = float64(n)*(low+high)/2, 0
		if least, _, _ := e.least(role, need); least <= n {
			low = (low + high) / 2
		} else {
			high = (low + high) / 2
		}
	}
	return low
}

// capacity is what one of n replicas of a role carries within the SLA, and the
// latency predicted of all.
func (e engines) capacity(role planner.Role, need demand, n int) planner.PoolCapacity {
	c := planner.PoolCapacity{Role: role, Rate: planner.Known(e.rateOf(role, need, max(1, n)))}
	switch role {
	case engine.RolePrefill:
		service, _ := e.prompt(need)
		q := queue{rate: need.rate, mean: service, cv2: need.spread2}
		t := e.ttft(q, n, e.longPrompt(need))
		if b, ok := e.batching(need); ok && n > 0 {
			t = min(t, b.ttft(need.rate/float64(n), e.sla.Stat.Quantile() > 0)+e.longPrompt(need)-service)
		}
		if !math.IsInf(t, 1) {
			c.Latency = planner.Known(1e3 * t)
		}
	case engine.RoleDecode:
		each, _, _, _ := e.carries(need)
		c.InFlight = planner.Known(each)
		if itl, ok := e.decodeITL(need, n); ok {
			c.Latency = planner.Known(1e3 * itl)
		}
	default:
		if itl, _, ok := e.shared(need, need.rate/float64(max(1, n))); ok {
			c.Latency = planner.Known(1e3 * itl)
		}
	}
	return c
}

// decodeITL is the mean ITL in seconds of n engines under a demand: the fixed
// point of Little's law and the surface, from below. It is not ok where the
// requests would be more than any measured load.
func (e engines) decodeITL(need demand, n int) (float64, bool) {
	if n < 1 {
		return 0, false
	}
	c := need.context()
	_, most := e.decode.InFlight(c)
	itlOf := e.decode.ITLOver(c)
	itl := itlOf(1).Seconds() * e.slower.Decode
	for range 64 {
		crowd := need.rate * need.osl * itl / float64(n)
		if crowd > most {
			return 0, false
		}
		next := itlOf(math.Max(1, crowd)).Seconds() * e.slower.Decode
		if math.Abs(next-itl) <= 1e-6*itl {
			return next, true
		}
		itl = next
	}
	return itl, true
}
