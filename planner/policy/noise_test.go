package policy

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"

	"plimsoll/engine/enginetest"
	"plimsoll/planner"
)

// A load whose rate does not change makes no surprise, however few requests an interval
// has: the formulas count Poisson arrivals already. One that is as noisy and bursts
// besides keeps a reserve for what it bursts by.
func TestReserveIsOfWhatFormulasDoNotCount(t *testing.T) {
	for _, c := range []struct {
		name        string
		burst       float64 // of the rate, in one interval of twenty
		least, most float64 // reserve over the rate
	}{
		{"steady", 0, 0, 0.25},
		{"bursts", 1.5, 0.4, mostReserve},
	} {
		r := rand.New(rand.NewPCG(7, 8))
		const rate, seconds, ahead = 4.0, 15.0, 5
		n := noise{math.Sqrt(rate / seconds), ahead}
		var s surprise
		for range 200 {
			load := rate
			if r.Float64() < 0.05 {
				load *= 1 + c.burst
			}
			s.expect(rate, ahead)
			s.see(max(0, load+math.Sqrt(load/seconds)*r.NormFloat64()), 15*time.Second)
		}
		with, without := s.above(rate, 2, n)/rate, s.above(rate, 2, noise{})/rate
		if with < c.least || with > c.most || with > without {
			t.Errorf("%s: a reserve of %.2f, want %v to %v; with the noise %.2f", c.name, with, c.least, c.most, without)
		}
	}
}

// The highest of several intervals is what a simulation finds.
func TestNoiseQuantile(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 10))
	n := noise{2, 5}
	below := 0.0
	for range 20_000 {
		high := math.Inf(-1)
		for range n.of {
			high = max(high, n.each*r.NormFloat64())
		}
		if high <= n.quantile(0.9) {
			below += 1.0 / 20_000
		}
	}
	if math.Abs(below-0.9) > 0.01 {
		t.Errorf("%.3f stay below, want 0.9", below)
	}
}

// Noise that is taken off never makes a reserve larger, and more headroom never makes
// it smaller.
func TestReserveWithoutNoiseLaws(t *testing.T) {
	enginetest.Check(t, func(t *rapid.T) {
		var s surprise
		for range rapid.IntRange(0, 150).Draw(t, "decisions") {
			s.expect(rapid.Float64Range(0, 1000).Draw(t, "forecast"), rapid.IntRange(1, 5).Draw(t, "intervals"))
			s.see(rapid.Float64Range(0, 1000).Draw(t, "load"), time.Minute)
		}
		f, p := rapid.Float64Range(0, 1000).Draw(t, "f"), rapid.Float64Range(0, 4).Draw(t, "p")
		n := noise{rapid.Float64Range(0, 300).Draw(t, "noise"), rapid.IntRange(1, 20).Draw(t, "of")}
		with, more := s.above(f, p, n), s.above(f, p+0.1, n)
		if with < 0 || more < with || with > s.above(f, p, noise{})+1e-9 {
			t.Fatalf("%v with %+v, %v with more headroom, %v without noise", with, n, more, s.above(f, p, noise{}))
		}
	})
}

// What an interval has above its forecast by chance is not sized for, whatever is more
// is, and so are longer requests: of 60 in a minute 80 are by chance, and 90 are not.
func TestJumpIsBeyondChance(t *testing.T) {
	for _, c := range []struct {
		rate, isl float64
		jumps     bool
	}{
		{80.0 / 60, 990, false}, {90.0 / 60, 990, true}, {1, 1300, false}, {1, 2000, true},
	} {
		p := standard(t, func(o *DefaultOptions) { o.Margin = 0 })
		p.m.ISLSpread = planner.Known(0.0)
		need := demand{rate: 1, isl: 990, osl: 100}
		p.surprised(&need, demand{rate: c.rate, isl: c.isl, osl: 100}, 3, time.Minute)
		want := 1.0
		if c.jumps {
			want = c.rate * c.isl / 990
		}
		if math.Abs(need.prompts-want) > 1e-9 {
			t.Errorf("%.3g requests/s of %v tokens: sized for %v, want %v", c.rate, c.isl, need.prompts, want)
		}
	}
}
