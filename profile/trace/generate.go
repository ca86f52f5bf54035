package trace

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"plimsoll/profile"
)

// A Spec is a workload to generate. Arrivals, prompt lengths, answer lengths
// and prefixes each have a stream of random numbers of their own: to change one
// leaves the others as they are.
type Spec struct {
	Rate     Rate
	Gaps     Gaps
	ISL, OSL Lengths
	Prefixes Prefixes // the zero value shares nothing

	Requests int           // end after so many; 0 = no limit
	Duration time.Duration // end before this instant; 0 = no limit
	Seed     uint64
}

// Validate says all that is wrong with s. One of Requests and Duration has to
// end the trace.
func (s Spec) Validate() error {
	var errs []error
	add := func(what string, err error) {
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", what, err))
		}
	}
	if s.Rate == nil || s.ISL == nil || s.OSL == nil {
		errs = append(errs, errors.New("a trace needs a rate, prompt lengths and output lengths"))
	} else {
		add("rate", s.Rate.Validate())
		add("isl", s.ISL.Validate())
		add("osl", s.OSL.Validate())
	}
	add("gaps", s.Gaps.Validate())
	add("prefixes", s.Prefixes.Validate())
	if s.Requests < 0 || s.Duration < 0 || (s.Requests == 0 && s.Duration == 0) {
		errs = append(errs, fmt.Errorf("%d requests in %v: want a number of requests or a duration above 0, and neither below", s.Requests, s.Duration))
	}
	return errors.Join(errs...)
}

// Covered is what part of the rate the trace's bounds leave: until when, and the
// mean rate up to then, in requests per second. Both are expectations, whatever
// the seed. Of a rate that repeats, the mean is the rate's own where until is
// a whole number of periods.
func (s Spec) Covered() (until time.Duration, mean float64) {
	end := math.Inf(1)
	if s.Requests > 0 {
		end = s.Rate.Reach(float64(s.Requests))
	}
	if d := s.Duration.Seconds(); s.Duration > 0 && !(end <= d) {
		return s.Duration, s.expected(d) / d
	}
	until, _ = seconds(min(end, math.MaxInt64/2e9))
	return until, float64(s.Requests) / end
}

// expected is how many requests come within so many seconds, by bisection of
// Rate.Reach, which never falls.
func (s Spec) expected(t float64) float64 {
	high := 1.0
	for s.Rate.Reach(high) <= t && high < math.MaxInt64 {
		high *= 2
	}
	low := 0.0
	for range 80 {
		if mid := low + (high-low)/2; s.Rate.Reach(mid) <= t {
			low = mid
		} else {
			high = mid
		}
	}
	return low
}

// The streams of random numbers that a seed has.
const (
	gapStream uint64 = 1 + iota
	islStream
	oslStream
	prefixStream
	opStream
	tickStream
)

func stream(seed, which uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, which)) }

// Generate is the trace of s, exact by the time-rescaling theorem (Brown et
// al., Neural Computation 14(2), 2002): arrivals of rate 1 at u(1), u(2), … are
// moved to where the integral of the rate reaches u(k). Poisson gaps so give
// the non-homogeneous Poisson process of that rate. Evenly spaced arrivals
// begin at the first instant that has a rate, random ones a gap later.
//
// Making an arrival without blocks allocates nothing.
func Generate(s Spec) (Trace, error) {
	if err := s.Validate(); err != nil {
		return nil, fmt.Errorf("generating a trace: %w", err)
	}
	return func(yield func(Arrival, error) bool) {
		g := newGenerator(s)
		for s.Requests == 0 || g.made < s.Requests {
			a, more := g.next()
			if !more || !yield(a, nil) {
				return
			}
		}
	}, nil
}

// generator is one pass over a Spec's trace.
type generator struct {
	spec           Spec
	gaps, isl, osl *rand.Rand
	prompts        *prompts // nil where nothing is shared
	reached        float64  // the last arrival, in mean gaps since the start
	last           time.Duration
	made           int
}

func newGenerator(s Spec) *generator {
	return &generator{
		spec:    s,
		gaps:    stream(s.Seed, gapStream),
		isl:     stream(s.Seed, islStream),
		osl:     stream(s.Seed, oslStream),
		prompts: newPrompts(s.Prefixes, s.Seed),
	}
}

// next is the next arrival, false past the end of the Duration or of the rate.
func (g *generator) next() (Arrival, bool) {
	if g.spec.Gaps.Process == profile.Constant {
		g.reached = float64(g.made) // no sum, so that rounding does not add up
	} else {
		g.reached += g.spec.Gaps.Draw(g.gaps)
	}
	at, fits := seconds(g.spec.Rate.Reach(g.reached))
	at = max(at, g.last) // rounding may put arrivals of one instant a nanosecond apart
	if !fits || (g.spec.Duration > 0 && at >= g.spec.Duration) {
		return Arrival{}, false
	}
	g.made++
	g.last = at
	a := Arrival{At: at, ISL: g.spec.ISL.Draw(g.isl), OSL: g.spec.OSL.Draw(g.osl)}
	if g.prompts != nil {
		a.Blocks, a.BlockTokens = g.prompts.blocks(a.ISL), g.spec.Prefixes.BlockTokens
	}
	return a, true
}
