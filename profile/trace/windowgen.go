package trace

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"time"

	"plimsoll/profile"
)

// DefaultMaxCV bounds the gaps' CV that a table of rates asks for: beyond it a
// window of ten minutes at 5 requests a second would miss its own mean rate by
// more than a tenth (CV over the root of the number of requests), and tables
// have values in the hundreds, which belong to single clients.
const DefaultMaxCV = 6

// WindowOptions say how to generate arrivals from a table of rates. The zero
// value takes the table as it is.
type WindowOptions struct {
	Scale float64 // of all rates, above 0; 0 = 1
	// MaxCV bounds the CV of gaps; 0 = DefaultMaxCV. 1 makes them Poisson's,
	// as those of very many independent clients are.
	MaxCV float64
	// ISL and OSL replace the table's mean lengths; nil = lengths around the
	// mean of each window.
	ISL, OSL Lengths
	// LengthCV spreads lengths log-normally around a window's mean with this
	// coefficient of variation, 0 to 10. At 0 every length is the mean, rounded
	// at random to one of its two neighbours so that the mean is kept.
	LengthCV float64
	Seed     uint64
	// From is the time after the first arrival before which no other is wanted: windows
	// that end before it are passed over, but for the first arrival of all.
	From time.Duration
}

// Validate says all that is wrong with o.
func (o WindowOptions) Validate() error {
	errs := []error{
		within("scale", o.Scale, 0, 1e6),
		within("max cv", o.MaxCV, 0, MaxCV),
		within("length cv", o.LengthCV, 0, 10),
		within("from", o.From.Seconds(), 0, math.MaxFloat64),
	}
	for _, l := range []Lengths{o.ISL, o.OSL} {
		if l != nil {
			errs = append(errs, l.Validate())
		}
	}
	return errors.Join(errs...)
}

// generateWindows is arrivals at the rates of a table: gamma gaps with the CV of
// the window that they begin in, moved by the integral of the rate as Generate
// does, so that nothing arrives in a window of rate 0. It holds one window.
func generateWindows(windows iter.Seq2[Window, error], o WindowOptions) Trace {
	return func(yield func(Arrival, error) bool) {
		g := newWindowGenerator(o)
		wanted := time.Duration(math.MinInt64) // where arrivals are, the first one apart
		came := false
		for w, err := range windows {
			if err == nil {
				err = g.enter(w)
			}
			if err != nil {
				yield(Arrival{}, err)
				return
			}
			if wanted == math.MinInt64 {
				wanted = w.Start + o.From
			}
			over := w.Start+w.Length <= wanted
			if over && came {
				continue
			}
			for a, more := g.next(); more; a, more = g.next() {
				if !yield(a, nil) {
					return
				}
				if came = true; over {
					break
				}
			}
		}
	}
}

// windowGenerator makes the arrivals of one window after the other.
type windowGenerator struct {
	opts           WindowOptions
	gaps, isl, osl *rand.Rand
	now            Window
	rate           float64 // of now, scaled
	process        Gaps
	passed         float64 // seconds of now
	left           float64 // of the gap to the next arrival, in mean gaps
	begun          bool
}

func newWindowGenerator(o WindowOptions) *windowGenerator {
	o.Scale = cmp.Or(o.Scale, 1)
	o.MaxCV = cmp.Or(o.MaxCV, DefaultMaxCV)
	return &windowGenerator{opts: o, gaps: stream(o.Seed, gapStream), isl: stream(o.Seed, islStream), osl: stream(o.Seed, oslStream)}
}

// enter begins a window.
func (g *windowGenerator) enter(w Window) error {
	g.now, g.rate, g.passed = w, w.Rate*g.opts.Scale, 0
	if g.rate == 0 {
		return nil
	}
	if (g.opts.ISL == nil && !(w.ISL >= 1)) || (g.opts.OSL == nil && !(w.OSL >= 1)) { // so that NaN is refused
		return fmt.Errorf("%s:%d: the window at %v has mean lengths %v and %v: want at least 1 token (hint: give the lengths: isl and osl)", w.File, w.Line, w.Start, w.ISL, w.OSL)
	}
	g.process = Gaps{profile.Gamma, min(w.CV, g.opts.MaxCV)}
	if g.process.CV < 1e-3 { // gaps all but equal, whose gamma shape would be out of bounds
		g.process = Gaps{Process: profile.Constant}
	}
	if !g.begun {
		g.left, g.begun = g.process.Draw(g.gaps), true
	}
	return nil
}

// next is the window's next arrival; false where it has no more.
func (g *windowGenerator) next() (Arrival, bool) {
	length := g.now.Length.Seconds()
	if g.rate == 0 || g.passed+g.left/g.rate >= length {
		g.left -= (length - g.passed) * g.rate
		return Arrival{}, false
	}
	g.passed += g.left / g.rate
	g.left = g.process.Draw(g.gaps)
	later, _ := seconds(g.passed) // within the window
	return Arrival{
		At:  g.now.Start + min(later, g.now.Length),
		ISL: g.length(g.opts.ISL, g.now.ISL, g.isl),
		OSL: g.length(g.opts.OSL, g.now.OSL, g.osl),
	}, true
}

// length draws from what replaces the table's lengths, or around its mean.
func (g *windowGenerator) length(replaced Lengths, mean float64, r *rand.Rand) int {
	if replaced != nil {
		return replaced.Draw(r)
	}
	if g.opts.LengthCV > 0 { // for σ² = ln(1 + CV²), mean · exp(σ·N − σ²/2) has that CV
		variance := math.Log1p(g.opts.LengthCV * g.opts.LengthCV)
		mean *= math.Exp(math.Sqrt(variance)*r.NormFloat64() - variance/2)
	}
	return min(max(int(mean+r.Float64()), 1), MaxTokens)
}
