package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"plimsoll/engine"
	"plimsoll/profile"
	"plimsoll/profile/store"
	"plimsoll/recommend"
	"plimsoll/sweep"
)

// What was asked for is shown where it was in flight, but for what a mean over a
// window is off by; in tables and in pictures.
func TestShownInFlight(t *testing.T) {
	for _, c := range []struct {
		p     profile.Point
		table string
		drawn float64
	}{
		{profile.Point{Asked: 61, InFlight: 60.9}, "61", 61},
		{profile.Point{Asked: 62, InFlight: 61.3}, "61.3", 61.3},
		{profile.Point{Asked: 1, InFlight: 0.995}, "1", 1},
		{profile.Point{Asked: 61, InFlight: 61, Rate: 3}, "61", 61},
		{profile.Point{InFlight: 7.04, Rate: 3}, "7.0", 7.04},
		{profile.Point{InFlight: 7.04}, "7.0", 7.04}, // of a file that does not say
	} {
		c.p.Stage, c.p.Phase, c.p.TPOT = profile.StageSweep, profile.Decode, profile.Distribution{N: 1, Mean: time.Millisecond}
		if got := shownInFlight(c.p); got != c.table {
			t.Errorf("%d asked, %v seen: %q, want %q", c.p.Asked, c.p.InFlight, got, c.table)
		}
		if cs := plotCandidates(store.Run{Points: []profile.Point{c.p}}, store.Recommendation{}, profile.Decode); len(cs) != 1 || cs[0].InFlight != c.drawn {
			t.Errorf("%d asked, %v seen: drawn as %+v", c.p.Asked, c.p.InFlight, cs)
		}
	}
	p := profile.Point{Config: engine.Config{Parallelism: engine.TP(1)}, Asked: 61, InFlight: 60.9}
	b := &bytes.Buffer{}
	decodeTable(b, outcome{res: sweep.Result{Decode: recommend.Choice{All: []recommend.Candidate{{Point: p}}}}})
	if !strings.Contains(b.String(), " 61 ") {
		t.Errorf("%s", b)
	}
}

// An interval is shown by half of it only where that is half of it.
func TestPlusMinus(t *testing.T) {
	ms := time.Millisecond
	d := profile.Distribution{N: 200, Mean: 2 * ms, Half: 125 * time.Microsecond, P90: 2270 * time.Microsecond, In90: profile.Interval{Low: 2.23e6, High: 4.13e6}}
	for _, tt := range []struct {
		stat  profile.Statistic
		error profile.ModelError
		want  string
	}{
		{profile.Mean, profile.ModelError{}, "2.00 ± 0.12"},
		{profile.P90, profile.ModelError{}, "2.27 (2.23 to 4.13)"},
		{profile.P99, profile.ModelError{}, "0.00"},
		{profile.Mean, profile.ModelError{Factor90: 2}, "2.00 (1.00 to 4.00)"},
	} {
		p := profile.Point{Phase: profile.Prefill, TTFT: d, ModelError: tt.error}
		if got := plusMinus(p, profile.SLA{Stat: tt.stat}); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.stat, got, tt.want)
		}
	}
}

// The card says whose limit ended a search where that was the client's.
func TestLimitIsTheClients(t *testing.T) {
	at := func(p profile.Point) string {
		ms := time.Millisecond
		sla := profile.SLA{TTFT: 500 * ms, ITL: 30 * ms, Stat: profile.Mean}
		load := func(rate float64, ttft time.Duration) profile.Point {
			p.Rate, p.InFlight, p.Phase, p.Stage, p.Requests = rate, 9, profile.Aggregated, profile.StageSweep, 9
			p.Load = &profile.Attainment{Requests: 9, TTFT: profile.Distribution{N: 9, Mean: ttft}, TPOT: profile.Distribution{N: 9, Mean: ms}}
			p.TTFT, p.TPOT, p.ThroughputPerGPU, p.Config, p.ID = p.Load.TTFT, p.Load.TPOT, rate, engine.Config{Parallelism: engine.TP(1)}, plain(rate)
			return p
		}
		ch, err := recommend.ChooseAggregated([]profile.Point{load(1, ms), load(2, time.Second)}, sla)
		if err != nil {
			t.Fatal(err)
		}
		return outcome{res: sweep.Result{Aggregated: ch}}.limitWords()
	}
	if got, want := at(profile.Point{Cap: 8}), "your --max-in-flight 8 ended the aggregated search, not the SLA"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	for _, p := range []profile.Point{{}, {MaxSeqs: 8}} {
		if got := at(p); got != "" {
			t.Errorf("%+v: %q", p, got)
		}
	}
}

// One word for each row, in every mode.
func TestVerdict(t *testing.T) {
	sla := profile.SLA{TTFT: time.Second, ITL: 20 * time.Millisecond, Stat: profile.Mean}
	at := func(id string, phase profile.Phase, rate float64, itl time.Duration, throughput float64) recommend.Candidate {
		d := profile.Distribution{N: 9, Mean: itl}
		p := profile.Point{ID: id, Phase: phase, Rate: rate, TPOT: d, Requests: 9, ThroughputPerGPU: throughput, Config: engine.Config{Parallelism: engine.TP(1)}}
		if rate > 0 {
			p.Load = &profile.Attainment{Requests: 9, TTFT: d, TPOT: d}
		}
		return recommend.Candidate{Point: p, Feasible: p.Meets(sla)}
	}
	ms := time.Millisecond
	for _, phase := range []profile.Phase{profile.Decode, profile.Aggregated} {
		rate := 0.0
		if phase == profile.Aggregated {
			rate = 3
		}
		pick, less, misses := at("a", phase, rate, 10*ms, 100), at("b", phase, rate, 9*ms, 90), at("c", phase, rate, 30*ms, 120)
		ch := recommend.Choice{Phase: phase, Picked: pick, Feasible: true, Why: "because", Rank: recommend.BySingle}
		want := []string{"picked: because", "-10 % throughput per GPU", "misses the SLA: mean ITL 30.00 ms > 20.00 ms"}
		if phase == profile.Aggregated {
			want[1], want[2] = "held, undecided", "at 3 requests/s: misses the SLA: ITL 30.00 ms > 20.00 ms"
		}
		for i, c := range []recommend.Candidate{pick, less, misses} {
			if got := verdict(ch, c, sla); got != want[i] {
				t.Errorf("%s: %q, want %q", phase, got, want[i])
			}
		}
		if phase == profile.Aggregated { // with an interval that does not hold the limit
			less.Point.Load.TTFT.Neff, less.Point.Load.TPOT.Neff = 9, 9
			if got := verdict(ch, less, sla); got != "holds" {
				t.Errorf("surely held: %q", got)
			}
		}
		if ch.Feasible = false; verdict(ch, pick, sla) != "nearest: because" {
			t.Errorf("%s: %q", phase, verdict(ch, pick, sla))
		}
	}
}

// What is sustained decides, and what ended a search and missed under load is said.
func TestVerdictOfTheSustained(t *testing.T) {
	at := func(id string, sustained float64) recommend.Candidate {
		p := profile.Point{ID: id, Phase: profile.Decode, TPOT: profile.Distribution{N: 9, Mean: time.Millisecond}, ThroughputPerGPU: 2 * sustained}
		return recommend.Candidate{Point: p, Feasible: true, Sustained: sustained}
	}
	pick, same, less := at("a", 100), at("b", 100), at("c", 90)
	less.Ended = "ended by a limit"
	ch := recommend.Choice{Phase: profile.Decode, Picked: pick, Feasible: true, Why: "because", Rank: recommend.BySustained}
	out := outcome{opts: profileOptions{sla: profile.SLA{TTFT: time.Second, ITL: time.Second, Stat: profile.Mean}}}
	decode := store.NewPick(engine.Config{Parallelism: engine.TP(1)})
	out.rec.Decode = &decode
	for load, want := range map[*store.UnderLoad]string{
		nil: "picked: because",
		{Holds: true, Misses: 0.204, Limit: "ITL", Stat: profile.P99}: "picked: because; under load 20 % of requests miss ITL (--sla-stat p99 sizes for them)",
		{Holds: true, Limit: "ITL"}:                                   "picked: because; under load no request misses ITL",
		{Misses: 0.5, Limit: "ITL"}:                                   "picked: because; under load 50 % of requests miss ITL",
	} {
		out.rec.Decode.UnderLoad = load
		if got := out.verdict(ch, pick); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if got := out.verdict(ch, same); got != "-0 % sustained throughput per GPU" {
		t.Errorf("as much as the pick: %q", got)
	}
	if got := out.verdict(ch, less); got != "-10 % sustained throughput per GPU; ended by a limit" {
		t.Errorf("less: %q", got)
	}
}

// A rate that no load was at is computed.
func TestTrustInRates(t *testing.T) {
	pick := store.NewPick(engine.Config{Parallelism: engine.TP(1)})
	out := outcome{rec: store.Recommendation{Mode: store.Disaggregated, Provenance: profile.Measured, Prefill: &pick, Decode: &pick}}
	for _, v := range []*store.Verified{nil, {Prefill: &store.Attained{}}} {
		out.rec.Verified = v
		if got := out.trustWords(); !strings.HasPrefix(got, "latencies are measured on this engine; rates are computed") {
			t.Errorf("not run under load: %q", got)
		}
	}
	out.rec.Verified = &store.Verified{Prefill: &store.Attained{}, Decode: &store.Attained{}}
	if got := out.trustWords(); !strings.HasPrefix(got, "measured on this engine") {
		t.Errorf("run under load: %q", got)
	}
}

// The error of a latency model is one factor, and drawn once; what was measured
// has the bars of its own noise.
func TestModelErrorIsDrawnAtThePick(t *testing.T) {
	at := func(n int, e profile.ModelError) profile.Point {
		return profile.Point{
			Stage: profile.StageSweep, Phase: profile.Decode, Asked: n, InFlight: float64(n), Config: engine.Config{Parallelism: engine.TP(1)},
			TPOT: profile.Distribution{N: 9, Mean: time.Millisecond, Half: 10 * time.Microsecond}, ThroughputPerGPU: float64(n), ModelError: e,
			Throughput95: profile.Interval{Low: float64(n) - 0.1, High: float64(n) + 0.1},
		}
	}
	pick := store.NewPick(engine.Config{Parallelism: engine.TP(1)})
	pick.InFlight, pick.ThroughputPerGPU = 2, 2
	for _, e := range []profile.ModelError{{}, {Factor90: 1.8}} {
		cs := plotCandidates(store.Run{Points: []profile.Point{at(1, e), at(2, e)}}, store.Recommendation{Decode: &pick}, profile.Decode)
		if len(cs) != 2 || (cs[0].High > 0) == e.Known() || (cs[0].Interval.High > 0) == e.Known() || cs[1].High == 0 || cs[1].Interval.High == 0 {
			t.Errorf("model's error %v: %+v", e.Known(), cs)
		}
	}
}
