package profile_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"gonum.org/v1/gonum/stat/distuv"

	"plimsoll/engine"
	"plimsoll/engine/enginetest"
	"plimsoll/engine/sim"
	"plimsoll/engine/virtual"
	"plimsoll/profile"
)

// seeds are the loads of each kind that TestVerdictsUnderLoad plays.
func seeds() uint64 {
	if enginetest.Full {
		return 200
	}
	return 25
}

// stepped is an engine whose steps take 6.6 ms, 0.2 ms for each sequence and 20 µs for
// each prompt token: about those of an 8B model on an H100.
type stepped struct{}

func (stepped) StepTime(b engine.Batch) engine.Picoseconds {
	d := 6.6e-3 + 0.2e-3*float64(b.DecodeSeqs) + 20e-6*float64(b.PrefillTokens)
	return engine.Picoseconds(d * float64(engine.Second))
}

// trialLoad is a kind of load on the simulator.
type trialLoad struct {
	phase profile.Phase
	role  engine.Role
	osl   int
	most  float64 // requests/s that the engine serves
}

// played is n requests after those that bring the engine there.
func (l trialLoad) played(t *testing.T, rate float64, before, n int, seed uint64) ([]profile.Request, profile.Window) {
	t.Helper()
	c := sim.Config{Role: l.role, KVBlocks: 1 << 18, Seed: seed, Noise: 0.03, Limits: engine.Limits{MaxNumSeqs: 256, MaxNumBatchedTokens: 8192, BlockSize: 16}}
	e, err := virtual.New(c, stepped{}, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(seed, 3))
	at, asks := 0.0, make([]profile.Ask, before+n)
	for i := range asks {
		asks[i] = profile.Ask{Due: time.Duration(at / rate * 1e9), ISL: 3000, OSL: l.osl}
		at += rng.ExpFloat64()
	}
	m, err := e.Play(t.Context(), profile.Script{Asks: asks, Seed: seed, Timeout: time.Hour}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return m.Requests, profile.Window{From: m.Requests[before].Due, To: m.Requests[before+n-1].Due}
}

// Verdicts of loads that are as long as an interval takes, at a share of what an
// engine serves, against the truth of a very long one: the table in docs/method.md.
func TestVerdictsUnderLoad(t *testing.T) {
	for _, l := range []trialLoad{
		{profile.Prefill, engine.RolePrefill, 1, 1 / 0.0666},
		{profile.Decode, engine.RoleDecode, 150, 256 / (6.6e-3 + 0.2e-3*256) / 150},
		{profile.Aggregated, engine.RoleAggregated, 150, 11.03}, // by an overload of it
	} {
		for _, use := range []float64{0.5, 0.8, 0.95} {
			if !enginetest.Full && (use != 0.8 || l.phase != profile.Prefill) {
				continue
			}
			t.Run(fmt.Sprintf("%s/%.2f", l.phase, use), func(t *testing.T) { l.verdicts(t, use) })
		}
	}
}

// verdicts plays loads at a share of what the engine serves.
func (l trialLoad) verdicts(t *testing.T, use float64) {
	rate := use * l.most
	long, w := l.played(t, rate, 10_000, 60_000, 99)
	truth := profile.Attain(long, w, profile.SLA{Stat: profile.Mean}, 1)
	queue := profile.QueueRequests(use, 0)
	n, slack := queue, 1.0
	if l.phase != profile.Prefill {
		slack = min(1, 6.8e-3/truth.TPOT.Mean.Seconds())
		n = profile.FlightRequests(truth.InFlight, slack)
	}
	if l.phase == profile.Aggregated {
		n = max(n, profile.QueueRequests(rate*0.0668, 0))
	}
	before := int(4 * max(1, rate*truth.E2E.Mean.Seconds()) / slack)
	if l.phase == profile.Prefill {
		before = queue / 4
	}
	given, held, missed, passed := 0, 0, 0, 0
	at := func(k float64) profile.SLA {
		f := func(d time.Duration) time.Duration { return time.Duration(k * float64(d)) }
		return profile.SLA{TTFT: f(truth.TTFT.Mean), ITL: f(truth.TPOT.Mean), Stat: profile.Mean}
	}
	in := func(d profile.Distribution, mean time.Duration) bool { return (d.Mean - mean).Abs() <= d.Half }
	for seed := range seeds() {
		rs, w := l.played(t, rate, before, n, seed+1)
		above, below := at(1.1), at(0.9)
		a := profile.Attain(rs, w, above, 1)
		b := profile.Attain(rs, w, below, 1)
		if a.TooShort(l.phase, above) {
			continue
		}
		given++
		if (l.phase == profile.Decode || in(a.TTFT, truth.TTFT.Mean)) && (l.phase == profile.Prefill || in(a.TPOT, truth.TPOT.Mean)) {
			held++
		}
		if !a.Holds(l.phase, above) {
			missed++
		}
		if b.Surely(l.phase, below) {
			passed++
		}
	}
	pc := func(k, of int) float64 { return 100 * float64(k) / float64(max(of, 1)) }
	t.Logf("%-10s used %.2f: %5d requests, %5.1f in flight: %3.0f %% have intervals, %3.0f %% of which hold the truth; %3.0f %% miss an SLA a tenth above it, %3.0f %% surely hold one a tenth below",
		l.phase, use, n, truth.InFlight, pc(given, int(seeds())), pc(held, given), pc(missed, given), pc(passed, given))
	cover := map[bool]float64{true: 0.85, false: 0.9}[l.phase == profile.Aggregated]
	for what, c := range map[string]struct {
		n, of int
		want  float64
	}{"have an interval": {given, int(seeds()), 0.8}, "whose interval holds the truth": {held, given, cover}} {
		if use < 0.9 && fewer(c.n, c.of, c.want) {
			t.Errorf("of %d loads, %d %s: want %.0f %%", c.of, c.n, what, 100*c.want)
		}
	}
	if pc(passed, given) > 10 || given == 0 {
		t.Errorf("an SLA a tenth below the truth is said to hold for sure in %.0f %% of %d loads", pc(passed, given), given)
	}
}

// fewer reports whether fewer than a share of loads do what that share should: of the
// 200 behind the table any fewer, of less so few as chance makes it in one of twenty.
func fewer(n, of int, want float64) bool {
	if of >= 200 {
		return float64(n) < want*float64(of)
	}
	return distuv.Binomial{N: float64(of), P: want}.CDF(float64(n)) < 0.05
}

// What the loads that are played by default can show.
func TestFewerThanAShare(t *testing.T) {
	for _, c := range []struct {
		n, of int
		want  float64
		fewer bool
	}{{20, 25, 0.9, false}, {19, 25, 0.9, true}, {18, 25, 0.85, false}, {17, 25, 0.85, true}, {16, 25, 0.8, true}, {17, 25, 0.8, false}, {179, 200, 0.9, true}, {180, 200, 0.9, false}} {
		if got := fewer(c.n, c.of, c.want); got != c.fewer {
			t.Errorf("%d of %d, want %.2f: fewer %v", c.n, c.of, c.want, got)
		}
	}
}
