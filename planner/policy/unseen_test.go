package policy

import (
	"fmt"
	"testing"
	"time"

	"plimsoll/planner"
)

// watch has a policy decide on intervals of 15 s with a rate, 0: of which nothing is
// known, and gives the replicas wanted after each.
type watch struct {
	t    testing.TB
	p    *Default
	have planner.Replicas
	at   time.Time
}

func newWatch(t testing.TB) *watch {
	p := standard(t, func(o *DefaultOptions) { o.NoCorrection, o.Ahead, o.StableFor = true, 2*time.Minute, 3*time.Minute })
	return &watch{t: t, p: p, have: planner.Replicas{Prefill: 4, Decode: 4}, at: time.Unix(0, 0)}
}

func (w *watch) see(rate float64) planner.Observation {
	const length = 15 * time.Second
	var o planner.Observation
	if rate > 0 {
		o = minute(rate, w.have).Observation
		o.Arrivals.Value = rate * length.Seconds()
	}
	o.Start, o.Length = w.at, length
	w.at = w.at.Add(length)
	return o
}

func (w *watch) decide(rate float64, intervals int) planner.Decision {
	var d planner.Decision
	for range intervals {
		d = w.p.Propose(planner.Situation{Observation: w.see(rate), Deployment: promise(), Have: w.have})
		w.have = d.Want
	}
	return d
}

// Metrics that were away, however long, are no reason to go down at the first look.
func TestNothingIsGivenAwayAfterAGap(t *testing.T) {
	for _, gap := range []int{0, 4, 16, 20, 1000} {
		t.Run(fmt.Sprint(gap), func(t *testing.T) {
			w := newWatch(t)
			w.decide(30, 300)
			before := w.have
			if w.decide(0, gap); w.have != before {
				t.Fatalf("%v becomes %v blindly", before, w.have)
			}
			if d := w.decide(2, 1); d.Want != before {
				t.Errorf("%v becomes %v at once: %v", before, d.Want, rulesOf(d, "prefill"))
			}
			if w.decide(2, 60); w.have.Prefill >= before.Prefill {
				t.Errorf("%v is kept for good", w.have)
			}
		})
	}
}

// Nor is a planner that was away, with its memory.
func TestNothingIsGivenAwayAfterARestart(t *testing.T) {
	core := func(p *Default) *planner.Core {
		c, err := planner.New(planner.Options{Deployment: promise(), Policy: p, OnLoss: planner.Hold})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	w := newWatch(t)
	c := core(w.p)
	for range 300 {
		w.have = c.Step(w.see(30)).Want
		c.Asked(w.have)
	}
	saved, err := c.Save()
	if err != nil {
		t.Fatal(err)
	}
	again := core(newWatch(t).p)
	if err := again.Restore(saved); err != nil {
		t.Fatal(err)
	}
	for range 40 { // serve tells what it missed, of which here nothing is known
		again.Tell(w.see(0))
	}
	if d := again.Step(w.see(2)); d.Want != w.have {
		t.Errorf("%v becomes %v in the first 15 s after 10 minutes", w.have, d.Want)
	}
}

// A forecast is not compared with what came after a gap.
func TestSurpriseIsNotOfAGap(t *testing.T) {
	w := newWatch(t)
	w.decide(20, 300)
	w.decide(0, 1920)
	after := w.decide(30, 40).Forecast
	if high := after.High.Value / after.Rate.Value; high > 1.2 {
		t.Errorf("%.2f of the forecast is sized for, after a rate of 20 and eight hours of which nothing is known", high)
	}
}

// Replicas that start sooner than they did leave no forecasts of the longer time.
func TestSurpriseOfReplicasThatStartSooner(t *testing.T) {
	var s surprise
	load := 100.0
	step := func(intervals int) {
		s.see(load, 15*time.Second)
		s.expect(load, intervals)
	}
	for range 300 {
		step(121)
	}
	for range 140 {
		load += 0.5
		step(9)
	}
	if got := s.above(load, 2, noise{}); got > 0.1*load || len(s.Open) != 9 {
		t.Errorf("a load that rises by 4.5 within nine intervals has a reserve of %.1f, %d forecasts open", got, len(s.Open))
	}
	s.Open[0].Left = 1e9
	if s.check() == nil {
		t.Error("a forecast for 475 years is taken in")
	}
}
