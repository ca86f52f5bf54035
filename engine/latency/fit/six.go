package main

import (
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/stat"

	"plimsoll/engine/latency"
)

// draws are the held-out errors of calibrations on six random points of one
// kind of latency, sorted: one median and one p90 per draw.
type draws struct {
	ttft   bool
	points int // to draw from

	medians, means, p90 []float64
}

const (
	numDraws  = 30
	numPoints = 6
)

// sixes calibrates prior on six points of obs, again and again, and predicts the
// others: once with points of TTFT and once of TPOT.
func sixes(prior latency.Coefficients, obs []latency.Observation) ([]draws, error) {
	var out []draws
	for _, ttft := range []bool{true, false} {
		own, _ := split(obs, func(o latency.Observation) bool { return o.Kind.TTFT() == ttft })
		if len(own) < 2*numPoints {
			continue
		}
		d := draws{ttft: ttft, points: len(own)}
		random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // the same draws each time
		for range numDraws {
			drawn := slices.Clone(own)
			random.Shuffle(len(drawn), func(i, j int) { drawn[i], drawn[j] = drawn[j], drawn[i] })
			k, err := latency.Estimate(prior, drawn[:numPoints])
			if err != nil {
				return nil, err
			}
			held := summary("", predictAll(k, drawn[numPoints:]))
			e := held.TPOT
			if ttft {
				e = held.TTFT
			}
			d.medians, d.means, d.p90 = append(d.medians, e.Median), append(d.means, e.Mean), append(d.p90, e.P90)
		}
		slices.Sort(d.medians)
		slices.Sort(d.means)
		slices.Sort(d.p90)
		out = append(out, d)
	}
	return out, nil
}

func (d draws) at(p float64) float64 { return stat.Quantile(p, stat.Empirical, d.medians, nil) }

// sixError is the middle draw of one kind of latency.
func sixError(all []draws, ttft bool, basis string) latency.Error {
	for _, d := range all {
		if d.ttft == ttft {
			middle := func(x []float64) float64 { return stat.Quantile(0.5, stat.Empirical, x, nil) }
			return latency.Error{Median: middle(d.medians), Mean: middle(d.means), P90: middle(d.p90), N: d.points - numPoints, Basis: basis}
		}
	}
	return latency.Error{}
}
