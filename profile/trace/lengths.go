package trace

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"

	"plimsoll/profile"
)

// Lengths are the tokens of prompts, or of answers. A draw that is no whole
// number is rounded to the nearest one, and one outside the bounds of its kind,
// or of 1 to MaxTokens, counts as the bound.
type Lengths interface {
	// Draw is the next length, 1 to MaxTokens.
	Draw(r *rand.Rand) int
	// Validate says all that is wrong with it.
	Validate() error
}

// Fixed is always the same length.
type Fixed int

// Draw implements Lengths.
func (f Fixed) Draw(*rand.Rand) int { return int(f) }

// Validate implements Lengths.
func (f Fixed) Validate() error { return within("length", float64(f), 1, MaxTokens) }

// LogNormal is exp(Mu + Sigma·N(0,1)), at most Max. Make it with NewLogNormal.
type LogNormal struct {
	Mu, Sigma float64 // of the logarithm of the length in tokens
	Max       int     // longer draws count as this; 0 = MaxTokens
}

// NewLogNormal is the log-normal distribution with this mean and 99th
// percentile. With σ its spread and z = 2.326 the normal's 99th percentile,
// ln(p99/mean) = z·σ − σ²/2, of whose two solutions it takes the narrower one.
// There is none beyond p99/mean = exp(z²/2) = 14.97, and below 1 only with
// spreads above 4.65, which no workload has: both are refused. Rounding to
// tokens, and the bound of 1 token, move the mean of short lengths a little.
func NewLogNormal(mean, p99 float64, longest int) (LogNormal, error) {
	if err := within("mean length", mean, 1, MaxTokens); err != nil {
		return LogNormal{}, err
	}
	ratio := p99 / mean
	most := math.Exp(profile.Z99 * profile.Z99 / 2)
	if !(ratio >= 1 && ratio <= most) {
		return LogNormal{}, fmt.Errorf("p99 length %v with mean length %v: no log-normal has both: want a p99 of %.6g to %.6g", p99, mean, mean, mean*most)
	}
	sigma := profile.Z99 - math.Sqrt(max(profile.Z99*profile.Z99-2*math.Log(ratio), 0))
	l := LogNormal{Mu: math.Log(mean) - sigma*sigma/2, Sigma: sigma, Max: longest}
	return l, l.Validate()
}

// Draw implements Lengths.
func (l LogNormal) Draw(r *rand.Rand) int {
	most := cmp.Or(l.Max, MaxTokens)
	return tokens(math.Exp(l.Mu+l.Sigma*r.NormFloat64()), 1, most)
}

// Validate implements Lengths.
func (l LogNormal) Validate() error {
	return errors.Join(
		within("mu", l.Mu, -100, 100),
		within("sigma", l.Sigma, 0, 10),
		within("longest length", float64(l.Max), 0, MaxTokens))
}

// tokens is x as a whole number of tokens within bounds.
func tokens(x float64, lo, hi int) int {
	return int(math.Round(min(max(x, float64(lo)), float64(hi))))
}
