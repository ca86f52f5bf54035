package recommend

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"plimsoll/engine"
	"plimsoll/profile"
)

// shared is what requests get of an engine that decodes all that are there, one
// token of each per step, which takes ITL(n) s: mean TPOT and mean in flight of n
// requests after others, at a Poisson rate.
func shared(rng *rand.Rand, itl func(n int) float64, rate float64, osl, n int) (tpot, inFlight float64) {
	type request struct {
		index, left int
		began       float64
	}
	before := n / 2
	var running []request
	now, next, came, ended := 0.0, rng.ExpFloat64()/rate, 0, 0
	busy, from := 0.0, 0.0
	for ended < n {
		for next <= now || len(running) == 0 {
			now = max(now, next)
			running = append(running, request{came, osl, now})
			if came == before {
				from, busy = now, 0
			}
			came, next = came+1, next+rng.ExpFloat64()/rate
		}
		d := itl(len(running))
		busy, now = busy+d*float64(len(running)), now+d
		kept := running[:0]
		for _, r := range running {
			if r.left--; r.left > 0 {
				kept = append(kept, r)
			} else if r.index >= before && r.index < before+n {
				tpot, ended = tpot+(now-r.began)/float64(osl)/float64(n), ended+1
			}
		}
		running = kept
	}
	return tpot, busy / (now - from)
}

// line1 is an engine's decode points on a line, at a few in-flight counts.
func line1(a, b float64, counts ...int) []profile.Point {
	var ps []profile.Point
	for _, n := range counts {
		p := decode(1, float64(n), seconds(a+b*float64(n)))
		p.ID = fmt.Sprint(n)
		ps = append(ps, p)
	}
	return ps
}

// The station against one simulated step by step.
func TestStationAgainstSimulatedSteps(t *testing.T) {
	const osl = 100
	for _, tt := range []struct{ a, b, rate float64 }{
		{0.0066, 0.0002, 15}, {0.0066, 0.0002, 33}, {0.0066, 0, 30}, {0.0137, 0.00011, 40},
	} {
		var all []Candidate
		for _, p := range line1(tt.a, tt.b, 1, 30, 60) {
			all = append(all, Candidate{Point: p})
		}
		s := stationOf(all, all[0].Point, sla(0, ms), osl)
		got, ok := s.serve(tt.rate*osl, 0)
		tpot, n := shared(rand.New(rand.NewPCG(1, 2)), func(n int) float64 { return tt.a + tt.b*float64(n) }, tt.rate, osl, 40_000)
		if !ok || math.Abs(got.itl/tpot-1) > 0.03 || math.Abs(got.inFlight/n-1) > 0.04 {
			t.Errorf("%+v: TPOT %.3f ms and %.1f in flight, in steps %.3f ms and %.1f", tt, 1e3*got.itl, got.inFlight, 1e3*tpot, n)
		}
		// Little: the two are one.
		if l := got.inFlight / (tt.rate * osl); math.Abs(got.itl/l-1) > 0.02 {
			t.Errorf("%+v: E[ITL(1+N)] %.3f ms, E[N]/(λ·OSL) %.3f ms", tt, 1e3*got.itl, 1e3*l)
		}
	}
}

// Loads at the recommended rate hold the ITL, and those at what keeps the pick's
// in-flight count do not.
func TestRecommendedDecodeRateHolds(t *testing.T) {
	const osl, loads = 100, 60
	ps := line1(0.0066, 0.0002, 1, 32, 61, 66)
	ch, err := Choose(profile.Decode, ps, sla(0, seconds(0.0066+0.0002*61)), BySingle, osl)
	if err != nil {
		t.Fatal(err)
	}
	limit, pick := 0.0066+0.0002*61, ch.Picked
	held := func(rate float64) (n int) {
		for seed := range uint64(loads) {
			tpot, _ := shared(rand.New(rand.NewPCG(seed, 2)), func(n int) float64 { return 0.0066 + 0.0002*float64(n) }, rate, osl, heldOver)
			if tpot <= limit {
				n++
			}
		}
		return n
	}
	raw := pick.Point.ThroughputPerGPU / osl
	at, above := held(pick.RPS), held(raw)
	t.Logf("%.2f requests/s hold in %d of %d loads; %.2f, what keeps %v in flight, in %d", pick.RPS, at, loads, raw, pick.Point.InFlight, above)
	if at < loads*9/10 || above > loads/2 || pick.RPS < 0.75*raw || pick.Together >= 61 || pick.Slack <= 0 || pick.Slack >= 1 {
		t.Errorf("picked %+v", pick)
	}
}

// What limits the sequences at once leaves others waiting, and ITL as at the limit.
func TestStationOfFewSeats(t *testing.T) {
	p := line1(0.01, 0, 4)[0]
	p.Config.Limits.MaxNumSeqs = 4
	s := stationOf([]Candidate{{Point: p}}, p, sla(0, ms), 100)
	if got, ok := s.serve(380, 0); !ok || math.Abs(got.inFlight-3.8) > 1e-6 || math.Abs(got.itl-0.01) > 1e-12 {
		t.Errorf("nearly all seats taken: %+v, %v", got, ok)
	}
	if _, ok := s.serve(401, 0); ok {
		t.Error("more comes than is served, and a balance is found")
	}
	p.MaxKV, p.Context = 300, 100
	if s := stationOf([]Candidate{{Point: p}}, p, sla(0, ms), 100); s.most != 3 {
		t.Errorf("the KV cache holds 3, and %v are decoded at once", s.most)
	}
	dep := p
	dep.Config = engine.Config{Parallelism: engine.Parallelism{DP: 8, EP: 8}, Limits: engine.Limits{MaxNumSeqs: 4}}
	if dep.MaxKV = 0; stationOf([]Candidate{{Point: dep}}, dep, sla(0, ms), 100).most != 32 {
		t.Error("each replica has seats of its own")
	}
	dep.MaxSeqs = 6
	if got := stationOf([]Candidate{{Point: dep}}, dep, sla(0, ms), 100).most; got != 6 {
		t.Errorf("the engine says that it has 6 seats, and %v are decoded at once", got)
	}
}

// Points that ran nothing at once make no station, and no panic: a rate is not known.
func TestStationOfNothing(t *testing.T) {
	p := line1(0.01, 0, 4)[0]
	p.InFlight = 0
	s := stationOf([]Candidate{{Point: p}}, p, sla(0, ms), 100)
	if _, ok := s.serve(10, 0); ok || s.slack(3) != 0 {
		t.Errorf("it serves %v, slack %v", ok, s.slack(3))
	}
	ch, err := Choose(profile.Decode, []profile.Point{p}, sla(0, 20*ms), BySingle, 100)
	if err != nil || !ch.Feasible || ch.Picked.RPS != 0 {
		t.Errorf("%v: picked %+v", err, ch.Picked)
	}
}

// Who finds no place waits as in M/M/c, by Erlang's formula, however near to what the
// engine serves the load is.
func TestStationWaitsForAPlace(t *testing.T) {
	p := line1(0.01, 0, 4)[0]
	p.MaxSeqs = 4
	s := stationOf([]Candidate{{Point: p}}, p, sla(0, ms), 100) // 4 places, 1 s each
	got, ok := s.serve(320, 0)
	if !ok || math.Abs(got.full-0.5964) > 1e-4 || math.Abs(got.spare-0.8) > 1e-9 {
		t.Errorf("at 3.2 requests/s: %+v, %v", got, ok)
	}
	if got, ok := s.serve(399.99, 0); !ok || got.full < 0.9999 || math.Abs(got.spare-1e-4) > 1e-9 || math.Abs(got.inFlight-3.9999) > 1e-6 {
		t.Errorf("all but saturated: %+v, %v", got, ok)
	}
	for _, tt := range []struct {
		sla  profile.SLA
		want bool
	}{
		{sla(746*ms, 0), true},
		{sla(745*ms, 0), false}, // 0.5964/0.8 s
		{profile.SLA{TTFT: seconds(2.233), Stat: profile.P90}, true}, // ln(0.5964/0.1)/0.8 s
		{profile.SLA{TTFT: seconds(2.231), Stat: profile.P90}, false},
	} {
		if served, _ := s.serve(320, 0); served.placed(tt.sla) != tt.want {
			t.Errorf("%+v: placed %v", tt.sla, !tt.want)
		}
	}
}

// A cap that binds lowers the rate to what finds a place within the TTFT; one that does
// not changes no digit.
func TestRecommendedDecodeRateLeavesPlaces(t *testing.T) {
	rate := func(ttft float64, itl float64, limit func(*profile.Point)) float64 {
		ps := line1(0.0066, 0.0002, 1, 32, 61, 64)
		for i := range ps {
			limit(&ps[i])
		}
		ch, err := Choose(profile.Decode, ps, sla(seconds(ttft), seconds(itl)), BySingle, 100)
		if err != nil || !ch.Feasible {
			t.Fatal(err)
		}
		return ch.Picked.RPS
	}
	free := func(*profile.Point) {}
	seqs := func(p *profile.Point) { p.MaxSeqs = 64 }
	sent := func(p *profile.Point) { p.MaxSeqs, p.Cap = 1024, 64 }
	most := 64 / (0.0066 + 0.0002*64) / 100
	if got, want := rate(0.2, 0.05, seqs), rate(0.2, 0.05, sent); got != want || got > 0.95*most || got < 0.8*most {
		t.Errorf("%.4g requests/s by the engine's limit and %.4g by ours, of %.4g that keep all places taken", got, want, most)
	}
	if a, b := rate(0.05, 0.05, seqs), rate(2, 0.05, seqs); a >= b {
		t.Errorf("%.4g requests/s find a place within 50 ms, %.4g within 2 s", a, b)
	}
	if a, b := rate(0.2, 0.0066+0.0002*32, seqs), rate(0.2, 0.0066+0.0002*32, free); a != b {
		t.Errorf("%v requests/s where ITL binds, %v without a cap", a, b)
	}
}
