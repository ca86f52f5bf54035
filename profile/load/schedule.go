package load

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"plimsoll/profile"
	"plimsoll/profile/trace"
)

// Bounds of a Workload, far beyond any use: they keep arithmetic and memory in
// range. MaxTokens is of one request, MaxRequests of one call.
const (
	MaxTokens   = 1 << 24
	MaxRequests = 10_000_000
	MaxRate     = 1e6 // requests per second
	MaxCV       = trace.MaxCV
)

// Validate says all that is wrong with w, naming each field.
func Validate(w profile.Workload) error {
	var errs []error
	within := func(name string, v, most int) {
		if v < 1 || v > most {
			errs = append(errs, fmt.Errorf("%s %d is out of range: want 1 to %d", name, v, most))
		}
	}
	within("isl", w.ISL, MaxTokens)
	within("osl", w.OSL, MaxTokens)
	within("requests", w.Requests, MaxRequests)
	switch w.Arrival {
	case profile.ClosedLoop:
		within("in-flight", w.InFlight, MaxRequests)
	case profile.Constant, profile.Poisson, profile.Gamma:
		if !(w.Rate > 0 && w.Rate <= MaxRate) { // so that NaN is refused
			errs = append(errs, fmt.Errorf("rate %v is out of range: want above 0, at most %v requests per second", w.Rate, float64(MaxRate)))
		}
		if w.Arrival == profile.Gamma && !(w.CV > 0 && w.CV <= MaxCV) {
			errs = append(errs, fmt.Errorf("cv %v is out of range: want above 0, at most %v", w.CV, MaxCV))
		}
	default:
		errs = append(errs, fmt.Errorf("arrival %q is unknown: want closed, constant, poisson or gamma", w.Arrival))
	}
	if w.Timeout < 0 {
		errs = append(errs, fmt.Errorf("timeout %v is negative", w.Timeout))
	}
	return errors.Join(errs...)
}

// Schedule gives the instant at which each request of an open-loop workload is
// due, rising, the first at 0. Gaps have mean 1/Rate and are all equal
// (constant), exponential (poisson), or gamma with coefficient of variation CV
// (shape 1/CV², which is poisson's for CV 1). It is a function of w alone.
func Schedule(w profile.Workload) ([]time.Duration, error) {
	if err := Validate(w); err != nil {
		return nil, err
	}
	if w.Arrival == profile.ClosedLoop {
		return nil, errors.New("a closed loop has no schedule: its requests are due when others end")
	}
	rng := rand.New(rand.NewPCG(w.Seed, mix(scheduleDomain, uint64(w.ISL))))
	gaps := trace.Gaps{Process: w.Arrival, CV: w.CV}
	due := make([]time.Duration, w.Requests)
	t := 0.0 // in mean gaps
	for i := range due {
		if w.Arrival == profile.Constant {
			t = float64(i) // no sum, so that rounding does not add up
		} else if i > 0 {
			t += gaps.Draw(rng)
		}
		due[i] = seconds(t / w.Rate)
	}
	return due, nil
}

// seconds is s as a Duration, at most the longest there is.
func seconds(s float64) time.Duration {
	if ns := s * float64(time.Second); ns < math.MaxInt64/2 {
		return time.Duration(math.Round(ns))
	}
	return math.MaxInt64 / 2
}
