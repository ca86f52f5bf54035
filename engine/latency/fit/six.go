package main

import (
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/stat"

	"plimsoll/engine/latency"
)

// draws are the held-out errors of calibrations on six points of one kind of
// latency: for random points one median and p90 per draw, sorted.
type draws struct {
	ttft   bool
	points int // to draw from

	medians, means, p90 []float64 // random points, the first prior
	nearest             []float64 // the same points, medians from the nearest of the priors

	chosen latency.Error // six points chosen by the first prior, the nearest prior
	from   string        // which that is
}

const (
	numDraws  = 30
	numPoints = 6
)

// sixes calibrates on six points of obs and predicts the others, with points of
// TTFT and with points of TPOT: from the first of the priors, and from the one
// that is nearest to the six.
func sixes(priors []latency.Fit, obs []latency.Observation) ([]draws, error) {
	var out []draws
	for _, ttft := range []bool{true, false} {
		own, _ := split(obs, func(o latency.Observation) bool { return o.Kind.TTFT() == ttft })
		if len(own) < 2*numPoints {
			continue
		}
		d := draws{ttft: ttft, points: len(own)}
		if err := d.random(priors, own); err != nil {
			return nil, err
		}
		if err := d.choose(priors, own); err != nil {
			return nil, err
		}
		out = append(out, d)
	}
	return out, nil
}

func (d *draws) random(priors []latency.Fit, own []latency.Observation) error {
	random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // the same draws each time
	for range numDraws {
		drawn := slices.Clone(own)
		random.Shuffle(len(drawn), func(i, j int) { drawn[i], drawn[j] = drawn[j], drawn[i] })
		e, _, err := d.after(priors[:1], drawn[:numPoints], drawn[numPoints:])
		if err != nil {
			return err
		}
		near := e
		if len(priors) > 1 {
			if near, _, err = d.after(priors, drawn[:numPoints], drawn[numPoints:]); err != nil {
				return err
			}
		}
		d.medians, d.means, d.p90 = append(d.medians, e.Median), append(d.means, e.Mean), append(d.p90, e.P90)
		d.nearest = append(d.nearest, near.Median)
	}
	for _, x := range [][]float64{d.medians, d.means, d.p90, d.nearest} {
		slices.Sort(x)
	}
	return nil
}

// choose takes the six points that latency.Informative would have measured.
func (d *draws) choose(priors []latency.Fit, own []latency.Observation) error {
	chosen := latency.Informative(priors[0], own, numPoints)
	var six, others []latency.Observation
	for i, o := range own {
		if slices.Contains(chosen, i) {
			six = append(six, o)
		} else {
			others = append(others, o)
		}
	}
	var err error
	d.chosen, d.from, err = d.after(priors, six, others)
	return err
}

// after is the error on others of the prior nearest to six, calibrated on them.
func (d *draws) after(priors []latency.Fit, six, others []latency.Observation) (latency.Error, string, error) {
	prior, err := latency.Nearest(priors, six)
	if err != nil {
		return latency.Error{}, "", err
	}
	k, err := latency.Estimate(prior.Coefficients, six)
	if err != nil {
		return latency.Error{}, "", err
	}
	held := summary("", predictAll(k, others))
	if d.ttft {
		return held.TTFT, prior.Name, nil
	}
	return held.TPOT, prior.Name, nil
}

func (d draws) at(p float64) float64 { return stat.Quantile(p, stat.Empirical, d.medians, nil) }

func (d draws) nearestAt(p float64) float64 { return stat.Quantile(p, stat.Empirical, d.nearest, nil) }

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
