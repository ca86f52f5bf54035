package profile

import (
	"math"
	"time"

	"gonum.org/v1/gonum/stat/distuv"
)

// leastSteps are the fewest independent steps whose deviation says anything: it is then
// known to a half.
const leastSteps = 20

// Needed is how many independent samples the SLA's percentile takes of a phase at a fixed
// number in flight.
func (s SLA) Needed(phase Phase) int {
	if phase == Decode && s.Stat.Quantile() > 0 {
		return leastSteps
	}
	return SamplesFor(s.Stat)
}

// requestMeans is how the means of requests of OSL tokens vary at a number in flight that
// does not change, by the steps that were seen. All streams share the steps, so that
// hundreds of streams are no sample of requests. A mean of k steps varies as one of all n
// steps does, by the root of n/k more, and is close to normal (the central limit theorem
// for sequences that hang together: Law, Simulation Modeling and Analysis, 5th ed., 4.4).
// What else differs between streams is added (own). Without a percentile's interval where
// too few steps were seen.
func (p Point) requestMeans() Distribution {
	itl, tokens := p.ITL, max(1, p.TokensPerChunk)
	k := float64(p.OSL-1) / tokens
	if itl.Neff < leastSteps || itl.Mean <= 0 || p.InFlight <= 0 || k <= 0 || p.TPOT.Mean <= 0 {
		d := p.TPOT
		d.In50, d.In90, d.In95, d.In99 = Interval{}, Interval{}, Interval{}, Interval{}
		d.Neff = min(d.Neff, itl.Neff)
		return d
	}
	mean, steps := float64(p.TPOT.Mean), float64(itl.N)/p.InFlight
	all := mean * float64(itl.Std) / float64(itl.Mean) / math.Sqrt(itl.Neff) // deviation of the mean of all steps
	sd := all * math.Sqrt(p.ranks()*steps/k)
	own := p.own(all)
	total := math.Hypot(sd, own)
	// How far steps hang together is an estimate too, over windows of some ten times as
	// many steps as do: the deviation is known as from so many samples.
	samples := itl.Neff / 10
	doubt := 0.0 // of total
	if total > 0 {
		doubt = math.Hypot(sd*sd/math.Sqrt(2*samples), own*own/math.Sqrt(2*float64(max(p.TPOT.N-1, 1)))) / total
	}
	d := Distribution{N: p.Requests, Mean: p.TPOT.Mean, Std: time.Duration(total), Neff: itl.Neff}
	at := func(s Statistic, to *time.Duration, in *Interval) {
		z := distuv.UnitNormal.Quantile(s.Quantile())
		v, half := mean+z*total, distuv.UnitNormal.Quantile(0.975)*math.Hypot(all, z*doubt)
		*to, *in = time.Duration(v), Interval{Low: v - half, High: v + half}
	}
	at(P50, &d.P50, &d.In50)
	at(P90, &d.P90, &d.In90)
	at(P95, &d.P95, &d.In95)
	at(P99, &d.P99, &d.In99)
	return d
}

// own is by how much streams differ beside their steps, ns: what is left of the deviation
// of TPOT. Means over an m-th of the steps each differ from the mean of all by the root of
// m−1 times the deviation of the latter, all; streams that share every step, by nothing.
func (p Point) own(all float64) float64 {
	std, m := float64(p.TPOT.Std), p.ranks()*float64(p.TPOT.N)/p.InFlight
	return math.Sqrt(max(0, std*std-all*all*max(0, m-1)))
}

// ranks is how many attention replicas there are: each has steps of its own.
func (p Point) ranks() float64 { return float64(max(1, p.Config.Parallelism.Normal().DP)) }
