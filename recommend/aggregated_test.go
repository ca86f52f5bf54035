package recommend

import (
	"errors"
	"strings"
	"testing"
	"time"

	"plimsoll/engine"
	"plimsoll/profile"
)

// loaded is an aggregated engine at a rate.
func loaded(tp int, rate float64, ttft, itl time.Duration, throughput float64) profile.Point {
	d := func(x time.Duration) profile.Distribution {
		return profile.Distribution{N: 100, Mean: x, P50: x, P90: x, P95: x, P99: x}
	}
	return profile.Point{
		ID: "p", Phase: profile.Aggregated, Config: engine.Config{Parallelism: engine.TP(tp)}, Rate: rate, ThroughputPerGPU: throughput, Requests: 100,
		Load: &profile.Attainment{Requests: 100, TTFT: d(ttft), ITL: d(itl), TPOT: d(itl)},
	}
}

func TestChooseAggregated(t *testing.T) {
	s := sla(200*ms, 20*ms)
	points := []profile.Point{
		loaded(1, 0, 100*ms, 10*ms, 90), loaded(1, 1, 150*ms, 15*ms, 150), loaded(1, 2, 300*ms, 18*ms, 300),
		loaded(2, 0, 60*ms, 8*ms, 60), loaded(2, 4, 120*ms, 19*ms, 300), loaded(2, 4.5, 130*ms, 21*ms, 330), loaded(2, 2, 80*ms, 12*ms, 150),
	}
	ch, err := ChooseAggregated(points, s)
	if err != nil || !ch.Feasible || ch.Picked.Label() != "TP:2" || ch.Picked.RPS != 4 {
		t.Fatalf("%v: picked %+v", err, ch.Picked)
	}
	if i := ch.Picked.Point.Throughput95; i.Low != 300 || i.High != 300*4.5/4 {
		t.Errorf("interval %+v: want up to the rate that missed", i)
	}
	if ch.Why != "most output tokens/s/GPU at the highest rate that holds (+100 % over TP:1)" {
		t.Errorf("why %q", ch.Why)
	}
	want := []string{
		"one request at a time: holds the SLA", "at 1 requests/s: lower throughput: 150 tokens/s/GPU (pick: 300)", "at 2 requests/s: misses the SLA: TTFT 300.00 ms > 200.00 ms",
		"one request at a time: holds the SLA", "at 4.5 requests/s: misses the SLA: ITL 21.00 ms > 20.00 ms", "at 2 requests/s: lower",
	}
	for i, r := range ch.Rejected {
		if !strings.HasPrefix(r.Reason, want[i]) {
			t.Errorf("rejected %q, want %q", r.Reason, want[i])
		}
	}
}

// A rate that misses because its requests wait for a place, though ITL would allow more
// of them, is ended by that limit and not by the SLA.
func TestAggregatedAtTheCap(t *testing.T) {
	s := sla(200*ms, 20*ms)
	full := func(ttft, itl time.Duration, cap int) profile.Point {
		p := loaded(1, 3, ttft, itl, 300)
		p.InFlight, p.MaxSeqs, p.Cap = 8, 8, cap
		return p
	}
	for name, c := range map[string]struct {
		missed profile.Point
		want   string
	}{
		"places":           {full(900*ms, 10*ms, 0), "; ended by the engine's limit of 8 sequences: at 3/s requests wait for a place"},
		"what is sent":     {full(900*ms, 10*ms, 8), "; ended by --max-in-flight 8: at 3/s requests wait here for a place. Raise it if the server bears more"},
		"ITL misses too":   {full(900*ms, 30*ms, 0), ""},
		"ITL alone misses": {full(90*ms, 30*ms, 0), ""},
		"there was room":   {func() profile.Point { p := full(900*ms, 10*ms, 0); p.MaxSeqs = 64; return p }(), ""},
	} {
		ch, err := ChooseAggregated([]profile.Point{loaded(1, 0, 100*ms, 5*ms, 50), loaded(1, 2, 150*ms, 9*ms, 200), c.missed}, s)
		if err != nil || !ch.Feasible || ch.Why != "the only configuration that holds the SLA at any rate"+c.want {
			t.Errorf("%s: %v: %q", name, err, ch.Why)
		}
	}
}

// Requests one at a time are too few for a P99: they hold it as far as they say.
func TestChooseAggregatedPercentiles(t *testing.T) {
	s := sla(200*ms, 20*ms)
	s.Stat = profile.P99
	few, many, short := loaded(1, 0, 100*ms, 10*ms, 90), loaded(1, 2, 150*ms, 18*ms, 300), loaded(1, 3, 150*ms, 19*ms, 400)
	few.Load.Requests, many.Load.Requests, short.Load.Requests = 20, 400, 100
	ch, err := ChooseAggregated([]profile.Point{few, many, short}, s)
	if err != nil || !ch.Feasible || ch.Picked.Point.Rate != 2 {
		t.Fatalf("%v: picked %+v", err, ch.Picked)
	}
	for i, want := range []string{"one request at a time: holds the SLA", "at 3 requests/s: 100 requests are too few to judge"} {
		if r := ch.Rejected[i]; !strings.HasPrefix(r.Reason, want) {
			t.Errorf("rejected %q, want %q", r.Reason, want)
		}
	}
	ch, err = ChooseAggregated([]profile.Point{few, short}, s)
	sf, _ := ch.Shortfall(s)
	if err != nil || ch.Feasible || ch.Picked.Point.Rate != 3 || sf.Promise != 0 || sf.String() != "too few requests to tell if anything meets the SLA: 100 requests are too few to judge" {
		t.Errorf("%v: %q of %+v", err, sf, ch.Picked)
	}
}

func TestChooseAggregatedInfeasible(t *testing.T) {
	s := sla(200*ms, 20*ms)
	ch, err := ChooseAggregated([]profile.Point{loaded(1, 0, 500*ms, 10*ms, 90), loaded(2, 0, 250*ms, 22*ms, 60)}, s)
	sf, short := ch.Shortfall(s)
	if err != nil || ch.Feasible || ch.Picked.Label() != "TP:2" || !short || sf.Metric != "TTFT" || sf.Promise != 250*ms {
		t.Errorf("%v: %+v, %+v", err, ch.Picked, sf)
	}
	growing := loaded(1, 1, 50*ms, 5*ms, 10)
	growing.Load.Growing = true
	ch, err = ChooseAggregated([]profile.Point{loaded(1, 0, 50*ms, 5*ms, 90), growing}, s)
	if err != nil || ch.Feasible || ch.Picked.Point.Rate != 1 {
		t.Errorf("a queue that grows: %v, %+v", err, ch.Picked)
	}
	failed := loaded(1, 1, 50*ms, 5*ms, 10)
	failed.Load.Failures, failed.Load.FailsTooOften, failed.Failures, failed.FailsTooOften = 3, true, 3, true
	ch, err = ChooseAggregated([]profile.Point{failed}, s)
	if sf, _ := ch.Shortfall(s); err != nil || sf.Metric != "failures" || sf.Promise != 0 {
		t.Errorf("failures: %v, %+v", err, sf)
	}
	if _, err := ChooseAggregated([]profile.Point{{Phase: profile.Aggregated}, prefill(1, ms)}, s); !errors.Is(err, ErrNoPoints) {
		t.Errorf("no load: %v", err)
	}
}

// What a load misses by is said as it is, and a growing queue only of one that grew.
func TestAggregatedReasons(t *testing.T) {
	s := sla(200*ms, 20*ms)
	for want, change := range map[string]func(*profile.Point){
		"the queue grows: requests arrive faster than the engine serves them": func(p *profile.Point) { p.Load.Growing = true },
		"certain to miss: 3 are late":                                         func(p *profile.Point) { p.Load.Stopped = "certain to miss: 3 are late" },
		"ITL is unknown: no gap between output tokens was seen":               func(p *profile.Point) { p.Load.ITL, p.Load.TPOT = profile.Distribution{}, profile.Distribution{} },
	} {
		p := loaded(1, 1, 50*ms, 5*ms, 10)
		change(&p)
		ch, err := ChooseAggregated([]profile.Point{p}, s)
		if err != nil || ch.Feasible || ch.Why != "nothing meets the SLA: "+want {
			t.Errorf("%v: %q, want %q", err, ch.Why, want)
		}
	}
	spoilt := loaded(1, 1, 50*ms, 5*ms, 10)
	spoilt.Invalid, spoilt.Warnings = "the client was the bottleneck", []profile.Warning{{Code: "few_samples", Message: "wandering"}}
	ch, err := ChooseAggregated([]profile.Point{spoilt, loaded(1, 0, 50*ms, 5*ms, 10)}, s)
	if err != nil || ch.Rejected[0].Reason != "could not be measured: the client was the bottleneck" {
		t.Errorf("%v: rejected %+v", err, ch.Rejected)
	}
}

// The highest rate that held by chance is not the pick where one below surely holds.
func TestChooseAggregatedSurely(t *testing.T) {
	s := sla(200*ms, 20*ms)
	sure, lucky := loaded(1, 2, 100*ms, 15*ms, 300), loaded(1, 3, 150*ms, 19*ms, 450)
	sure.Load.TTFT.Neff, sure.Load.TPOT.Neff, sure.Load.TPOT.Half = 90, 50, 2*ms
	lucky.Load.TTFT.Neff, lucky.Load.TPOT.Neff, lucky.Load.TPOT.Half = 90, 50, 2*ms
	ch, err := ChooseAggregated([]profile.Point{sure, lucky}, s)
	if err != nil || !ch.Feasible || ch.Picked.RPS != 2 {
		t.Fatalf("%v: picked %+v", err, ch.Picked)
	}
	if r := ch.Rejected[0]; r.Metric != metricUndecided || r.Reason != "at 3 requests/s: holds in this load, but the 95 % interval includes a miss" {
		t.Errorf("rejected %+v", r)
	}
	if ch, err = ChooseAggregated([]profile.Point{lucky}, s); err != nil || !ch.Feasible || ch.Picked.RPS != 3 {
		t.Errorf("of nothing that is sure, %v: picked %+v", err, ch.Picked)
	}
}

// Of tokens in a step that give nearly the most, those of the smallest gaps are picked; of
// other layouts the throughput alone decides.
func TestSmallestGapWithinFivePercent(t *testing.T) {
	s := sla(200*ms, 20*ms)
	of := func(tp, chunk int, throughput float64, gap time.Duration) profile.Point {
		p := loaded(tp, 2, 150*ms, 9*ms, throughput)
		p.Config.Limits.MaxNumBatchedTokens, p.Config.Chunked = chunk, chunk > 0
		p.Load.ITL = profile.Distribution{N: 1000, P99: gap}
		return p
	}
	for want, points := range map[string][]profile.Point{
		"TP:1, chunk 512":  {of(1, 0, 940, 200*ms), of(1, 1024, 1000, 90*ms), of(1, 512, 960, 45*ms)},
		"TP:1, chunk 1024": {of(1, 0, 940, 20*ms), of(1, 1024, 1000, 90*ms), of(1, 512, 940, 45*ms), of(2, 0, 990, 10*ms)},
		"TP:1":             {of(1, 0, 960, 45*ms), of(1, 1024, 1000, 90*ms)},
	} {
		ch, err := ChooseAggregated(points, s)
		if err != nil || ch.Picked.Label() != want {
			t.Errorf("%v: picked %s, want %s", err, ch.Picked.Label(), want)
		}
		if gives := strings.Contains(ch.Why, "4 % more output tokens/s/GPU"); gives != (want != "TP:1, chunk 1024") {
			t.Errorf("%s: %q", want, ch.Why)
		}
	}
}

// A promise of stalls that is missed binds, and says what could be promised.
func TestStallBinds(t *testing.T) {
	s := sla(200*ms, 20*ms)
	s.Stall = 40 * ms
	p := loaded(1, 2, 150*ms, 9*ms, 100)
	p.Load.ITL = profile.Distribution{N: 1000, P99: 80 * ms}
	ch, err := ChooseAggregated([]profile.Point{p}, s)
	sf, short := ch.Shortfall(s)
	if err != nil || ch.Feasible || !short || sf.Metric != Stall || sf.Promise != 80*ms {
		t.Errorf("%v: %+v", err, sf)
	}
	if r := ch.LostAggregated(ch.All[0], s); r.Metric != "gap_ms" || !strings.Contains(r.Reason, "p99 gap between tokens 80.00 ms > 40.00 ms") {
		t.Errorf("%+v", r)
	}
}
