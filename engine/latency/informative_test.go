package latency

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/mat"

	"plimsoll/engine"
)

// information is ln det of what is known after measuring the points at places.
func information(t *testing.T, prior Fit, obs []Observation, places []int) float64 {
	t.Helper()
	var measured []Observation
	for _, i := range places {
		measured = append(measured, obs[i])
	}
	ss, err := samples(measured)
	if err != nil {
		t.Fatal(err)
	}
	x := logs(prior.Coefficients)
	hessian, _ := normal(x, x, slopes(x, ss))
	var cholesky mat.Cholesky
	if !cholesky.Factorize(hessian) {
		t.Fatal("no information at all")
	}
	return cholesky.LogDet()
}

// Each choice is the one that adds most, as the determinants of all say, and six
// tell more than any of many random sixes.
func TestInformativeIsGreedy(t *testing.T) {
	prior := plain()
	obs := points(t, scaled(prior.Coefficients, 1.2), "mixtral-8x7b", engine.FP8)
	chosen := Informative(prior, obs, 6)
	if len(chosen) != 6 {
		t.Fatalf("%d of 6 chosen", len(chosen))
	}
	for n := range chosen {
		with := information(t, prior, obs, chosen[:n+1])
		for i := range obs {
			if slices.Contains(chosen[:n], i) {
				continue
			}
			if other := information(t, prior, obs, append(slices.Clone(chosen[:n]), i)); other > with+1e-9 {
				t.Errorf("choice %d is point %d with %.6f, point %d has %.6f", n, chosen[n], with, i, other)
			}
		}
	}
	r := rand.New(rand.NewPCG(1, 1))
	six := information(t, prior, obs, chosen)
	for range 200 {
		if random := information(t, prior, obs, r.Perm(len(obs))[:6]); random > six {
			t.Errorf("a random six tells %.3f, the chosen one %.3f", random, six)
		}
	}
}

// What was measured is not looked at, and what cannot be is not chosen.
func TestInformativeAtItsEnds(t *testing.T) {
	prior := plain()
	obs := points(t, prior.Coefficients, "llama-3.1-8b", engine.BF16)
	want := Informative(prior, obs, 6)
	for i := range obs {
		obs[i].Seconds = math.NaN()
	}
	if got := Informative(prior, obs, 6); !slices.Equal(got, want) {
		t.Errorf("without measurements %v, with them %v", got, want)
	}
	all := Informative(prior, obs, 1000)
	slices.Sort(all)
	if len(slices.Compact(all)) != len(obs) {
		t.Errorf("%d of %d chosen", len(all), len(obs))
	}
	bad := want[0]
	obs[bad].Kind = "warmth"
	if got := Informative(prior, obs, 1000); slices.Contains(got, bad) || len(got) != len(obs)-1 {
		t.Errorf("%d chosen, the one that cannot be among them: %t", len(got), slices.Contains(got, bad))
	}
	if Informative(prior, obs, 0) != nil || Informative(prior, obs, -1) != nil || Informative(prior, nil, 6) != nil || Informative(Fit{}, obs, 6) != nil {
		t.Error("something is chosen from nothing")
	}
}
