//go:build full

package main

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"plimsoll/engine/latency"
)

// Calibrated on six open loops of which one is spoilt, the model predicts the others
// about as well as without that one; where none is, no worse than by least squares.
func TestCalibrateOnASpoiltPoint(t *testing.T) {
	rows, err := readRows("..")
	if err != nil {
		t.Fatal(err)
	}
	prior := latency.Fit{}
	if prior.Coefficients, err = latency.Estimate(latency.Physical(), observations(rows, recent[1:]...)); err != nil {
		t.Fatal(err)
	}
	robust := func(points []latency.Observation) (latency.Coefficients, error) {
		f, _, err := latency.Calibrate(prior, points)
		return f.Coefficients, err
	}
	least := func(points []latency.Observation) (latency.Coefficients, error) {
		return latency.Estimate(prior.Coefficients, points)
	}
	for _, ttft := range []bool{true, false} {
		own, _ := split(observations(rows, recent[0]), func(o latency.Observation) bool { return o.Kind.TTFT() == ttft })
		random := rand.New(rand.NewPCG(3, 4)) //nolint:gosec // the same draws each time
		left := map[string][]latency.Error{}
		for range numDraws {
			drawn := slices.Clone(own)
			random.Shuffle(len(drawn), func(i, j int) { drawn[i], drawn[j] = drawn[j], drawn[i] })
			six, others := drawn[:numPoints], drawn[numPoints:]
			spoilt := slices.Clone(six)
			spoilt[0].Seconds *= math.Pow(2+random.Float64(), float64(1-2*random.IntN(2))) // or divided by it
			for name, calibrate := range map[string]func() (latency.Coefficients, error){
				"six": func() (latency.Coefficients, error) { return robust(six) }, "six by squares": func() (latency.Coefficients, error) { return least(six) },
				"five":   func() (latency.Coefficients, error) { return robust(six[1:]) },
				"spoilt": func() (latency.Coefficients, error) { return robust(spoilt) }, "spoilt by squares": func() (latency.Coefficients, error) { return least(spoilt) },
			} {
				k, err := calibrate()
				if err != nil {
					t.Fatal(err)
				}
				held, err := errorsOf("", k, others)
				if err != nil {
					t.Fatal(err)
				}
				e := held.TPOT
				if ttft {
					e = held.TTFT
				}
				left[name] = append(left[name], e)
			}
		}
		at := func(name string) float64 { return quantile(0.5, left[name], median) }
		t.Logf("TTFT %v: six %.3f (squares %.3f), five %.3f, one of six spoilt %.3f (squares %.3f)", ttft, at("six"), at("six by squares"), at("five"), at("spoilt"), at("spoilt by squares"))
		if at("spoilt") > 1.25*at("five") || at("spoilt") > 0.75*at("spoilt by squares") || at("six") > 1.1*at("six by squares") {
			t.Errorf("TTFT %v: errors with a spoilt point %.3f, without it %.3f; by least squares %.3f; of six good ones %.3f and %.3f",
				ttft, at("spoilt"), at("five"), at("spoilt by squares"), at("six"), at("six by squares"))
		}
	}
}
