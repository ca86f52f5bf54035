package trace

import (
	"fmt"
	"math"
	"math/rand/v2"

	"plimsoll/profile"
)

// MaxCV bounds the coefficient of variation of gaps.
const MaxCV = 100

// Gaps are the spaces between arrivals, in units of the mean gap of the moment:
// all equal (profile.Constant), exponential (profile.Poisson), or gamma with
// coefficient of variation CV (profile.Gamma; shape 1/CV², which is Poisson's
// for CV 1, bursty above and regular below).
type Gaps struct {
	Process profile.Arrival
	CV      float64 // gamma only, above 0 and at most MaxCV
}

// Validate says what is wrong with g.
func (g Gaps) Validate() error {
	switch g.Process {
	case profile.Constant, profile.Poisson:
		return nil
	case profile.Gamma:
		if !(g.CV > 0 && g.CV <= MaxCV) { // so that NaN is refused
			return fmt.Errorf("cv %v is out of range: want above 0, at most %v", g.CV, MaxCV)
		}
		return nil
	default:
		return fmt.Errorf("arrival %q is unknown: want constant, poisson or gamma", g.Process)
	}
}

// Draw is a gap of mean 1.
func (g Gaps) Draw(r *rand.Rand) float64 {
	switch g.Process {
	case profile.Gamma:
		shape := 1 / (g.CV * g.CV)
		return gamma(r, shape) / shape
	case profile.Constant:
		return 1
	default:
		return r.ExpFloat64()
	}
}

// gamma draws from the gamma distribution of the given shape > 0 and scale 1:
// Marsaglia and Tsang, "A simple method for generating gamma variables", ACM
// TOMS 26(3), 2000; for shape < 1 by their boost through shape + 1.
func gamma(r *rand.Rand, shape float64) float64 {
	if shape < 1 {
		u := 1 - r.Float64() // in (0, 1]
		return gamma(r, shape+1) * math.Pow(u, 1/shape)
	}
	d := shape - 1.0/3
	c := 1 / math.Sqrt(9*d)
	for {
		x := r.NormFloat64()
		v := 1 + c*x
		if v <= 0 {
			continue
		}
		v = v * v * v
		u := 1 - r.Float64()
		if math.Log(u) < x*x/2+d-d*v+d*math.Log(v) {
			return d * v
		}
	}
}
