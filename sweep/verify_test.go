package sweep

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"plimsoll/engine"
	"plimsoll/profile"
	"plimsoll/recommend"
)

// verifiedLab verifies the picks of one engine that l describes.
func verifiedLab(t *testing.T, l law, change func(*Options)) (Result, *lab) {
	t.Helper()
	b := newLab(map[string]law{"TP:2": l})
	o := openOptions(b, Disaggregated, 2)
	if change != nil {
		change(&o)
	}
	res, _, err := run(t, b, o, Known{})
	if err != nil {
		t.Fatal(err)
	}
	return res, b
}

func messageOf(ws []profile.Warning, code string) string {
	i := slices.IndexFunc(ws, func(w profile.Warning) bool { return w.Code == code })
	if i < 0 {
		return ""
	}
	return ws[i].Message
}

// A load that its client spoilt is sent again, and is no miss of the engine: after
// the last of them the pick is not verified, and stays as it is.
func TestVerifyInvalidLoad(t *testing.T) {
	whole, b := verifiedLab(t, affine(2), nil)
	l := affine(2)
	l.busyPlays = [2]int{1, 3} // prefill's first two
	again, c := verifiedLab(t, l, nil)
	if c.plays != b.plays+2 || again.Verified[0].Rate != whole.Verified[0].Rate || again.Verified[0].Point.Invalid != "" {
		t.Errorf("%d loads instead of %d, prefill holds %.4g instead of %.4g", c.plays, b.plays, again.Verified[0].Rate, whole.Verified[0].Rate)
	}
	l.busyPlays = [2]int{1, 1000}
	never, c := verifiedLab(t, l, nil)
	if len(never.Verified) != 0 || !never.Prefill.Feasible || never.Partial != "" || c.plays != 2*attempts+1 { // the one fills decode's cache
		t.Errorf("verified %v, partial %q, %d loads", never.Verified, never.Partial, c.plays)
	}
	if got := messageOf(never.Warnings, "not_verified"); !strings.HasPrefix(got, "the prefill pick TP:2 is not verified under load: at ") || !strings.HasSuffix(got, "the client was the bottleneck: no processor time") {
		t.Errorf("said: %q", got)
	}
	if w := codes(never.Warnings); slices.Contains(w, "misses_under_load") || slices.Contains(w, "rate_corrected") {
		t.Errorf("warnings %v", w)
	}
}

// A rate below the one that missed is no correction where its load says nothing, and
// the one that missed is recommended no more.
func TestVerifyInvalidCorrection(t *testing.T) {
	l := affine(2)
	l.slower = 20
	_, b := verifiedLab(t, l, func(o *Options) { o.Open.Requests = 20 })
	l.busyPlays = [2]int{6, 1000} // after prefill's loads, the fill and decode's first
	res, c := verifiedLab(t, l, func(o *Options) { o.Open.Requests = 20 })
	if len(res.Verified) != 2 || res.Verified[1].Rate != 0 || c.plays <= b.plays {
		t.Errorf("verified %+v after %d loads instead of %d", res.Verified, c.plays, b.plays)
	}
	missed(t, res, "the client was the bottleneck")
}

// missed looks whether it is said that decode's pick missed, by how much, and why no
// lower rate is recommended.
func missed(t *testing.T, res Result, why string) {
	t.Helper()
	got := messageOf(res.Warnings, "misses_under_load")
	for _, want := range []string{"decode: TP:2 misses the SLA", "certain to miss", "ms (limit 20 ms) by then", "none is recommended", why} {
		if !strings.Contains(got, want) {
			t.Errorf("said: %q, want %q", got, want)
		}
	}
	if slices.Contains(codes(res.Warnings), "not_verified") {
		t.Errorf("it missed, and is said to be not verified: %v", res.Warnings)
	}
}

// A pick that missed its first load keeps no rate where the time allowed ends before
// another is tried: before the fix it stayed as it was recommended.
func TestVerifyMissedAndTimeUp(t *testing.T) {
	l := affine(2)
	l.slower = 20
	b := newLab(map[string]law{"TP:2": l})
	o := openOptions(b, Disaggregated, 2)
	o.Deadline = b.now.Add(100 * time.Hour)
	n := &notes{}
	n.after = func() {
		if p := n.Points[len(n.Points)-1]; p.Stage == profile.StageVerify && p.Phase == profile.Decode {
			b.now = o.Deadline
		}
	}
	res, err := Run(t.Context(), o, b, n, Known{}, nil)
	if err != nil || len(res.Verified) != 2 || res.Verified[1].Rate != 0 || res.Partial == "" {
		t.Errorf("%v: verified %+v, partial %q", err, res.Verified, res.Partial)
	}
	missed(t, res, "the time allowed ran out")
}

// An engine that computes the prompts that its cache was to hold says nothing of
// decode without prefill.
func TestVerifyPrefillNotSkipped(t *testing.T) {
	l := affine(2)
	l.forgets = true
	res, _ := verifiedLab(t, l, nil)
	if len(res.Verified) != 1 || res.Verified[0].Phase != profile.Prefill || !res.Decode.Feasible {
		t.Errorf("verified %+v", res.Verified)
	}
	if got := messageOf(res.Warnings, "not_verified"); !strings.HasSuffix(got, "prefill was not skipped, only 0 % of prompt tokens came from the prefix cache") {
		t.Errorf("said: %q", got)
	}
}

// Prompts that the engine's context does not hold are in no load, and in no prompt
// that fills the cache.
func TestVerifyLeavesOutLongPrompts(t *testing.T) {
	l := affine(2)
	l.context = 16384
	res, _ := verifiedLab(t, l, func(o *Options) {
		even := o.Open.Traffic
		o.Open.Traffic = func(rate float64, n int, seed uint64) ([]profile.Ask, error) {
			asks, err := even(rate, n, seed)
			for i := range asks {
				if i%10 == 3 {
					asks[i].ISL = 20_000
				}
			}
			return asks, err
		}
	})
	if len(res.Verified) != 2 || res.Partial != "" {
		t.Fatalf("verified %+v, partial %q", res.Verified, res.Partial)
	}
	for _, v := range res.Verified {
		if v.Rate == 0 || v.Point.Load.Failures > 0 {
			t.Errorf("%s: asked %.4g, holds %.4g, %d failures", v.Phase, v.Asked, v.Rate, v.Point.Load.Failures)
		}
	}
	p := res.Verified[0].Point
	if !slices.Contains(codes(p.Warnings), "too_long") {
		t.Errorf("prefill: warnings %v", codes(p.Warnings))
	}
	if off := p.Load.Offered/p.Rate - 1; math.Abs(off) > 0.05 { // a tenth was left out
		t.Errorf("prefill: %.4g requests/s came, said to be %.4g", p.Load.Offered, p.Rate)
	}
	if ls := res.Verified[1].Limits; !strings.HasSuffix(ls[len(ls)-1], "exceed the engine's context of 16384 tokens and were left out") {
		t.Errorf("decode: limits %q", ls)
	}
}

// A workload none of whose prompts the engine holds leaves its picks unverified.
func TestVerifyAllPromptsLong(t *testing.T) {
	l := affine(2)
	l.context = 16384
	res, _ := verifiedLab(t, l, func(o *Options) { o.Open.Traffic = poisson(20_000, o.OSL) })
	if len(res.Verified) != 0 || !res.Prefill.Feasible || !res.Decode.Feasible || !strings.Contains(res.Partial, "exceed the engine's context") {
		t.Errorf("verified %+v, partial %q", res.Verified, res.Partial)
	}
}

// What is verified, and said of it, is of the pick: one that was the best for a
// while, and was loaded on the engine that ran, is no part of the result.
func TestVerifySupersededPick(t *testing.T) {
	wide := affine(4)
	wide.slower = 0.3 // its rate is corrected
	b := newLab(map[string]law{"TP:2": affine(2), "TP:4": wide})
	o := openOptions(b, Disaggregated, 2, 4)
	o.Expect = func(c engine.Config) (Expectation, bool) { // which thinks little of what turns out the best
		l := affine(map[int]int{2: 1, 4: 16}[c.Parallelism.TP])
		l.errors = profile.ModelError{Factor90: 10, N: 30}
		return l, true
	}
	res, n, err := run(t, b, o, Known{})
	if err != nil {
		t.Fatal(err)
	}
	superseded := slices.ContainsFunc(n.Points, func(p profile.Point) bool {
		return p.Stage == profile.StageVerify && p.Phase == profile.Decode && p.Config.Parallelism.TP == 4
	})
	if !superseded || res.Decode.Picked.Label() != "TP:2" {
		t.Fatalf("TP:4 was loaded: %v; picked %s", superseded, res.Decode.Picked.Label())
	}
	for _, v := range res.Verified {
		if v.Point.Config.Parallelism.TP != 2 {
			t.Errorf("%s: verified is %s", v.Phase, v.Point.Config.Parallelism.Label())
		}
	}
	if got := messageOf(res.Warnings, "rate_corrected"); strings.Contains(got, "TP:4") || len(res.Verified) != 2 {
		t.Errorf("%d verified, said: %q", len(res.Verified), got)
	}
}

// An engine that ends while a lower rate is looked for shows no more than that the
// first one missed, which is enough not to recommend it.
func TestVerifyEngineDiesWhileCorrecting(t *testing.T) {
	l := affine(2)
	l.slower, l.diesAtPlay = 20, 6 // after prefill's loads, the fill and decode's first
	res, _ := verifiedLab(t, l, nil)
	if len(res.Verified) != 2 || res.Verified[1].Rate != 0 || !strings.Contains(res.Partial, "the verification of the decode pick TP:2 under load is incomplete: engine ended") {
		t.Errorf("verified %+v, partial %q", res.Verified, res.Partial)
	}
	missed(t, res, "engine ended")
}

// Prompts of a dataset that are sent twice are two to the prefix cache, those of
// another load too, and of the same one sent again; random ones are left to the
// client, by another seed, and those that are to be in the cache stay.
func TestPrefillPromptsAreRenewed(t *testing.T) {
	s := newTrial(profile.Prefill, engine.Config{})
	prompts, seeds := map[string]bool{}, map[uint64]bool{}
	for _, seed := range []uint64{1, 7_000, 7_000, 7_000} {
		script := profile.Script{Seed: seed, Asks: []profile.Ask{{Prompt: "why"}, {Prompt: "why"}, {}}}
		got := s.unseen(script)
		for _, a := range got.Asks[:2] {
			if prompts[a.Prompt] || !strings.HasSuffix(a.Prompt, " why") {
				t.Errorf("seed %d: prompt %q", seed, a.Prompt)
			}
			prompts[a.Prompt] = true
		}
		if got.Asks[2].Prompt != "" || seeds[got.Seed] || script.Asks[0].Prompt != "why" {
			t.Errorf("seed %d became %d, a random prompt %q, what was given %q", seed, got.Seed, got.Asks[2].Prompt, script.Asks[0].Prompt)
		}
		seeds[got.Seed] = true
	}
	shared := profile.Script{Seed: 7_000, Asks: []profile.Ask{{Prompt: "why", Shared: 1}}}
	if got := s.unseen(shared); got.Seed != 7_000 || got.Asks[0].Prompt != "why" {
		t.Errorf("what is to be in the cache became %+v", got)
	}
}

// A load that is sent again asks with prompts of its own: those of the one before are
// in the prefix cache, and would say nothing of prefill.
func TestResentPrefillIsNew(t *testing.T) {
	for name, change := range map[string]func(*law){
		"the client was the bottleneck": func(l *law) { l.busyPlays = [2]int{1, 3} },
		"the way broke":                 func(l *law) { l.voids = 2 },
	} {
		l := affine(2)
		l.keeps = true
		change(&l)
		res, _ := verifiedLab(t, l, nil)
		if len(res.Verified) != 2 || slices.Contains(codes(res.Verified[0].Point.Warnings), "prefix_hit") {
			t.Errorf("%s: verified %+v, warnings %v", name, res.Verified, res.Warnings)
		}
	}
}

// Prompts that came from the prefix cache say nothing of prefill where they hold its
// SLA; what misses it all the same misses.
func TestCachedPromptsVerifyNoPrefill(t *testing.T) {
	sla := profile.SLA{TTFT: 100 * ms, ITL: 10 * ms, Stat: profile.Mean}
	var rs []profile.Request
	for i := range 100 {
		due := time.Duration(i+1) * time.Second
		rs = append(rs, profile.Request{
			Index: i, ISL: 100, Due: due, Sent: due, First: due + 10*ms, Last: due + 10*ms, End: due + 10*ms,
			PromptTokens: 100, OutputTokens: 1, UsageSeen: true, Chunks: []profile.Chunk{{At: due + 10*ms}},
		})
	}
	at := func(phase profile.Phase, l openLoad, sla profile.SLA) string {
		p := summarizeOpen(Measurement{Requests: rs}, l, phase, engine.Config{}, profile.EngineFacts{}, sla)
		p.Phase = phase
		return p.Untold(sla)
	}
	fill := openLoad{fill: []profile.Ask{{ISL: 100}}}
	if why := at(profile.Prefill, openLoad{}, sla); why != "" {
		t.Errorf("a load that holds is said to tell nothing: %s", why)
	}
	if why := at(profile.Decode, fill, sla); !strings.Contains(why, "prefill was not skipped") {
		t.Errorf("a decode load none of whose prompts was cached: %q", why)
	}
	for i := range rs {
		rs[i].CachedTokens = 80
	}
	if why := at(profile.Prefill, openLoad{}, sla); !strings.Contains(why, "80 % of prompt tokens came from the prefix cache") {
		t.Errorf("80 %% were cached: %q", why)
	}
	sla.TTFT = ms
	if why := at(profile.Prefill, openLoad{}, sla); why != "" {
		t.Errorf("80 %% were cached, and it misses: %q", why)
	}
}

// Fault 13 in the other mode whose TTFT counts: an aggregated engine that is served
// from its prefix cache is not seen to hold, at no rate, and is never picked.
func TestFault13AggregatedPrefixCache(t *testing.T) {
	b := newLab(map[string]law{"TP:4": affine(4)})
	res, _, err := runOn(t, b, openOptions(b, Aggregated, 4), hitting{b, 0.95, true}, Known{})
	if err != nil {
		t.Fatal(err)
	}
	if c := res.Aggregated; c.Feasible || len(res.Verified) > 0 {
		t.Errorf("picked %s at %.4g requests/s: %s", c.Picked.Label(), c.Picked.RPS, c.Why)
	}
	for _, p := range res.Points {
		if p.Rate > 0 && p.Load.Stopped == "" && !p.Load.Growing && !strings.Contains(p.Untold(profile.SLA{TTFT: 200 * ms, ITL: 20 * ms, Stat: profile.Mean}), "95 % of prompt tokens came from the prefix cache") {
			t.Errorf("%s, %d requests, of cached prompts is said to tell something", p.ID, p.Load.Requests)
		}
	}
	if !slices.ContainsFunc(res.Aggregated.Rejected, func(r recommend.Rejected) bool { return strings.Contains(r.Reason, "from the prefix cache") }) {
		t.Errorf("rejected %+v", res.Aggregated.Rejected)
	}
}

// Prompts of a dataset that repeat are new to the engine wherever TTFT counts.
func TestAggregatedPromptsAreRenewed(t *testing.T) {
	script := profile.Script{Seed: 1, Asks: []profile.Ask{{Prompt: "why"}, {Prompt: "why"}}}
	for phase, renewed := range map[profile.Phase]bool{profile.Prefill: true, profile.Aggregated: true, profile.Decode: false} {
		got := newTrial(phase, engine.Config{}).unseen(script).Asks
		if (got[0].Prompt != got[1].Prompt) != renewed {
			t.Errorf("%s: %q and %q", phase, got[0].Prompt, got[1].Prompt)
		}
	}
}

// A pick whose engine holds a fifteenth of what was recommended is corrected to that,
// where a correction ended at three sixteenths before, and nothing was recommended.
func TestVerifyCorrectsFarDown(t *testing.T) {
	l := affine(2)
	l.slower = 2.2
	res, _ := verifiedLab(t, l, nil)
	d := res.Verified[1]
	if d.Phase != profile.Decode || d.Rate <= 0 || d.Rate > 0.15*d.Asked {
		t.Errorf("asked %.4g, holds %.4g, warnings %v", d.Asked, d.Rate, res.Warnings)
	}
}

// How far down a correction goes: to where requests hardly meet, or as few decide as
// come in the time, but always to a tenth.
func TestLeastVerified(t *testing.T) {
	l := openLoad{residence: 2 * time.Second}
	for longest, want := range map[time.Duration]float64{0: 0.01, time.Minute: 0.1, 10 * time.Minute: 20. / 600, time.Hour: 0.01} {
		o := Options{Open: OpenLoop{Longest: longest}}
		if got := o.leastVerified(l, 1); math.Abs(got-want) > 1e-9 {
			t.Errorf("within %v: down to %.4g requests/s, want %.4g", longest, got, want)
		}
	}
}

// What decode engines let wait for a place longer than TTFT may be is said.
func TestDecodeWaitIsSaid(t *testing.T) {
	sla := profile.SLA{TTFT: 200 * ms, ITL: 50 * ms, Stat: profile.Mean}
	for _, tt := range []struct {
		phase profile.Phase
		ttft  time.Duration
		want  string
	}{
		{profile.Decode, 600 * ms, "decode: at 20.27 requests/s, requests queue at TP:1, which runs 64 at once. TTFT without prefill is mean 600.00 ms (limit 200 ms)"},
		{profile.Decode, 200 * ms, ""},
		{profile.Prefill, 600 * ms, ""}, // judged, and missed
	} {
		v := Verification{Phase: tt.phase, Rate: 20.27, Point: profile.Point{MaxSeqs: 64, Load: &profile.Attainment{TTFT: profile.Distribution{N: 100, Mean: tt.ttft}}}}
		v.warnWait(sla)
		if got := messageOf(v.warnings, "decode_wait"); got != tt.want {
			t.Errorf("%s, %v: %q", tt.phase, tt.ttft, got)
		}
	}
}
