package replay

import (
	"errors"
	"fmt"
	"iter"
	"math"
	"time"

	"plimsoll/engine"
	"plimsoll/engine/sim/fleet"
)

// Rates is a load as a table: bins of equal length, the first from virtual time 0.
type Rates struct {
	Every time.Duration // a bin's length, above 0
	Bins  []RateBin
	// Sigma is the standard deviation of the logarithm of lengths within a bin,
	// which are lognormal; from 0 (all equal) to 2.
	Sigma float64
}

// RateBin is the load of one bin.
type RateBin struct {
	Rate     float64 // requests/s, Poisson; 0 or more
	ISL, OSL float64 // mean tokens, 1 or more where there is a rate
}

// Check says all that is wrong.
func (r Rates) Check() error {
	var errs []error
	if r.Every <= 0 || len(r.Bins) == 0 || !(r.Sigma >= 0 && r.Sigma <= mostSigma) {
		errs = append(errs, fmt.Errorf("%d bins of %v, lengths with a sigma of %v: want bins, of more than 0, and a sigma from 0 to 2", len(r.Bins), r.Every, r.Sigma))
	}
	for i, b := range r.Bins {
		if !(b.Rate >= 0 && b.Rate < 1e6) || b.Rate > 0 && !(b.ISL >= 1 && b.ISL < 1e8 && b.OSL >= 1 && b.OSL < 1e8) {
			errs = append(errs, fmt.Errorf("bin %d: %v requests/s of ISL %v and OSL %v: want 0 to a million, and tokens from 1", i+1, b.Rate, b.ISL, b.OSL))
			break
		}
	}
	return errors.Join(errs...)
}

// at is the load at an instant; none after the last bin.
func (r Rates) at(t engine.Picoseconds) RateBin {
	i := int(t / engine.FromDuration(r.Every))
	if i >= len(r.Bins) {
		return RateBin{}
	}
	return r.Bins[i]
}

// mean is the mean load from an instant to a later one.
func (r Rates) mean(from, to engine.Picoseconds) RateBin {
	var sum RateBin
	every := engine.FromDuration(r.Every)
	for at := from; at < to; {
		next := min(to, (at/every+1)*every)
		b := r.at(at)
		n := b.Rate * (next - at).Seconds()
		sum = RateBin{sum.Rate + n, sum.ISL + n*b.ISL, sum.OSL + n*b.OSL}
		at = next
	}
	if sum.Rate == 0 {
		return RateBin{}
	}
	return RateBin{sum.Rate / (to - from).Seconds(), sum.ISL / sum.Rate, sum.OSL / sum.Rate}
}

// lognormal is the length of a mean that a standard normal number leads to.
func lognormal(mean, sigma, normal float64) int {
	return max(1, int(math.Round(mean*math.Exp(sigma*normal-sigma*sigma/2))))
}

// RatesOf are the rates of requests that come within a length, in bins, for a trace
// that is too long to be replayed one by one. Sigma is that of the ISL, over all of
// them; lengths are the means of each bin.
func RatesOf(requests iter.Seq[fleet.Request], every, length time.Duration) (Rates, error) {
	r := Rates{Every: every}
	if every <= 0 || length <= 0 || length/every >= mostWindows {
		return r, fmt.Errorf("%v in bins of %v: want both above 0, and %d bins at most", length, every, mostWindows)
	}
	r.Bins = make([]RateBin, above(length, every))
	var logs, squares, n float64
	for q := range requests {
		if q.At >= engine.FromDuration(length) {
			break
		}
		b := &r.Bins[q.At/engine.FromDuration(every)]
		b.Rate, b.ISL, b.OSL = b.Rate+1, b.ISL+float64(q.ISL), b.OSL+float64(q.OSL)
		x := math.Log(float64(max(q.ISL, 1)))
		logs, squares, n = logs+x, squares+x*x, n+1
	}
	for i := range r.Bins {
		if b := &r.Bins[i]; b.Rate > 0 {
			span := min(every, length-time.Duration(i)*every)
			b.Rate, b.ISL, b.OSL = b.Rate/span.Seconds(), b.ISL/b.Rate, b.OSL/b.Rate
		}
	}
	if n > 0 {
		r.Sigma = min(math.Sqrt(max(0, squares/n-logs/n*logs/n)), mostSigma)
	}
	return r, nil
}

// mostSigma bounds how far lengths lie apart.
const mostSigma = 2
