package main

import (
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/stat"

	"plimsoll/engine/latency"
)

// draws are the held-out errors of calibrations on six points of one kind of
// latency.
type draws struct {
	ttft   bool
	points int // to draw from

	random  []latency.Error // one per draw of random points, from the first prior
	nearest []latency.Error // the same points, from the nearest of the priors

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
		if err := d.draw(priors, own); err != nil {
			return nil, err
		}
		if err := d.choose(priors, own); err != nil {
			return nil, err
		}
		out = append(out, d)
	}
	return out, nil
}

func (d *draws) draw(priors []latency.Fit, own []latency.Observation) error {
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
		d.random, d.nearest = append(d.random, e), append(d.nearest, near)
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
	held, err := errorsOf("", k, others)
	if err != nil {
		return latency.Error{}, "", err
	}
	if d.ttft {
		return held.TTFT, prior.Name, nil
	}
	return held.TPOT, prior.Name, nil
}

// quantile is that of one figure over draws.
func quantile(p float64, all []latency.Error, of func(latency.Error) float64) float64 {
	x := make([]float64, len(all))
	for i, e := range all {
		x[i] = of(e)
	}
	slices.Sort(x)
	return stat.Quantile(p, stat.Empirical, x, nil)
}

func median(e latency.Error) float64 { return e.Median }

func (d draws) at(p float64) float64 { return quantile(p, d.random, median) }

func (d draws) nearestAt(p float64) float64 { return quantile(p, d.nearest, median) }

// sixError is the middle draw of one kind of latency, figure by figure.
func sixError(all []draws, ttft bool, basis string) latency.Error {
	i := slices.IndexFunc(all, func(d draws) bool { return d.ttft == ttft })
	if i < 0 {
		return latency.Error{}
	}
	middle := func(of func(latency.Error) float64) float64 { return quantile(0.5, all[i].random, of) }
	return latency.Error{
		Median: middle(median),
		Mean:   middle(func(e latency.Error) float64 { return e.Mean }),
		P90:    middle(func(e latency.Error) float64 { return e.P90 }),

		Factor50: middle(func(e latency.Error) float64 { return e.Factor50 }),
		Factor90: middle(func(e latency.Error) float64 { return e.Factor90 }),
		N:        all[i].points - numPoints, Basis: basis,
	}
}
