package recommend

import (
	"math"
	"testing"
	"time"

	"plimsoll/engine"
	"plimsoll/profile"
)

var p95 = profile.SLA{TTFT: 250 * ms, ITL: 30 * ms, Stat: profile.P95}

// evidencePoint is a load of n requests of which so many were late, worth so many.
func evidencePoint(rate float64, n, late int, worth float64) profile.Point {
	tail := 240 * ms
	if 20*late > n {
		tail = 300 * ms
	}
	return profile.Point{
		ID: "rate", Phase: profile.Aggregated, Rate: rate, OSL: 32, Config: engine.Config{Parallelism: engine.TP(1)}, ThroughputPerGPU: 32 * rate, Requests: n,
		Load: &profile.Attainment{
			Requests: n, LimitTTFT: p95.TTFT, LimitITL: p95.ITL, WithinTTFT: n - late, WithinITL: n, Within: n - late,
			TTFT: profile.Distribution{N: n, Mean: 205 * ms, P95: tail, Neff: worth}, TPOT: profile.Distribution{N: n, Mean: 20 * ms, P95: 20 * ms, Neff: worth},
		},
	}
}

// startOf are what a search begins with, on a server of ten places.
func startOf() []profile.Point {
	alone := evidencePoint(0, 7, 0, 7)
	alone.Asked, alone.ThroughputPerGPU, alone.Load.E2E, alone.Load.TTFT.Mean = 1, 39, profile.Distribution{N: 7, Mean: 820 * ms}, 200*ms
	alone.TTFT, alone.TPOT = alone.Load.TTFT, alone.Load.TPOT
	burst := evidencePoint(0, 60, 50, 0)
	burst.Asked, burst.Batch, burst.Cap, burst.InFlight, burst.Load.Achieved, burst.Load.E2E = 64, 64, 64, 64, 12.2, profile.Distribution{N: 60, Mean: 5 * time.Second}
	return []profile.Point{alone, burst}
}

// Loads below and above put the rate between them; more requests bring the ends nearer to
// each other, and what no load bounds is infinite.
func TestHighestRate(t *testing.T) {
	start := startOf()
	first := HighestRate(start, p95)
	if first.AtLeast != 0 || math.Abs(first.AtMost/(1.1*12.2)-1) > 1e-9 || first.Likely <= 0 {
		t.Errorf("before any load: %+v", first)
	}
	if r := ExpectedRate(start[0], start[1], p95); r < 6 || r > 8 {
		t.Errorf("expected is %.3g/s of 6.9", r)
	}
	if b := HighestRate(append(startOf(), evidencePoint(14, 1000, 10, 400)), p95); b.AtMost < 14 {
		t.Errorf("14/s held, more than the burst's 12.2: %+v", b)
	}
	few := HighestRate(append(startOf(), evidencePoint(5, 100, 1, 40), evidencePoint(8.5, 100, 14, 30)), p95)
	many := HighestRate(append(startOf(), evidencePoint(5, 1000, 10, 400), evidencePoint(8.5, 1000, 140, 300)), p95)
	for _, b := range []Bracket{few, many} {
		if b.AtLeast < 3 || b.AtLeast > b.Likely || b.Likely > b.AtMost || b.AtMost > 10 || b.Likely < 5 || b.Likely > 8.5 {
			t.Errorf("between 5 and 8.5: %+v", b)
		}
	}
	if many.Width() >= few.Width() {
		t.Errorf("ten times the requests: %+v, before %+v", many, few)
	}
	growing := evidencePoint(7, 60, 3, 20)
	growing.Load.Growing = true
	if b := HighestRate(append(startOf(), growing), p95); b.Likely > 7 {
		t.Errorf("a queue grew at 7/s: %+v", b)
	}
	without := HighestRate([]profile.Point{evidencePoint(5, 1000, 0, 400)}, p95)
	if !math.IsInf(without.AtMost, 1) || without.AtLeast < 3 {
		t.Errorf("nothing missed: %+v", without)
	}
	if b := HighestRate(append(startOf(), evidencePoint(0.1, 5, 0, 4)), p95); b.AtLeast != 0 {
		t.Errorf("five requests name a rate that holds: %+v", b)
	}
	invalid := evidencePoint(9, 1000, 900, 400)
	invalid.Invalid = "the client was the bottleneck"
	if got := HighestRate(append(startOf(), evidencePoint(5, 1000, 10, 400), invalid), p95); got != HighestRate(append(startOf(), evidencePoint(5, 1000, 10, 400)), p95) {
		t.Errorf("an invalid load counts: %+v", got)
	}
}

// ITL that no request has near its limit bounds nothing, one that grows into it does.
func TestHighestRateByITL(t *testing.T) {
	with := func(rate float64, mean, std time.Duration, late int) profile.Point {
		p := evidencePoint(rate, 400, 0, 100)
		p.Load.TPOT = profile.Distribution{N: 400, Mean: mean, Std: std, P95: mean + std, Neff: 50}
		p.Load.WithinITL = 400 - late
		return p
	}
	free := HighestRate(append(startOf(), with(6, 20*ms, ms/10, 0)), p95)
	bound := HighestRate(append(startOf(), with(4, 26*ms, 2*ms, 8), with(6, 29*ms, 2*ms, 120)), p95)
	if bound.AtMost > 7 || free.AtLeast < 5 || bound.Likely < 3.5 {
		t.Errorf("free %+v, bound %+v", free, bound)
	}
}

// A rate by evidence is the pick at its lower end, by the load that is nearest to it; a
// search that knows too little leaves it open, and one that misses alone does not.
func TestChooseByEvidence(t *testing.T) {
	points := append(startOf(), evidencePoint(5, 1000, 10, 400), evidencePoint(6.5, 1000, 35, 300), evidencePoint(8.5, 1000, 140, 300))
	ch, err := ChooseAggregated(points, p95)
	if err != nil {
		t.Fatal(err)
	}
	low, high := ch.Bracket(p95)
	p := ch.Picked
	if !ch.Feasible || p.RPS != low || low < 5 || high > 8.5 || p.Point.Rate > nearRate*low || math.Abs(p.Point.ThroughputPerGPU-32*low) > 1e-6 || ch.Open(p95) {
		t.Errorf("%v to %v: picked %+v", low, high, p)
	}
	if len(ch.All) != 4 { // the burst is none
		t.Errorf("%d loads are compared", len(ch.All))
	}
	if wide := (Choice{Feasible: true, Picked: Candidate{Bracket: &Bracket{AtLeast: 2, AtMost: 6, Likely: 3}}}).wide(); len(wide) != 1 {
		t.Errorf("from 2 to 6: %v", wide)
	}
	open, err := ChooseAggregated(append(startOf(), evidencePoint(0.1, 5, 0, 4)), p95)
	if err != nil || open.Feasible || !open.Open(p95) {
		t.Errorf("too few to tell: %v, %+v", err, open.Picked)
	}
	other := p95
	other.TTFT = 300 * ms // the shares are of another limit
	if ch, err := ChooseAggregated(points, other); err != nil || ch.Picked.Bracket != nil {
		t.Errorf("of another limit: %v, %+v", err, ch.Picked.Bracket)
	}
}

func TestBracketWords(t *testing.T) {
	for _, c := range []struct {
		low, high float64
		want      string
	}{
		{5.04, 7.12, "at least 5.04, at most 7.12 requests/s"},
		{5, math.Inf(1), "at least 5 requests/s"},
		{0, 0.5, "at most 0.5 requests/s"},
		{0, math.Inf(1), "no rate was tried long enough to tell"},
	} {
		if got := BracketWords(c.low, c.high); got != c.want {
			t.Errorf("%v to %v: %q", c.low, c.high, got)
		}
	}
}

func TestSilentLoads(t *testing.T) {
	invalid, easier := evidencePoint(2, 100, 0, 10), evidencePoint(3, 100, 0, 10)
	invalid.Invalid, easier.Load.Easier = "the client was the bottleneck", "cached"
	if why := Silent(append(startOf(), invalid, easier)); why != "cached" {
		t.Errorf("%q", why)
	}
	if why := Silent([]profile.Point{invalid, evidencePoint(1, 100, 0, 10), easier}); why != "" {
		t.Errorf("one load tells, yet %q", why)
	}
}
