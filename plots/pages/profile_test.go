package pages_test

import (
	"encoding/json"
	"fmt"
	"html"
	"math"
	"strings"
	"testing"
	"time"

	"plimsoll/engine"
	"plimsoll/plots/pages"
	"plimsoll/profile"
	"plimsoll/recommend"
)

func point(phase profile.Phase, tp int, latency time.Duration, throughput float64) profile.Point {
	d := profile.Distribution{N: 100, Neff: 100, Mean: latency, P99: 2 * latency, Half: time.Millisecond}
	p := profile.Point{
		ID: fmt.Sprintf("sweep/%s/tp%d/%v", phase, tp, latency), Stage: profile.StageSweep, Phase: phase, Config: engine.Config{Parallelism: engine.Parallelism{TP: tp}},
		ISL: 3000, OSL: 150, Asked: 1, InFlight: 1, Requests: 100, ThroughputPerGPU: throughput, Throughput95: profile.Interval{Low: throughput - 10, High: throughput + 10}, TTFT: d, TPOT: d,
	}
	if phase == profile.Aggregated {
		p.Rate = 2
		p.Load = &profile.Attainment{Requests: 1000, TTFT: d, TPOT: profile.Distribution{N: 100, Mean: latency / 10}}
	}
	return p
}

func profiled(points ...profile.Point) pages.Profile {
	return pages.Profile{
		Origin: pages.Origin{Title: "Profile of a model", Provenance: profile.Measured, Version: "v0", Command: "plimsoll profile-sla"},
		SLA:    profile.SLA{TTFT: 200 * time.Millisecond, ITL: 20 * time.Millisecond, Stat: profile.Mean}, Rank: recommend.BySingle, ISL: 3000, OSL: 150, Points: points,
	}
}

// unescaped is a page as a reader sees its texts.
func unescaped(t *testing.T, p interface{ HTML() ([]byte, error) }) string {
	t.Helper()
	b, err := p.HTML()
	if err != nil {
		t.Fatal(err)
	}
	return html.UnescapeString(string(b))
}

// The page says what recommend picks and why all others are not.
func TestProfileSaysWhy(t *testing.T) {
	t.Parallel()
	invalid, failed := point(profile.Decode, 8, 5*time.Millisecond, 900), point(profile.Decode, 2, 5*time.Millisecond, 900)
	invalid.Invalid, failed.Failures = "the client was late", 3
	points := []profile.Point{
		point(profile.Prefill, 1, 300*time.Millisecond, 9000), point(profile.Prefill, 2, 150*time.Millisecond, 8000),
		point(profile.Decode, 1, 19*time.Millisecond, 700), point(profile.Decode, 4, 9*time.Millisecond, 300), invalid, failed,
	}
	p := profiled(points...)
	p.Prefill.Samples = []profile.PrefillSample{{ISL: 100, TTFT: 20 * time.Millisecond, ThroughputPerGPU: 5000}}
	p.LeftOut, p.Verified, p.Assumptions = []pages.Fact{{Name: "TP:16", Text: "no room"}}, []string{"it held"}, []string{"prompts are new"}
	page := unescaped(t, p)
	for _, phase := range []profile.Phase{profile.Prefill, profile.Decode} {
		ch, err := recommend.Choose(phase, points, p.SLA, p.Rank, p.OSL)
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{`<h3>` + string(phase) + `</h3><p class="label">` + ch.Picked.Label(), ch.Why} {
			if !strings.Contains(page, want) {
				t.Errorf("the page has not %q", want)
			}
		}
		for _, r := range ch.Rejected {
			if !strings.Contains(page, r.Reason+"</td>") {
				t.Errorf("the page has not %q", r.Reason)
			}
		}
	}
	for _, want := range []string{"TP:16", "no room", "it held", "prompts are new", "<strong>measured</strong> – a real engine answered", `"prefill":[[100,20,5000]]`} {
		if !strings.Contains(page, want) {
			t.Errorf("the page has not %q", want)
		}
	}
}

// answers are what a page's script is given to choose from.
type answers struct {
	SLA    struct{ TTFT, ITL int }
	Limits struct{ TTFT, ITL []time.Duration }
	Stops  struct{ TTFT, ITL []int }
	Picks  struct {
		Prefill, Decode []int
		Aggregated      [][]int
	}
	Answers []struct {
		Candidate int
		Feasible  bool
	}
	Candidates []struct{ ID string }
}

func answersOf(t *testing.T, p pages.Profile) (d answers) {
	t.Helper()
	if err := json.Unmarshal([]byte(between(t, unescaped(t, p), `id="data">`, "</script>")), &d); err != nil {
		t.Fatal(err)
	}
	return d
}

// The page has recommend's answer for each limit that can be chosen, the profile's
// own among them.
func TestAnswers(t *testing.T) {
	t.Parallel()
	for _, phase := range []profile.Phase{profile.Decode, profile.Aggregated} {
		failed := point(phase, 8, 3*time.Millisecond, 900)
		failed.Failures, failed.FailsTooOften = 2, true
		if failed.Load != nil {
			failed.Load.Failures, failed.Load.FailsTooOften = 2, true
		}
		p := profiled(point(phase, 1, 19*time.Millisecond, 700), point(phase, 4, 9*time.Millisecond, 300), point(phase, 2, 40*time.Millisecond, 800), failed)
		d := answersOf(t, p)
		if d.Limits.TTFT[d.SLA.TTFT] != p.SLA.TTFT || d.Limits.ITL[d.SLA.ITL] != p.SLA.ITL {
			t.Errorf("%s: the profile's SLA is %+v of %+v", phase, d.SLA, d.Limits)
		}
		different := map[int]bool{}
		for i, ttft := range d.Limits.TTFT {
			if phase == profile.Decode && i > 0 {
				break // ITL alone decides
			}
			for j, itl := range d.Limits.ITL {
				sla := profile.SLA{TTFT: ttft, ITL: itl, Stat: profile.Mean}
				ch, err := recommend.Choose(phase, p.Points, sla, p.Rank, p.OSL)
				n := 0
				if phase == profile.Aggregated {
					ch, err = recommend.ChooseAggregated(p.Points, sla)
					n = d.Picks.Aggregated[i][j]
				} else {
					n = d.Picks.Decode[j]
				}
				if a := d.Answers[n]; err != nil || a.Feasible != ch.Feasible || ch.Picked.Point.ID != d.Candidates[a.Candidate].ID {
					t.Fatalf("%s: TTFT %v, ITL %v: the page picks %+v, recommend %s (%v)", phase, ttft, itl, a, ch.Picked.Point.ID, err)
				}
				different[d.Answers[n].Candidate] = true
			}
		}
		if len(different) < 3 {
			t.Errorf("%s: %v are the only picks", phase, different)
		}
	}
	p := profiled(point(profile.Prefill, 8, 0, 0))
	if d := answersOf(t, p); d.Answers[d.Picks.Prefill[0]].Candidate != -1 || !strings.Contains(unescaped(t, p), "could not be measured") {
		t.Error("a point without a latency is picked, or nothing says why it is not")
	}
}

// A profile that is no answer says so, by what it misses, and marks nothing as picked.
func TestInfeasibleProfile(t *testing.T) {
	t.Parallel()
	p := profiled(point(profile.Prefill, 1, 300*time.Millisecond, 9000), point(profile.Decode, 1, 30*time.Millisecond, 700))
	p.Ending = pages.Ending{Infeasible: "the nearest candidate", Shortfall: []string{"could be promised: --ttft 300"}, Suggested: []string{"Suggested prefill TP:1"}}
	page := unescaped(t, p)
	body := between(t, page, "<main", "</main>")
	for _, want := range []string{`<p class="band"><strong>infeasible</strong> – the nearest candidate</p>`, "<li>could be promised: --ttft 300</li>", "<li>Suggested prefill TP:1</li>", "TP:1 <small>nearest</small></th>", `<div class="pick missed"><h3>prefill`} {
		if !strings.Contains(body, want) {
			t.Errorf("the page has not %q", want)
		}
	}
	for _, not := range []string{"✓", "What is picked"} {
		if strings.Contains(body, not) {
			t.Errorf("the page has %q, and nothing is", not)
		}
	}
	p.SLA.TTFT, p.SLA.ITL, p.Ending = time.Second, time.Second, pages.Ending{}
	if page := unescaped(t, p); !strings.Contains(page, "✓") || strings.Contains(page, "infeasible</strong>") || strings.Contains(page, "<small>nearest") {
		t.Error("a feasible profile's page has not its picks, or says that it is none")
	}
}

// Each figure of a point is shown with where it may be, by its own error.
func TestProfileSaysWhereFiguresMayBe(t *testing.T) {
	t.Parallel()
	page := unescaped(t, profiled(point(profile.Prefill, 1, 100*time.Millisecond, 9000), point(profile.Decode, 1, 10*time.Millisecond, 700)))
	for _, want := range []string{`data-unit="ms">10 (9 to 11)</td>`, `data-unit="tokens/s/GPU">700 (690 to 710)</td>`, `"in_itl":[9,11],"in_throughput":[690,710],"bar":true`} {
		if !strings.Contains(page, want) {
			t.Errorf("the page has not %q", want)
		}
	}
	modelled := point(profile.Aggregated, 1, 100*time.Millisecond, 700)
	modelled.ModelError = profile.ModelError{Factor90: 2}
	p := profiled(modelled)
	p.TTFTErrors = map[string]profile.ModelError{"tp1": {Factor90: 4}}
	if page := unescaped(t, p); !strings.Contains(page, `"in_ttft":[25,400],"in_itl":[5,20],"in_throughput":[350,1400]`) {
		t.Error("TTFT is not by the model's error of TTFT, or ITL not by its own")
	}
}

func TestProfileRefused(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		change func(*pages.Profile)
		want   string
	}{
		{"no points", func(p *pages.Profile) { p.Points = nil }, "no points"},
		{"SLA", func(p *pages.Profile) { p.SLA.ITL = 0 }, "want both above 0"},
		{"lengths", func(p *pages.Profile) { p.OSL = 0 }, "ISL 3000 and OSL 0"},
		{"rank", func(p *pages.Profile) { p.Rank = "best" }, `rank "best"`},
		{"money", func(p *pages.Profile) { p.USD = math.NaN() }, "NaN USD"},
		{"not a number", func(p *pages.Profile) { p.Points[0].ThroughputPerGPU = math.Inf(1) }, "+Inf"},
		{"two kinds", func(p *pages.Profile) { p.Points[0] = point(profile.Aggregated, 1, time.Second, 5) }, "want one kind"},
	} {
		p := profiled(point(profile.Prefill, 1, time.Millisecond, 100), point(profile.Decode, 1, time.Millisecond, 100))
		c.change(&p)
		if b, err := p.HTML(); err == nil || b != nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}
