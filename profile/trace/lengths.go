package trace

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
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

// Uniform is every length from Min to Max, both included, equally often.
type Uniform struct{ Min, Max int }

// Draw implements Lengths.
func (u Uniform) Draw(r *rand.Rand) int { return u.Min + r.IntN(u.Max-u.Min+1) }

// Validate implements Lengths.
func (u Uniform) Validate() error { return validBounds(u.Min, u.Max) }

func validBounds(lo, hi int) error {
	err := errors.Join(within("shortest length", float64(lo), 1, MaxTokens), within("longest length", float64(hi), 1, MaxTokens))
	if err == nil && lo > hi {
		err = fmt.Errorf("shortest length %d is above the longest, %d", lo, hi)
	}
	return err
}

// LogNormal is exp(Mu + Sigma·N(0,1)), at most Max. Make it with NewLogNormal.
type LogNormal struct {
	Mu, Sigma float64 // of the logarithm of the length in tokens
	Max       int     // longer draws count as this; 0 = MaxTokens
}

// z99 is the 99th percentile of the standard normal distribution.
const z99 = 2.3263478740408408

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
	most := math.Exp(z99 * z99 / 2)
	if !(ratio >= 1 && ratio <= most) {
		return LogNormal{}, fmt.Errorf("p99 length %v with mean length %v: no log-normal has both: want a p99 of %.6g to %.6g", p99, mean, mean, mean*most)
	}
	sigma := z99 - math.Sqrt(max(z99*z99-2*math.Log(ratio), 0))
	l := LogNormal{Mu: math.Log(mean) - sigma*sigma/2, Sigma: sigma, Max: longest}
	return l, l.Validate()
}

// Draw implements Lengths.
func (l LogNormal) Draw(r *rand.Rand) int {
	most := l.Max
	if most == 0 {
		most = MaxTokens
	}
	return tokens(math.Exp(l.Mu+l.Sigma*r.NormFloat64()), 1, most)
}

// Validate implements Lengths.
func (l LogNormal) Validate() error {
	return errors.Join(
		within("mu", l.Mu, -100, 100),
		within("sigma", l.Sigma, 0, 10),
		within("longest length", float64(l.Max), 0, MaxTokens))
}

// Normal is the normal distribution of this mean and standard deviation with
// its tails cut off: what lies outside Min to Max is drawn again. Cut tails
// move the mean of the draws away from Mean, unless they are cut evenly.
type Normal struct {
	Mean, Std float64 // tokens, of the normal distribution before the cut
	Min, Max  int
}

// minKept is the least share of draws that a cut may keep, so that drawing
// again comes to an end soon.
const minKept = 1e-3

// Draw implements Lengths.
func (n Normal) Draw(r *rand.Rand) int {
	lo, hi := float64(n.Min)-0.5, float64(n.Max)+0.5
	for {
		if x := n.Mean + n.Std*r.NormFloat64(); x >= lo && x < hi {
			return tokens(x, n.Min, n.Max)
		}
	}
}

// Validate implements Lengths.
func (n Normal) Validate() error {
	err := errors.Join(
		within("mean length", n.Mean, 1, MaxTokens),
		within("standard deviation", n.Std, 0, MaxTokens),
		validBounds(n.Min, n.Max))
	if err != nil {
		return err
	}
	lo, hi := float64(n.Min)-0.5, float64(n.Max)+0.5
	kept := 1.0
	if n.Std > 0 {
		below := func(x float64) float64 { return math.Erfc((n.Mean-x)/(n.Std*math.Sqrt2)) / 2 }
		kept = below(hi) - below(lo)
	} else if n.Mean < lo || n.Mean >= hi {
		kept = 0
	}
	if kept < minKept {
		return fmt.Errorf("lengths of mean %v and standard deviation %v lie in %d to %d with probability %.1g: want at least %v", n.Mean, n.Std, n.Min, n.Max, kept, minKept)
	}
	return nil
}

// Empirical draws from a list, each entry equally often.
type Empirical []int

// Draw implements Lengths.
func (e Empirical) Draw(r *rand.Rand) int { return e[r.IntN(len(e))] }

// Validate implements Lengths.
func (e Empirical) Validate() error {
	if len(e) == 0 {
		return errors.New("the list of lengths is empty: want at least one")
	}
	for i, n := range e {
		if err := within(fmt.Sprintf("length %d of the list,", i+1), float64(n), 1, MaxTokens); err != nil {
			return err
		}
	}
	return nil
}

// tokens is x as a whole number of tokens within bounds.
func tokens(x float64, lo, hi int) int {
	return int(math.Round(min(max(x, float64(lo)), float64(hi))))
}
