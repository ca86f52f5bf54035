package main

import (
	"time"

	"plimsoll/plots"
	"plimsoll/profile"
	"plimsoll/profile/store"
	"plimsoll/recommend"
)

// aggregatedPictures are throughput per GPU against either latency, by rate. Bars are
// what the arrivals of a load leave open; what a latency model is off by comes on
// top, and is said.
func aggregatedPictures(run store.Run, rec store.Recommendation) []picture {
	c := captionOf(run, rec, profile.Aggregated)
	return []picture{
		{"aggregated_ttft", func() (*plots.Picture, error) {
			cs := plotLoads(run, rec, ttftUnderLoad(run.SLA))
			return plots.AggregatedTTFT(c.ofLoads(cs), cs)
		}},
		{"aggregated_itl", func() (*plots.Picture, error) {
			cs := plotLoads(run, rec, itlUnderLoad(run.SLA))
			return plots.AggregatedITL(c.ofLoads(cs), cs)
		}},
	}
}

// underLoad is a latency of a load and its 95 % interval, ns.
type underLoad func(profile.Point) (time.Duration, profile.Interval)

func ttftUnderLoad(sla profile.SLA) underLoad {
	return func(p profile.Point) (time.Duration, profile.Interval) {
		return p.Load.TTFT.At(sla.Stat), p.Load.TTFT.Interval(sla.Stat)
	}
}

func itlUnderLoad(sla profile.SLA) underLoad {
	return func(p profile.Point) (time.Duration, profile.Interval) {
		p.ModelError = profile.ModelError{} // no noise of a load
		return p.Load.TPOT.At(sla.Stat), p.LatencyInterval(sla)
	}
}

// plotLoads are the sweep's loads, judged as the pick was.
func plotLoads(run store.Run, rec store.Recommendation, latency underLoad) []plots.Candidate {
	pick := pickedLoad(run, rec)
	var cs []plots.Candidate
	for _, p := range run.Points {
		if p.Stage != profile.StageSweep || p.Phase != profile.Aggregated || p.Load == nil || p.Invalid != "" {
			continue
		}
		l, i := latency(p)
		if l <= 0 {
			continue
		}
		c := plots.Candidate{
			Label: p.Config.Label(), Latency: l, Low: time.Duration(i.Low), High: time.Duration(i.High),
			ThroughputPerGPU: p.ThroughputPerGPU, InFlight: p.Rate, Feasible: p.Meets(run.SLA), Picked: p.ID == pick.ID,
		}
		if c.Picked {
			c.Interval = pick.Throughput95
		}
		cs = append(cs, c)
	}
	return cs
}

// pickedLoad is the sweep's load that was picked, up to the least rate that missed: the
// choice is made again from the points, which are all that it was made of.
func pickedLoad(run store.Run, rec store.Recommendation) profile.Point {
	var ps []profile.Point
	for _, p := range run.Points {
		if p.Stage == profile.StageSweep && p.Config.Parallelism.Normal() == rec.Aggregated.Parallelism().Normal() {
			ps = append(ps, p)
		}
	}
	ch, err := recommend.ChooseAggregated(ps, run.SLA)
	if err != nil {
		return profile.Point{}
	}
	return ch.Picked.Point
}
