package policy

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"plimsoll/engine"
	"plimsoll/engine/enginetest"
	"plimsoll/planner"
	"plimsoll/profile"
)

// A reserve covers what its probability says: of loads whose excesses over their
// forecasts are alike, that share stays below.
func TestReserveCoversItsShare(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	var s surprise
	within, all := 0.0, 0.0
	for i := range 20_000 {
		load := 100 + 10*r.NormFloat64()
		if i > 200 {
			all++
			if load <= 100+s.above(100, normal(0.9), noise{}) {
				within++
			}
		}
		s.expect(100, 1)
		s.see(load, time.Minute)
	}
	if got := within / all; math.Abs(got-0.9) > 0.02 {
		t.Errorf("%.3f of the loads stay below, want 0.9", got)
	}
}

// What is kept is the highest load until the next decision's replicas serve, not the
// last.
func TestSurpriseIsTheHighest(t *testing.T) {
	var s surprise
	s.expect(10, 3)
	for _, load := range []float64{11, 15, 12} {
		s.see(load, time.Minute)
	}
	if len(s.Past) != 1 || s.Past[0].Highest != 15 || len(s.Open) != 0 {
		t.Errorf("%+v", s)
	}
}

// The reserve is made of what went above forecasts in the latest time, however often
// decisions come: a burst is forgotten as soon with twice as many.
func TestSurpriseForgetsInTime(t *testing.T) {
	for _, length := range []time.Duration{5 * time.Second, 10 * time.Second, 15 * time.Second, 30 * time.Second} {
		var s surprise
		passed := time.Duration(0)
		for range int(memory / length) {
			s.expect(10, 1)
			s.see(14, length)
		}
		for s.above(10, normal(0.8), noise{}) > 3 {
			s.expect(10, 1)
			s.see(10, length)
			passed += length
		}
		if passed < 35*time.Minute || passed > memory {
			t.Errorf("with decisions every %v a burst is forgotten after %v", length, passed)
		}
	}
}

// A headroom beyond what the loads seen can tell goes on growing: above 2.3 it did
// nothing.
func TestHeadroomGrowsToItsEnd(t *testing.T) {
	var s surprise
	r := rand.New(rand.NewPCG(5, 6))
	for range 300 {
		s.expect(100, 1)
		s.see(100+3*r.NormFloat64(), 15*time.Second)
	}
	was := 0.0
	for z := 0.5; z <= 4; z += 0.5 {
		now := s.above(100, z, noise{})
		if now <= was || now > 1.5*(3+prior*100)*z {
			t.Errorf("headroom %v reserves %v, %v less %v", z, now, 0.5, was)
		}
		was = now
	}
}

// One jump to several times the load is followed, not waited for ever after.
func TestOneJumpIsForgotten(t *testing.T) {
	var s surprise
	for i := range 100 {
		s.expect(10, 1)
		s.see(map[bool]float64{true: 45, false: 10}[i == 30], time.Minute)
	}
	if got := s.above(10, 2, noise{}); got > 3 {
		t.Errorf("%v are kept over 10", got)
	}
	for range 60 {
		s.expect(10, 1)
		s.see(45, time.Minute)
	}
	if got := s.above(45, 2, noise{}); got > mostReserve*45 {
		t.Errorf("%v are kept over 45", got)
	}
}

// A reserve is never below 0 nor above its bound, grows with the probability and, at
// no larger a forecast, never by more than the load.
func TestReserveLaws(t *testing.T) {
	enginetest.Check(t, func(t *rapid.T) {
		var s surprise
		for range rapid.IntRange(0, 150).Draw(t, "decisions") {
			s.expect(rapid.Float64Range(0, 1000).Draw(t, "forecast"), rapid.IntRange(1, 5).Draw(t, "intervals"))
			s.see(rapid.Float64Range(0, 1000).Draw(t, "load"), time.Minute)
		}
		if err := s.check(); err != nil {
			t.Fatal(err)
		}
		f, p := rapid.Float64Range(0, 1000).Draw(t, "f"), rapid.Float64Range(0, 4).Draw(t, "p")
		less, more := s.above(f, p, noise{}), s.above(f, p+0.1, noise{})
		if less < 0 || more < less || more > mostReserve*f {
			t.Fatalf("of %v: %v at %v, %v at more", f, less, p, more)
		}
		if high := s.above(2*f, p, noise{}); high < less {
			t.Fatalf("of %v: %v, of twice as much: %v", f, less, high)
		}
	})
}

// The margin brings the mean of misses to what is aimed at, whatever the fleet's
// formula is off by, as far as its bounds allow.
func TestMarginFindsWhatHolds(t *testing.T) {
	for _, off := range []float64{0.9, 1, 1.2, 1.5} {
		var m margin
		misses, n := 0.0, 0.0
		for i := range 100_000 {
			// Requests miss the more the further the pool is below what it takes.
			missed := math.Min(1, 0.005*math.Exp(20*(math.Log(off)-m.Prefill)))
			m.learn(engine.RolePrefill, missed/0.01, 1, time.Minute)
			if i > 50_000 {
				misses, n = misses+missed, n+1
			}
		}
		if got := misses / n; math.Abs(got-0.005) > 0.0005 {
			t.Errorf("a formula that is off by %v: %v of the requests miss, want 0.005; margins %+v", off, got, m)
		}
	}
	var m margin
	m.learn(engine.RoleDecode, 100, 1, 1000*time.Hour)
	if m.Prefill != 0 || m.Decode != mostMargin || m.check() != nil {
		t.Errorf("%+v", m)
	}
}

// What TTFT has beyond prompts and queue took all engines for slow: the emptier they
// were, the slower, and the fleet doubled at a load that did not change. Where a pool
// says how many prompts it serves, it is known that they are not.
func TestRestOfTTFTIsNoSlowEngine(t *testing.T) {
	busy := minute(20, pd(6, 2), func(s *planner.Situation) {
		s.Pools[0].Running, s.Pools[1].Running = planner.Known(20*0.109), planner.Known(20.0)
		s.TTFT.Mean = planner.Known(duration(0.109 + 0.08))
	})
	p := standard(t)
	d := after(p, repeat(40, busy)...)
	if math.Abs(d.Correction.Prefill.Value-1) > 0.05 || math.Abs(p.m.Slower.Extra.Seconds()-0.08) > 0.01 {
		t.Errorf("%+v, %v beyond", d.Correction, p.m.Slower.Extra)
	}
	busy.Pools[0].Running = planner.Known(20 * 0.218) // engines that really are
	p = standard(t)
	if d := after(p, repeat(60, busy)...); math.Abs(d.Correction.Prefill.Value-2) > 0.1 {
		t.Errorf("%+v of engines half as fast", d.Correction)
	}
}

// A percentile of requests is not broken by single gaps, and not kept by them: where the
// metrics have those only, nothing is known of it. Their mean is taken for the mean.
func TestGapsAreNoRequests(t *testing.T) {
	s := minute(4, pd(2, 2), func(s *planner.Situation) {
		s.Deployment.SLA.Stat = profile.P99
		s.ITL.Mean, s.ITL.P50, s.ITL.P99 = planner.Known(15*ms), planner.Exactly(10*ms), planner.Exactly(110*ms)
	})
	if got := tail(s, 1); got != 0 || breaksITL(s) || itlMissed(s).known() {
		t.Errorf("of requests that nobody saw: %v times the mean, broken %v, %v missed", got, breaksITL(s), itlMissed(s))
	}
	s.TPOT = planner.Spread[time.Duration]{Count: 1000, P50: planner.Exactly(14 * ms), P99: planner.Exactly(18 * ms)}
	if got := tail(s, 1); math.Abs(got-18.0/15) > 1e-9 || breaksITL(s) {
		t.Errorf("of requests: %v times the mean, broken %v", got, breaksITL(s))
	}
}

// steady is Default at rates, in pulses of 30 s, with what it asks for there at once.
func steady(t testing.TB, rate func(i int) float64, pulses int) []planner.Decision {
	p := standard(t, func(o *DefaultOptions) { o.NoCorrection, o.Every, o.StableFor = true, 3*time.Minute, 3*time.Minute })
	have := planner.Replicas{Prefill: 4, Decode: 4}
	var all []planner.Decision
	for i := range pulses {
		s := minute(rate(i), have)
		s.Start, s.Length = time.Unix(int64(30*i), 0), 30*time.Second
		s.Arrivals.Value /= 2
		d := p.Propose(s)
		all, have = append(all, d), d.Want
	}
	return all
}

// Under a constant load, with arrivals as Poisson has them, the fleet settles and
// does not flap; and the same observations make the same decisions.
func TestConstantLoadSettles(t *testing.T) {
	poisson := func() func(int) float64 {
		r := rand.New(rand.NewPCG(1, 2))
		return func(int) float64 { return math.Max(0, 20+math.Sqrt(20.0/30)*r.NormFloat64()) }
	}
	all := steady(t, poisson(), 240)
	least, most := all[20].Want.Prefill, all[20].Want.Prefill
	below, turns := 0, 0
	for i, d := range all[21:] {
		least, most = min(least, d.Want.Prefill), max(most, d.Want.Prefill)
		if d.Want.Prefill < 3 || d.Want.Decode < 2 { // what 20 requests/s take
			below++
		}
		if d.Want != all[20+i].Want {
			turns++
		}
	}
	if below > 0 || most-least > 1 || turns > 12 {
		t.Errorf("in two hours %d decisions below the load, prefill from %d to %d, %d changes", below, least, most, turns)
	}
	again := steady(t, poisson(), 240)
	if !slices.EqualFunc(all, again, func(a, b planner.Decision) bool { return a.Want == b.Want && len(a.Steps) == len(b.Steps) }) {
		t.Error("the same observations, other decisions")
	}
}

// Whatever the load does, replicas that are taken away were not needed for what was
// just observed, and a pool goes down once in an adjustment interval.
func TestNeverBelowTheLoadObserved(t *testing.T) {
	enginetest.Check(t, func(r *rapid.T) {
		rates := rapid.SliceOfN(rapid.Float64Range(0.5, 60), 40, 40).Draw(r, "rates")
		e := standard(&quietTB{}, off).engines(promise().SLA)
		have, down := planner.Replicas{Prefill: 4, Decode: 4}, -100
		for i, d := range steady(&quietTB{}, func(i int) float64 { return rates[i] }, len(rates)) {
			need := demand{rate: rates[i], isl: 990, osl: 100, spread2: 1}
			for _, role := range []planner.Role{engine.RolePrefill, engine.RoleDecode} {
				if n, _, _ := e.least(role, need); d.Want.Of(role) < have.Of(role) && d.Want.Of(role) < n {
					r.Fatalf("decision %d takes %s to %d, %v requests/s need %d", i, role, d.Want.Of(role), rates[i], n)
				}
			}
			if d.Want.Prefill < have.Prefill {
				if i-down < 6 {
					r.Fatalf("prefill goes down after %d pulses again", i-down)
				}
				down = i
			}
			have = d.Want
		}
	})
}
