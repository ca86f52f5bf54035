package main

import (
	"strings"
	"testing"
	"time"

	"plimsoll/engine"
	"plimsoll/plots"
	"plimsoll/profile"
	"plimsoll/profile/store"
)

// twofold is an error of a latency model.
func twofold() profile.ModelError {
	return profile.ModelError{Median: 0.3, P90: 0.9, Factor50: 1.3, Factor90: 2, N: 30}
}

// A picture says of bars and bands only what it shows, and of what was left out only
// what was left out of its phase.
func TestCaptionsSayWhatTheirPictureShows(t *testing.T) {
	pick := func(e profile.ModelError) *store.Pick {
		p := store.NewPick(engine.Config{Parallelism: engine.TP(1)})
		p.ModelError = e
		return &p
	}
	rec := store.Recommendation{Prefill: pick(twofold()), Decode: pick(twofold())}
	run := store.Run{Skips: []profile.Skip{
		{Phase: profile.Prefill, Label: "TP:4", Reason: "cannot win in prefill"},
		{Phase: profile.Decode, Label: "TP:8", Reason: "cannot win in decode"},
		{Label: "TP:2", Reason: "did not start\nand a log"},
	}}
	dot := plots.Candidate{Label: "TP:1", Latency: time.Second, ThroughputPerGPU: 1}
	barred := dot
	barred.Low, barred.High = time.Second/2, 2*time.Second
	line := func(float64) (float64, bool) { return 1, true }

	pre, dec := captionOf(run, rec, profile.Prefill), captionOf(run, rec, profile.Decode)
	error90 := "within a factor of 2.00"
	for name, c := range map[string]struct {
		caption plots.Caption
		has     []string
		not     []string
	}{
		"performance":              {pre.of([]plots.Candidate{barred}), []string{"bars, drawn at the pick", error90, "TP:4 left out", "TP:2 left out"}, []string{"TP:8", "a log"}},
		"performance, no bars":     {dec.of([]plots.Candidate{dot}), []string{error90, "TP:8 left out", "TP:2 left out"}, []string{"bars", "TP:4"}},
		"nothing to show":          {dec.of(nil), []string{error90}, []string{"bars"}},
		"fit over ISL":             {pre.curve(line), []string{"band: the fit's error and the latency model's", error90}, []string{"bars"}},
		"no fit over ISL":          {pre.curve(nil), []string{error90}, []string{"bars", "band"}},
		"map":                      {dec.surface(), []string{"the map does not show the latency model's error", error90}, []string{"bars", "band"}},
		"measured":                 {captionOf(run, store.Recommendation{Decode: pick(profile.ModelError{})}, profile.Decode).of([]plots.Candidate{barred}), []string{"TP:8 left out"}, []string{"error", "bars"}},
		"map of what was measured": {captionOf(run, store.Recommendation{Decode: pick(profile.ModelError{})}, profile.Decode).surface(), nil, []string{"error"}},
	} {
		for _, s := range c.has {
			if !strings.Contains(c.caption.Note, s) {
				t.Errorf("%s: %q does not say %q", name, c.caption.Note, s)
			}
		}
		for _, s := range c.not {
			if strings.Contains(c.caption.Note, s) {
				t.Errorf("%s: %q says %q", name, c.caption.Note, s)
			}
		}
	}
}

// The band around a fit of estimates holds the latency model's error: the fit alone
// goes through them and would have none.
func TestBandHoldsTheModelsError(t *testing.T) {
	exact := func(x float64) (float64, float64) { return x, x }
	if low, high := widened(exact, twofold())(10); low != 5 || high != 20 {
		t.Errorf("%v to %v, want 5 to 20", low, high)
	}
	if low, high := widened(exact, profile.ModelError{})(10); low != 10 || high != 10 {
		t.Errorf("measured: %v to %v, want 10", low, high)
	}
}

// Loads of aggregated engines have the intervals in the picture that they have in
// the files, and the pick's throughput reaches up to the lowest rate that missed.
func TestAggregatedPicturesShowIntervals(t *testing.T) {
	ms := time.Millisecond
	load := func(id string, rate float64, ttft, itl time.Duration) profile.Point {
		p := profile.Point{
			ID: id, Stage: profile.StageSweep, Phase: profile.Aggregated, Config: engine.Config{Parallelism: engine.TP(1)},
			Rate: rate, Requests: 100, ThroughputPerGPU: 10 * rate, ModelError: twofold(),
			Load: &profile.Attainment{Requests: 100, TTFT: profile.Distribution{N: 100, Mean: ttft, Half: 5 * ms}, TPOT: profile.Distribution{N: 100, Mean: itl, Half: 2 * ms}},
		}
		p.TTFT, p.TPOT = p.Load.TTFT, p.Load.TPOT
		return p
	}
	bad := load("bad", 4, 50*ms, 10*ms)
	bad.Invalid = "the client was the bottleneck"
	pick := store.NewPick(engine.Config{Parallelism: engine.TP(1)})
	pick.ModelError = twofold()
	rec := store.Recommendation{Mode: store.Aggregated, Aggregated: &pick}
	run := store.Run{
		Points: []profile.Point{load("a", 1, 50*ms, 10*ms), load("b", 2, 60*ms, 15*ms), load("c", 3, 70*ms, 30*ms), bad},
		SLA:    profile.SLA{TTFT: 100 * ms, ITL: 20 * ms, Stat: profile.Mean},
		Skips:  []profile.Skip{{Phase: profile.Aggregated, Label: "TP:8", Reason: "did not start"}},
	}
	ttft := plotLoads(run, rec, ttftUnderLoad(run.SLA))
	if len(ttft) != 3 {
		t.Fatalf("%d loads, want 3 without the invalid one", len(ttft))
	}
	if c := ttft[1]; !c.Picked || c.Low != 55*ms || c.High != 65*ms || c.Interval != (profile.Interval{Low: 20, High: 30}) {
		t.Errorf("TTFT of the pick: %+v", c)
	}
	if c := plotLoads(run, rec, itlUnderLoad(run.SLA))[2]; c.Picked || c.Low != 28*ms || c.High != 32*ms || c.Interval != (profile.Interval{}) {
		t.Errorf("ITL of the rate that missed: %+v", c)
	}
	said := captionOf(run, rec, profile.Aggregated).ofLoads(ttft)
	for _, s := range []string{"bars exclude the latency model's ITL error", "up to the lowest rate that missed", "TP:8 left out", "1 point invalid"} {
		if !strings.Contains(said.Note, s) {
			t.Errorf("%q does not say %q", said.Note, s)
		}
	}
	for _, p := range aggregatedPictures(run, rec) {
		pic, err := p.draw()
		if err != nil {
			t.Fatal(err)
		}
		var svg strings.Builder
		if err := pic.WriteSVG(&svg); err != nil || !strings.Contains(svg.String(), ">95 % interval of the load<") {
			t.Errorf("%s: %v: its legend does not name the bars", p.name, err)
		}
	}
}
