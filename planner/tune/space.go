package tune

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

// Parameter is one that is searched.
type Parameter struct {
	Name string
	// Low and High bound what is tried; Low is below High. Default may lie outside.
	Low, High, Default float64
	Step               float64 // values are its multiples, and the bounds; above 0
	Log                bool    // tried evenly over orders of magnitude; Low is above 0
	// Choices above 0 makes it one of as many words instead: values are 0 to
	// Choices−1, and bounds and step are not looked at.
	Choices int
}

// Setting has a value of each parameter.
type Setting []float64

// mostChoices and mostParameters are more than anybody tunes: beyond, points of a
// Halton sequence lie on lines.
const (
	mostChoices    = 1000
	mostParameters = 16
)

func (p Parameter) check() error {
	finite := func(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }
	switch {
	case p.Choices < 0 || p.Choices > mostChoices || p.Choices == 1:
		return fmt.Errorf("%s has %d choices: want 2 to %d, or 0 for a number", p.Name, p.Choices, mostChoices)
	case p.Choices > 0 && !(p.Default >= 0 && p.Default < float64(p.Choices) && p.Default == math.Trunc(p.Default)):
		return fmt.Errorf("the default of %s is choice %v: want 0 to %d", p.Name, p.Default, p.Choices-1)
	case p.Choices > 0:
	case !finite(p.Low) || !finite(p.High) || !finite(p.Default) || p.Low >= p.High:
		return fmt.Errorf("%s goes from %v to %v and is %v by default: want finite numbers, the first below the second", p.Name, p.Low, p.High, p.Default)
	case !(p.Step > 0 && finite(p.Step)):
		return fmt.Errorf("the step of %s is %v: want more than 0", p.Name, p.Step)
	case p.Log && p.Low <= 0:
		return fmt.Errorf("%s goes from %v over orders of magnitude: want more than 0", p.Name, p.Low)
	}
	return nil
}

// at is the value at a place from 0 to below 1.
func (p Parameter) at(u float64) float64 {
	if p.Choices > 0 {
		return math.Min(math.Floor(u*float64(p.Choices)), float64(p.Choices-1))
	}
	v := p.Low + u*(p.High-p.Low)
	if p.Log {
		v = p.Low * math.Pow(p.High/p.Low, u)
	}
	// A multiple by its whole number, so that 0.1 · 3 is written 0.3.
	n := math.Round(v / p.Step)
	if inverse := math.Round(1 / p.Step); inverse > 1 && math.Abs(inverse*p.Step-1) < 1e-9 {
		v = n / inverse
	} else {
		v = n * p.Step
	}
	return math.Min(math.Max(v, p.Low), p.High)
}

// place is where a value lies, from 0 to 1; choices that differ are 1 apart.
func (p Parameter) place(v float64) float64 {
	switch {
	case p.Choices > 0:
		return v
	case p.Log:
		return math.Log(math.Max(v, p.Low*1e-3)/p.Low) / math.Log(p.High/p.Low)
	default:
		return (v - p.Low) / (p.High - p.Low)
	}
}

// defaults are the default settings.
func (o Options) defaults() Setting {
	s := make(Setting, len(o.Parameters))
	for i, p := range o.Parameters {
		s[i] = p.Default
	}
	return s
}

// away is how far a setting lies from the default one, over all parameters.
func (o Options) away(s Setting) (sum float64) {
	for i, p := range o.Parameters {
		if p.Choices > 0 {
			if s[i] != p.Default {
				sum++
			}
			continue
		}
		sum += math.Abs(p.place(s[i]) - p.place(p.Default))
	}
	return sum
}

// Options are what is searched, and how far.
type Options struct {
	Parameters []Parameter // 1 to 16
	Seeds      int         // of every comparison, 2 to 1000
	Budget     int         // trials at most, 2·Seeds to 100 000
	Target     float64     // attainment to hold, above 0 to 1
	Seed       uint64      // of the design
	// Valid says whether a setting makes sense; nil = all do. Others are not tried.
	Valid func(Setting) bool
}

const (
	mostSeeds  = 1000
	mostBudget = 100_000
)

// Check says all that is wrong.
func (o Options) Check() error {
	var errs []error
	bad := func(wrong bool, format string, args ...any) {
		if wrong {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	bad(len(o.Parameters) < 1 || len(o.Parameters) > mostParameters, "%d parameters: want 1 to %d", len(o.Parameters), mostParameters)
	for i, p := range o.Parameters {
		errs = append(errs, p.check())
		bad(slices.ContainsFunc(o.Parameters[:i], func(q Parameter) bool { return q.Name == p.Name }), "%s is there twice", p.Name)
	}
	bad(o.Seeds < 2 || o.Seeds > mostSeeds, "%d seeds: want 2 to %d", o.Seeds, mostSeeds)
	bad(o.Budget < 2*o.Seeds || o.Budget > mostBudget, "a budget of %d trials: want twice the seeds, %d, to %d", o.Budget, 2*o.Seeds, mostBudget)
	bad(!(o.Target > 0 && o.Target <= 1), "the target is %v: want a share above 0 to 1", o.Target)
	return errors.Join(errs...)
}
