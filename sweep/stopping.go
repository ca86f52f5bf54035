package sweep

import (
	"math"
	"time"

	"plimsoll/profile"
)

// A point of the adaptive search is measured in slices, and after each the
// search looks whether what it knows is enough for the decision that the point
// serves: far from the SLA, that the interval does not hold it; near it, an
// interval as tight as tight; on a surface, as surfaceTight.
const (
	tight        = 0.005 // of the latency, half the interval
	surfaceTight = 0.03
)

// looks are the sizes of the slices, in units of the first. The fewest that a
// point takes is 1, the most is their sum.
var looks = [...]int{1, 1, 2, 4, 4}

// patience is after how many units of slices a point of a surface is given up
// where all of them would not make it tight: surfaces serve no decision, and a
// fit over points of such noise gains little from three times the time.
const patience = 2

// tooNoisy reports whether the noise of a surface's point after so many units of
// slices, which falls with their square root, would be too much after all of them.
func tooNoisy(p profile.Point, taken int) bool {
	if p.Stage != profile.StageSurface || taken < patience {
		return false
	}
	all := 0
	for _, k := range looks {
		all += k
	}
	i, ok := spread(p, profile.SLA{Stat: profile.Mean})
	return ok && halfWidth(i)*math.Sqrt(float64(taken)/float64(all)) > surfaceTight
}

// sliceTokens is what each stream gives in the first slice of a decode point:
// 32 to 384 tokens in all. Streams share steps, and a step is one sample.
const sliceTokens = 32

// percentileSlice is how many samples are in the first slice of a point whose
// percentile counts: what it needs comes with the third.
func (o Options) percentileSlice() int {
	return SamplesFor(o.SLA.Stat) / 4
}

// repeatedLooks is by how much an interval has to be wider than one of 95 % when
// it is looked at up to five times and the first that satisfies is taken: 2.413
// standard errors for 1.960 (Pocock, Group sequential methods in the design and
// analysis of clinical trials, Biometrika 64 (1977), table 1: α = 0.05, N = 5).
const repeatedLooks = 2.413 / 1.960

// allAlike is the relative range of samples that makes their own ends the
// interval: no statistic of them lies elsewhere.
const allAlike = 0.01

// spread is where the latency of a point may be by noise alone, in nanoseconds,
// looked at repeatedly; false where its samples do not say. What a latency model
// is off by is no noise: it is the same for all points, and measuring longer
// does not mend it.
func spread(p profile.Point, sla profile.SLA) (profile.Interval, bool) {
	if p.Undecided(sla) {
		return profile.Interval{}, false
	}
	p.ModelError = profile.ModelError{}
	l := float64(p.Latency(sla))
	if i := p.LatencyInterval(sla); i.High > i.Low {
		return profile.Interval{Low: l - repeatedLooks*(l-i.Low), High: l + repeatedLooks*(i.High-l)}, true
	}
	d := latency(p)
	if d.N > 1 && float64(d.Max-d.Min) <= allAlike*l {
		return profile.Interval{Low: float64(d.Min), High: float64(d.Max)}, true
	}
	return profile.Interval{}, false
}

// halfWidth is half of an interval, relative to its middle.
func halfWidth(i profile.Interval) float64 { return (i.High - i.Low) / (i.High + i.Low) }

// limit is what the SLA allows in a point's phase.
func limitOf(p profile.Point, sla profile.SLA) time.Duration {
	if p.Phase == profile.Prefill {
		return sla.TTFT
	}
	return sla.ITL
}

// clear reports whether the noise of a point leaves no doubt on which side of the
// SLA it is.
func clearOf(p profile.Point, sla profile.SLA) bool {
	i, ok := spread(p, sla)
	limit := float64(limitOf(p, sla))
	return ok && (i.High <= limit || i.Low > limit)
}

// enough reports whether a point needs no further slice.
func (r *runner) enough(p profile.Point) bool {
	switch {
	case p.FailsTooOften || p.Invalid != "" || blank(p):
		return true // more of the same mends nothing
	case p.Stage == profile.StageSurface:
		i, ok := spread(p, profile.SLA{Stat: profile.Mean})
		return ok && halfWidth(i) <= surfaceTight
	}
	i, ok := spread(p, r.opts.SLA)
	return ok && (halfWidth(i) <= tight || clearOf(p, r.opts.SLA))
}
