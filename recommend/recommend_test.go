package recommend

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"plimsoll/engine"
	"plimsoll/engine/enginetest"
	"plimsoll/profile"
)

const ms = time.Millisecond

func prefill(tp int, ttft time.Duration) profile.Point {
	return profile.Point{
		ID: "prefill/" + engine.TP(tp).Slug(), Phase: profile.Prefill, ISL: 3000, Requests: 5, InFlight: 1,
		Config:           engine.Config{Parallelism: engine.TP(tp)},
		TTFT:             profile.Distribution{N: 5, Mean: ttft, P50: ttft, P90: ttft, P95: ttft, P99: ttft},
		ThroughputPerGPU: 3000 / ttft.Seconds() / float64(tp),
	}
}

func decode(tp int, n float64, itl time.Duration) profile.Point {
	return profile.Point{
		ID: engine.TP(tp).Slug() + itl.String(), Phase: profile.Decode, Requests: int(n), InFlight: n,
		Config:           engine.Config{Parallelism: engine.TP(tp)},
		ITL:              profile.Distribution{N: 100, Mean: itl, P99: itl * 2},
		ThroughputPerGPU: n / itl.Seconds() / float64(tp),
	}
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

func sla(ttft, itl time.Duration) profile.SLA {
	return profile.SLA{TTFT: ttft, ITL: itl, Stat: profile.Mean}
}

func choose(t *testing.T, phase profile.Phase, s profile.SLA, rank Rank, ps ...profile.Point) Choice {
	t.Helper()
	c, err := Choose(phase, ps, s, rank, 150)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestThresholdsAsUpstream(t *testing.T) {
	check := func(got Bound, upper, lower float64) {
		t.Helper()
		if math.Abs(got.Upper-upper) > 0.005 || math.Abs(got.Lower-lower) > 0.005 {
			t.Errorf("got %.3f/%.3f, want %.2f/%.2f", got.Upper, got.Lower, upper, lower)
		}
	}
	check(PrefillQueue(50*ms, 48370*time.Microsecond, 1), 0.24, 0.10)
	check(PrefillQueue(200*ms, 50*ms, 1), 3.8, 2.2)
	check(PrefillQueue(200*ms, 50*ms, 8), 30.4, 17.6) // 8 · (1.2·4 − 1): eight prompts take 50 ms
	check(PrefillQueue(50*ms, 100*ms, 8), 0.1, 0.1)
	check(PrefillQueue(50*ms, 0, 1), 0.1, 0.1)
	check(DecodeKV(0.00), 0.20, 0.10)
	check(DecodeKV(0.10), 0.30, 0.10)
	check(DecodeKV(0.95), 1.00, 0.75)
	check(DecodeKV(4.59), 1.00, 0.80) // of a use that counts who waits
}

// v0.2.1 printed the decode bounds swapped.
func TestDefectDecodeBoundsSwapped(t *testing.T) {
	enginetest.Check(t, func(t *rapid.T) {
		b := DecodeKV(rapid.Float64Range(-1, 100).Draw(t, "u"))
		if b.Upper < b.Lower || b.Lower < 0 || b.Upper > 1 {
			t.Fatalf("upper %v below lower %v", b.Upper, b.Lower)
		}
	})
}

func TestAMissIsShownAsOne(t *testing.T) {
	for _, tc := range []struct {
		latency, limit time.Duration
		want           string
	}{
		{72 * ms, 50 * ms, "72.00 ms > 50.00 ms"},
		{20*ms + 1200*time.Nanosecond, 20 * ms, "20.001 ms > 20.000 ms"},
		{20*ms + 1, 20 * ms, "20.000001 ms > 20.000000 ms"},
		{6841 * time.Microsecond, time.Microsecond, "6.841 ms > 0.001 ms"},
	} {
		if got := above(tc.latency, tc.limit); got != tc.want {
			t.Errorf("%v above %v: %q, want %q", tc.latency, tc.limit, got, tc.want)
		}
	}
}

func TestChoosePrefill(t *testing.T) {
	c := choose(t, profile.Prefill, sla(50*ms, 10*ms), BySingle, prefill(1, 72*ms), prefill(2, 45*ms), prefill(4, 30*ms))
	if !c.Feasible || c.Picked.Label() != "TP:2" {
		t.Fatalf("picked %s feasible %v, want TP:2", c.Picked.Label(), c.Feasible)
	}
	want := map[string]string{"TP:1": "misses the SLA: mean TTFT 72.00 ms > 50.00 ms", "TP:4": "lower throughput: 25,000 tokens/s/GPU (pick: 33,333, -25 %)"}
	for _, r := range c.Rejected {
		if r.Reason != want[r.Label] {
			t.Errorf("%s lost because %q, want %q", r.Label, r.Reason, want[r.Label])
		}
	}
	if len(c.Rejected) != 2 {
		t.Errorf("%d rejected, want 2", len(c.Rejected))
	}
	if !strings.Contains(c.Why, "+33 % over TP:4") {
		t.Errorf("why = %q", c.Why)
	}
}

func TestChooseMeetsAtEquality(t *testing.T) {
	c := choose(t, profile.Prefill, sla(45*ms, 10*ms), BySingle, prefill(2, 45*ms), prefill(4, 30*ms))
	if c.Picked.Label() != "TP:2" || !c.Feasible {
		t.Errorf("picked %s: TTFT equal to the SLA must meet it", c.Picked.Label())
	}
}

func TestChooseNothingMeets(t *testing.T) {
	c := choose(t, profile.Decode, sla(50*ms, 1*ms), BySingle, decode(1, 8, 9*ms), decode(2, 1, 5*ms), decode(4, 1, 4*ms))
	if c.Feasible || c.Picked.Label() != "TP:4" {
		t.Errorf("picked %s feasible %v, want nearest TP:4, infeasible", c.Picked.Label(), c.Feasible)
	}
}

func TestChooseRanksDiffer(t *testing.T) {
	// TP:1 just meets 74 ms and so can hardly queue.
	ps := []profile.Point{prefill(1, 72*ms), prefill(2, 45*ms)}
	c := choose(t, profile.Prefill, sla(74*ms, 10*ms), BySingle, ps...)
	if c.Picked.Label() != "TP:1" {
		t.Fatalf("picked %s", c.Picked.Label())
	}
	s := choose(t, profile.Prefill, sla(74*ms, 10*ms), BySustained, ps...)
	if s.Picked.Label() != "TP:2" {
		t.Errorf("sustained picks %s, want TP:2", s.Picked.Label())
	}
}

// Loads of one configuration that sustain the same are no tie of GPUs.
func TestSameSustained(t *testing.T) {
	ch := choose(t, profile.Decode, sla(200*ms, 20*ms), BySustained, at(1, 6), at(60, 18), at(62, 19))
	for _, r := range ch.Rejected {
		if strings.Contains(r.Reason, "more GPUs") || (r.InFlight == 62) != strings.HasSuffix(r.Reason, ", but fewer measured") {
			t.Errorf("at %.0f in flight: %s", r.InFlight, r.Reason)
		}
	}
}

func TestChooseTieGoesToFewerGPUs(t *testing.T) {
	a, b := prefill(1, 41*ms), prefill(2, 20*ms) // b is 2.5 % ahead per GPU
	a.Throughput95 = profile.Interval{Low: a.ThroughputPerGPU * 0.95, High: a.ThroughputPerGPU * 1.05}
	b.Throughput95 = profile.Interval{Low: b.ThroughputPerGPU * 0.95, High: b.ThroughputPerGPU * 1.05}
	c := choose(t, profile.Prefill, sla(50*ms, 0), BySingle, b, a)
	if c.Picked.Label() != "TP:1" {
		t.Errorf("picked %s, want TP:1", c.Picked.Label())
	}
	if !strings.Contains(c.Why, "fewer GPUs") || !strings.Contains(c.Rejected[0].Reason, "ties with the pick") {
		t.Errorf("why %q; lost %q", c.Why, c.Rejected[0].Reason)
	}
	a.Throughput95, b.Throughput95 = profile.Interval{}, profile.Interval{}
	if c := choose(t, profile.Prefill, sla(50*ms, 0), BySingle, a, b); c.Picked.Label() != "TP:2" {
		t.Errorf("without intervals picked %s, want TP:2", c.Picked.Label())
	}
}

func TestChooseFailuresNeverWin(t *testing.T) {
	bad := decode(1, 64, 9*ms)
	bad.Failures, bad.FailsTooOften = 1, true
	c := choose(t, profile.Decode, sla(0, 10*ms), BySingle, bad, decode(1, 8, 8*ms))
	if c.Picked.Point.InFlight != 8 {
		t.Errorf("picked in-flight %v", c.Picked.Point.InFlight)
	}
	dead := prefill(1, 0)
	dead.ThroughputPerGPU, dead.Failures = 0, 5
	c2, err := Choose(profile.Prefill, []profile.Point{dead}, sla(50*ms, 0), BySingle, 150)
	if !errors.Is(err, ErrNoPoints) || len(c2.Rejected) != 1 {
		t.Errorf("err %v, rejected %v", err, c2.Rejected)
	}
}

// The winner of a feasible choice is as good as a dumb exhaustive search's.
func TestChooseAgainstExhaustive(t *testing.T) {
	enginetest.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 12).Draw(t, "n")
		var ps []profile.Point
		for range n {
			tp := 1 << rapid.IntRange(0, 3).Draw(t, "tp")
			ps = append(ps, decode(tp, float64(rapid.IntRange(1, 64).Draw(t, "in flight")), time.Duration(rapid.IntRange(1, 40).Draw(t, "itl"))*ms))
		}
		limit := time.Duration(rapid.IntRange(1, 40).Draw(t, "limit")) * ms
		c, err := Choose(profile.Decode, ps, sla(0, limit), BySingle, 150)
		if err != nil {
			t.Fatal(err)
		}
		best := 0.0
		for _, p := range ps {
			if p.ITL.Mean <= limit {
				best = max(best, p.ThroughputPerGPU)
			}
		}
		if c.Feasible != (best > 0) || c.Feasible && c.Picked.Point.ThroughputPerGPU != best {
			t.Fatalf("picked %v feasible %v, exhaustive %v", c.Picked.Point.ThroughputPerGPU, c.Feasible, best)
		}
		if len(c.Rejected) != n-1 {
			t.Fatalf("%d rejected of %d", len(c.Rejected), n)
		}
	})
}

// The closed forms against a queue simulated by Lindley's recursion.
func TestWaitAgainstSimulatedQueue(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, rho := range []float64{0.3, 0.6, 0.85} {
		const n = 400_000
		waits := make([]float64, n)
		w, sum := 0.0, 0.0
		for i := range waits {
			waits[i] = w
			sum += w
			w = max(0, w+1-rng.ExpFloat64()/rho)
		}
		if mean, want := sum/n, waitMean(rho); math.Abs(mean/want-1) > 0.06 {
			t.Errorf("ρ=%.2f: mean wait %.4f simulated, %.4f by formula", rho, mean, want)
		}
		slices.Sort(waits)
		for _, q := range []float64{0.75, 0.9, 0.95, 0.99} {
			x := waits[int(q*n)]
			if got := waitCDF(rho, x); math.Abs(got-q) > 0.006 {
				t.Errorf("ρ=%.2f: P(W ≤ %.3f) = %.4f, simulated %.4f", rho, x, got, q)
			}
		}
	}
}

func TestWaitAsymptoteMeetsSum(t *testing.T) {
	for _, rho := range []float64{0.2, 0.5, 0.8, 0.95} {
		exact, asym := waitCDF(rho, exactTerms), waitCDF(rho, exactTerms+1e-9)
		if math.Abs(exact-asym) > 1e-6 {
			t.Errorf("ρ=%.2f: %.9f by the sum, %.9f by the asymptote at x=%d", rho, exact, asym, exactTerms)
		}
	}
}

func TestSustainableUtilizationLaws(t *testing.T) {
	at := func(d, limit time.Duration, s profile.Statistic) float64 {
		return SustainableUtilization(Service{Mean: d, At: d, Batch: 1}, limit, s)
	}
	if got := at(50*ms, 50*ms, profile.Mean); got != 0 {
		t.Errorf("no slack: ρ = %v, want 0", got)
	}
	// slack = D: W = D at ρ = 2/3, of which a load's spread and prompts behind leave room.
	if got := at(50*ms, 100*ms, profile.Mean); got < 0.5 || got > 0.62 {
		t.Errorf("ρ = %v, want 0.5 to 0.62", got)
	}
	enginetest.Check(t, func(t *rapid.T) {
		d := time.Duration(rapid.IntRange(1, 1000).Draw(t, "d")) * ms
		a := d + time.Duration(rapid.IntRange(0, 5000).Draw(t, "slack"))*ms
		b := a + time.Duration(rapid.IntRange(0, 5000).Draw(t, "more"))*ms
		last := 1.0
		for _, s := range []profile.Statistic{profile.P50, profile.P90, profile.P95, profile.P99} {
			ra, rb := at(d, a, s), at(d, b, s)
			if ra < 0 || ra >= 1 || rb < ra-1e-9 {
				t.Fatalf("%s: ρ %v at limit %v, %v at %v", s, ra, a, rb, b)
			}
			if ra > last+1e-9 {
				t.Fatalf("%s allows more load (%v) than a lower percentile (%v)", s, ra, last)
			}
			last = ra
		}
		std := time.Duration(rapid.IntRange(0, int(d)).Draw(t, "std"))
		if v := SustainableUtilization(Service{d, std, d, math.Inf(1)}, b, profile.Mean); v > at(d, b, profile.Mean)+1e-9 {
			t.Fatalf("ρ %v where services vary and share steps", v)
		}
	})
}

func TestShortfall(t *testing.T) {
	c := choose(t, profile.Decode, sla(50*ms, 1*ms), BySingle, decode(4, 1, 4326*time.Microsecond))
	s, short := c.Shortfall(sla(50*ms, 1*ms))
	if !short || s.Metric != "ITL" || s.Promise != 4330*time.Microsecond {
		t.Errorf("%+v", s)
	}
	if want := "nothing meets the SLA: the lowest ITL is 4.33 ms (limit 1 ms, 4.33×)"; s.String() != want || c.Why != want {
		t.Errorf("%q, why %q, want %q", s, c.Why, want)
	}
	bad := prefill(1, 10*ms)
	bad.Failures, bad.FailsTooOften = 1, true
	c = choose(t, profile.Prefill, sla(50*ms, 1*ms), BySingle, bad)
	if s, short := c.Shortfall(sla(50*ms, 1*ms)); !short || s.Metric != "failures" || s.Promise != 0 {
		t.Errorf("fast but failing: %+v", s)
	}
	if c.Picked.RPS != 0 || c.Picked.Sustained != 0 {
		t.Errorf("a failing point sustains %v requests/s", c.Picked.RPS)
	}
	if _, short := choose(t, profile.Prefill, sla(50*ms, 1*ms), BySingle, prefill(1, 10*ms)).Shortfall(sla(50*ms, 1*ms)); short {
		t.Error("a feasible choice falls short")
	}
}

// What could be promised is never below what was measured, nor 1 % above it.
func TestPromiseRoundsUp(t *testing.T) {
	enginetest.Check(t, func(t *rapid.T) {
		d := time.Duration(rapid.Int64Range(1, 1e12).Draw(t, "d"))
		if r := roundUp(d); r < d || float64(r) > 1.01*float64(d)+1 {
			t.Fatalf("%v rounds to %v", d, r)
		}
	})
}

// Each attention replica of an engine has a queue of its own: together they
// sustain so many times what one does.
func TestReplicasSustainTogether(t *testing.T) {
	sla := profile.SLA{TTFT: 200 * time.Millisecond, ITL: time.Second, Stat: profile.Mean}
	at := func(p engine.Parallelism) Candidate {
		return evaluate(profile.Point{
			Phase: profile.Prefill, Config: engine.Config{Parallelism: p}, ISL: 1000, Requests: 1,
			TTFT: profile.Describe([]time.Duration{100 * time.Millisecond}), ThroughputPerGPU: 1,
		}, sla)
	}
	one, dep := at(engine.TP(8)), at(engine.Parallelism{DP: 8, EP: 8})
	if one.RPS <= 0 || dep.RPS != 8*one.RPS || dep.Sustained != 8*one.Sustained || dep.Utilization != one.Utilization {
		t.Errorf("TP:8 %+v, DEP:8 %+v", one, dep)
	}
}
