package trace

import (
	"errors"
	"fmt"
	"math"
	"sort"
	"time"
)

// MaxRate bounds a rate, in requests per second.
const MaxRate = 1e6

// A Rate is the mean number of requests per second, over time.
type Rate interface {
	// At is the rate at an instant, in requests per second.
	At(t time.Duration) float64
	// Reach is the inverse of the rate's integral from 0: the number of seconds
	// by which n requests are expected; +Inf where they never are.
	Reach(n float64) float64
	// Validate says all that is wrong with it.
	Validate() error
}

// Constant is the same rate at all times, in requests per second.
type Constant float64

// At implements Rate.
func (c Constant) At(time.Duration) float64 { return float64(c) }

// Reach implements Rate.
func (c Constant) Reach(n float64) float64 { return n / float64(c) }

// Validate implements Rate: the rate is above 0.
func (c Constant) Validate() error { return within("rate", float64(c), 1e-9, MaxRate) }

// Sine is the rate Mean · (1 + Amplitude · sin(2π·t/Period + Phase)).
type Sine struct {
	Mean      float64       // requests per second
	Amplitude float64       // of Mean, 0 to 1
	Period    time.Duration // of one swing
	Phase     float64       // radians; −π/2 begins at the lowest rate
}

// At implements Rate.
func (s Sine) At(t time.Duration) float64 {
	return s.Mean * (1 + s.Amplitude*math.Sin(s.angle(t.Seconds())))
}

func (s Sine) angle(t float64) float64 { return 2*math.Pi*t/s.Period.Seconds() + s.Phase }

// expected requests until t seconds, the integral of the rate:
// Mean · (t + Amplitude·Period/2π · (cos Phase − cos(2π·t/Period + Phase))).
func (s Sine) expected(t float64) float64 {
	swing := s.Amplitude * s.Period.Seconds() / (2 * math.Pi)
	return s.Mean * (t + swing*(math.Cos(s.Phase)-math.Cos(s.angle(t))))
}

// Reach implements Rate: Newton's method within a bracket that halves wherever
// a step would leave it, to a nanosecond or the precision of the numbers.
func (s Sine) Reach(n float64) float64 {
	swing := s.Amplitude * s.Period.Seconds() / math.Pi // the most that the wave moves an arrival
	lo, hi := n/s.Mean-swing, n/s.Mean+swing
	t := n / s.Mean
	for range 100 {
		over := s.expected(t) - n
		if over > 0 {
			hi = t
		} else {
			lo = t
		}
		next := t - over/(s.Mean*(1+s.Amplitude*math.Sin(s.angle(t))))
		if !(next > lo && next < hi) { // so that a NaN of a rate of 0 is caught
			next = lo + (hi-lo)/2
		}
		if math.Abs(next-t) < 0.5e-9 || next == lo || next == hi {
			return max(next, 0)
		}
		t = next
	}
	return max(t, 0)
}

// Validate implements Rate.
func (s Sine) Validate() error {
	errs := []error{
		within("mean rate", s.Mean, 1e-9, MaxRate),
		within("amplitude", s.Amplitude, 0, 1),
		within("phase", s.Phase, -2*math.Pi, 2*math.Pi),
	}
	if s.Period <= 0 {
		errs = append(errs, fmt.Errorf("period %v is out of range: want above 0", s.Period))
	}
	return errors.Join(errs...)
}

// A Step is a rate that holds for a while.
type Step struct {
	For  time.Duration
	Rate float64 // requests per second; 0 is a gap
}

// Steps is a piecewise-constant rate. Make it with NewSteps, Burst or Daily.
type Steps struct {
	steps  []Step
	start  []float64 // of each step, in seconds; one more for the end of the last
	until  []float64 // requests expected until the start of each step; likewise
	repeat bool
}

// NewSteps is the rate that goes through the steps in turn, once, after which
// no request comes, or again and again.
func NewSteps(repeat bool, steps ...Step) (Steps, error) {
	s := Steps{steps: steps, repeat: repeat, start: make([]float64, 1, len(steps)+1), until: make([]float64, 1, len(steps)+1)}
	for i, p := range steps {
		if p.For <= 0 {
			return Steps{}, fmt.Errorf("step %d lasts %v: want above 0", i+1, p.For)
		}
		if err := within("rate", p.Rate, 0, MaxRate); err != nil {
			return Steps{}, fmt.Errorf("step %d: %w", i+1, err)
		}
		s.start = append(s.start, s.start[i]+p.For.Seconds())
		s.until = append(s.until, s.until[i]+p.For.Seconds()*p.Rate)
	}
	return s, s.Validate()
}

// Burst is the rate that is quiet, and peak in the last length of every period:
// on and off where quiet is 0, spikes where length is short.
func Burst(quiet, peak float64, every, length time.Duration) (Steps, error) {
	if length <= 0 || length >= every {
		return Steps{}, fmt.Errorf("a burst of %v every %v: want a length above 0 and below the period", length, every)
	}
	return NewSteps(true, Step{every - length, quiet}, Step{length, peak})
}

// At implements Rate.
func (s Steps) At(t time.Duration) float64 {
	sec, end := t.Seconds(), s.start[len(s.steps)]
	if s.repeat {
		sec = math.Mod(sec, end)
	}
	if sec < 0 || sec >= end {
		return 0
	}
	return s.steps[sort.Search(len(s.steps)-1, func(i int) bool { return s.start[i+1] > sec })].Rate
}

// Reach implements Rate. Where the rate pauses just then, it is the instant
// after the pause, so that nothing arrives in a gap.
func (s Steps) Reach(n float64) float64 {
	all := s.until[len(s.steps)]
	var rounds float64
	if s.repeat {
		rounds = math.Floor(n / all)
		n = max(n-rounds*all, 0)
		if n >= all { // by rounding
			rounds, n = rounds+1, 0
		}
	} else if n >= all {
		return math.Inf(1)
	}
	i := sort.Search(len(s.steps)-1, func(i int) bool { return s.until[i+1] > n })
	return rounds*s.start[len(s.steps)] + s.start[i] + (n-s.until[i])/s.steps[i].Rate
}

// Validate implements Rate: there is a step, and a rate above 0.
func (s Steps) Validate() error {
	if len(s.steps) == 0 {
		return errors.New("no steps: want at least one")
	}
	if s.until[len(s.steps)] <= 0 {
		return errors.New("the rate is 0 in every step: want one above 0")
	}
	return nil
}
