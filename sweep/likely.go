package sweep

import (
	"cmp"
	"slices"
	"time"

	"plimsoll/engine"
	"plimsoll/profile"
	"plimsoll/recommend"
)

// likelyCounts is how many in-flight counts are looked at for where a search that
// closes in on the SLA is likely to end.
const likelyCounts = 100

// likely is the candidate that a latency model expects to be picked in a phase:
// the most throughput per GPU within the SLA by the rule of the run, the fewer GPUs
// of a tie, the least latency where none holds it. Without a model it is the largest.
func (o Options) likely(phase profile.Phase) engine.Config {
	pick := o.largest()
	best, nearest := 0.0, time.Duration(0)
	for _, c := range o.Candidates {
		e, ok := o.expect(c)
		if !ok {
			return o.largest()
		}
		rate, latency := o.likelyDecode(e, c)
		if phase == profile.Prefill {
			rate, latency = o.likelyPrefill(e, c)
		}
		least := best
		if o.Search == Adaptive {
			rate = o.value(o.expected(phase, c, 1), o.Rank)
			if best > 0 && c.GPUs() > pick.GPUs() {
				least = best * (1 + recommend.TieShare)
			}
		}
		switch {
		case rate > least:
			pick, best = c, rate
		case best == 0 && latency > 0 && (nearest == 0 || latency < nearest):
			pick, nearest = c, latency
		}
	}
	return pick
}

// largest is the first of the candidates with most GPUs.
func (o Options) largest() engine.Config {
	return slices.MaxFunc(o.Candidates, func(a, b engine.Config) int { return cmp.Compare(a.GPUs(), b.GPUs()) })
}

// likelyPrefill is a candidate's throughput per GPU within the SLA, 0 where it
// misses it, and its TTFT.
func (o Options) likelyPrefill(e Expectation, c engine.Config) (rate float64, ttft time.Duration) {
	if ttft = e.TTFT(o.ISL); ttft <= o.SLA.TTFT {
		rate = float64(attentionReplicas(c)*o.ISL) / ttft.Seconds() / float64(c.GPUs())
	}
	return rate, ttft
}

// likelyDecode is the same of decode, at the best of the counts that are looked at.
func (o Options) likelyDecode(e Expectation, c engine.Config) (rate float64, itl time.Duration) {
	f := o.facts(c)
	osl := o.decodeOSL(f)
	room := o.rounds(f, c, o.ISL, osl)
	counts := room.counts(spaced(room.top, likelyCounts))
	if o.Search == Grid {
		counts = o.gridCounts(c, f, o.ISL, osl)
	}
	for i, n := range counts {
		took := e.ITL(n, nominalContext(o.ISL, osl))
		if i == 0 {
			itl = took
		}
		if took <= o.SLA.ITL {
			rate = max(rate, float64(n)/took.Seconds()/float64(c.GPUs()))
		}
	}
	return rate, itl
}
