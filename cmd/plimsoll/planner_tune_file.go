package main

import (
	"fmt"
	"math"
	"slices"

	"plimsoll/engine"
	"plimsoll/planner/replay"
	"plimsoll/planner/tune"
	"plimsoll/profile"
)

// tuneSchemaVersion is that of what planner tune prints as JSON.
const tuneSchemaVersion = 1

// tuneFile is what --format json prints.
type tuneFile struct {
	Schema      int                 `json:"schema"`
	Policy      string              `json:"policy"`
	Target      float64             `json:"target_attainment"`
	Cost        string              `json:"cost"` // what is to be low: GPU-hours or USD
	Seeds       []int               `json:"seeds"`
	Version     string              `json:"version"` // of plimsoll
	Command     string              `json:"command"` // that makes this again
	Provenance  profile.Provenance  `json:"provenance"`
	Fleet       replayFleetFile     `json:"fleet"`
	SLA         replaySLAFile       `json:"sla"`
	Search      tuneSearchFile      `json:"search"`
	Parameters  []tuneParameterFile `json:"parameters"`
	Fit         tunePartFile        `json:"fit"`
	Report      *tunePartFile       `json:"report,omitempty"` // none where the search was interrupted
	Optimism    *tuneOptimismFile   `json:"optimism,omitempty"`
	Recommended bool                `json:"recommended"` // the tuned settings; otherwise the default ones stay
	Why         string              `json:"why"`
	Holds       bool                `json:"holds"` // what is to be run, on the report part
	NotModelled []string            `json:"not_modelled"`
	Warnings    []profile.Warning   `json:"warnings"`
}

type tuneSearchFile struct {
	Settings int      `json:"settings"` // that were tried, the default ones included
	Replays  int      `json:"replays"`  // of the fit part
	Budget   int      `json:"budget"`
	Back     []string `json:"put_back"` // parameters of the winner that are the default's again, since they did not pay
	Ended    bool     `json:"ended"`    // not interrupted
	Seeds    int      `json:"seeds_of_tuned"`
}

type tuneParameterFile struct {
	Name     string `json:"name"` // of the flag, and of the configuration's key
	Default  string `json:"default"`
	Tuned    string `json:"tuned"`
	Searched string `json:"searched"`
}

// tunePartFile is a part of the load and how settings did on it; figures are means
// over the seeds.
type tunePartFile struct {
	From    float64            `json:"from_seconds"`
	To      float64            `json:"to_seconds"`
	Load    replayLoadFile     `json:"load"`
	Default tuneFiguresFile    `json:"default"`
	Tuned   tuneFiguresFile    `json:"tuned"`
	Less    tuneDifferenceFile `json:"tuned_less_default"`
}

type tuneFiguresFile struct {
	Both     seedMean `json:"attainment"`
	TTFT     seedMean `json:"attainment_ttft"`
	ITL      seedMean `json:"attainment_itl"`
	UnderSLO seedMean `json:"time_under_slo"`
	GPUHours seedMean `json:"gpu_hours"`
	Money    seedMean `json:"usd,omitzero"`
	Scalings seedMean `json:"scalings"`
	HeldBack seedMean `json:"held_back_by_budget,omitzero"` // share of the decisions
	Holds    bool     `json:"holds"`                        // the target, with all of the interval
}

// tuneDifferenceFile is paired by seed.
type tuneDifferenceFile struct {
	Both   seedMean `json:"attainment"`
	Cost   seedMean `json:"cost"`
	Share  float64  `json:"cost_share"` // of the default's cost
	Better bool     `json:"better"`     // by more than the interval
}

// tuneOptimismFile is the tuned settings' figures on the fit part less those on the
// report part: how much better the search made them look.
type tuneOptimismFile struct {
	Both   float64 `json:"attainment"`
	Saving float64 `json:"cost_share"` // of what was saved against the default settings
}

// file is what is to be shown; whole says that both parts were replayed.
func (t tuning) file(whole bool) tuneFile {
	o := t.options
	about := t.fit.file()
	f := tuneFile{
		Schema: tuneSchemaVersion, Version: about.Version, Command: about.Command, Provenance: about.Provenance,
		Policy: o.replay.policies[0].policy, Target: o.target, Cost: t.unit(), Seeds: about.Seeds, Fleet: about.Fleet, SLA: about.SLA,
		Search: tuneSearchFile{
			Settings: t.found.Settings, Replays: t.found.Trials, Budget: o.budget, Back: []string{}, Ended: t.found.Ended,
			Seeds: len(t.results(t.found.Best)),
		},
		NotModelled: about.NotModelled, Why: "the search was interrupted, and nothing was replayed on the report part",
	}
	for _, i := range t.found.Back {
		f.Search.Back = append(f.Search.Back, o.parameters[i].flag)
	}
	for i, p := range o.parameters {
		f.Parameters = append(f.Parameters, tuneParameterFile{
			Name: p.flag, Default: p.text(p.parameter(o.replay).Default), Tuned: p.text(t.found.Best.Setting[i]), Searched: p.searched(),
		})
	}
	f.Fit = t.partFile(t.fit, *o.fit, t.results(t.found.Default), t.results(t.found.Best))
	if whole {
		r := t.partFile(t.report, *o.report, t.reported[0], t.reported[1])
		f.Report = &r
		f.Optimism = &tuneOptimismFile{f.Fit.Tuned.Both.Mean - r.Tuned.Both.Mean, r.Less.Share - f.Fit.Less.Share}
		f.Recommended, f.Why = t.verdict()
		f.Holds = r.Default.Holds
		if f.Recommended {
			f.Holds = r.Tuned.Holds
		}
	}
	f.Warnings = append([]profile.Warning{}, t.caveats(f)...)
	return f
}

func (t tuning) partFile(c comparison, w span, first, best []replay.Result) tunePartFile {
	out := tunePartFile{From: w.from.Seconds(), To: w.to.Seconds(), Load: c.file().Load}
	if len(first) == 0 || len(best) == 0 {
		return out
	}
	out.Default, out.Tuned = t.figuresFile(first), t.figuresFile(best)
	n := min(len(first), len(best))
	d := t.compare(best[:n], first[:n])
	out.Less = tuneDifferenceFile{Both: shownInterval(d.Attainment), Cost: shownInterval(d.Cost), Better: d.Better}
	paid := 0.0
	for _, r := range first[:n] {
		paid += t.figures(r).Cost / float64(n)
	}
	if paid > 0 {
		out.Less.Share = d.Cost.Mean / paid
	}
	return out
}

// shownInterval is an interval as files have it.
func shownInterval(i tune.Interval) seedMean {
	if math.IsInf(i.Half, 0) || math.IsNaN(i.Half) {
		return seedMean{Mean: i.Mean}
	}
	return seedMean{i.Mean, &i.Half}
}

func (t tuning) figuresFile(results []replay.Result) tuneFiguresFile {
	over := func(of func(replay.Result) float64) seedMean { return meanOf(each(results, of)) }
	f := tuneFiguresFile{
		Both: over(attained), TTFT: over(func(r replay.Result) float64 { return r.Attainment.TTFT }),
		ITL:      over(func(r replay.Result) float64 { return r.Attainment.ITL }),
		UnderSLO: over(func(r replay.Result) float64 { return r.UnderSLO }), GPUHours: over(gpuHours),
		Scalings: over(func(r replay.Result) float64 { return float64(r.Scales) }), HeldBack: over(heldBack), Holds: t.holds(results),
	}
	if t.options.replay.usd > 0 {
		f.Money = over(func(r replay.Result) float64 { return r.Money })
	}
	return f
}

// caveats are what a reader has to know before the figures.
func (t tuning) caveats(f tuneFile) (out []profile.Warning) {
	warn := func(code, format string, args ...any) { out = append(out, profile.Warnf(code, format, args...)) }
	for _, part := range []struct {
		name string
		comparison
		load replayLoadFile
	}{{"fit", t.fit, f.Fit.Load}, {"report", t.report, t.report.file().Load}} {
		for _, w := range part.warnings {
			same := func(o profile.Warning) bool { return o.Message == w.Message }
			if !slices.ContainsFunc(out, same) {
				out = append(out, w)
			}
		}
		if n := t.decisions(part.comparison); n < leastDecisions && t.changed() {
			warn("few_decisions", "%s with the tuned settings decides %s in %s: that says little of them", f.Policy, engine.Count(n, "time"), short(part.length()))
		}
		if part.load.Requests < leastRequests {
			warn("few_requests", "the %s part has %s: fewer than %d do not tell 1 %% of misses from 2 %%", part.name, engine.Count(part.load.Requests, "request"), leastRequests)
		}
	}
	if t.options.fit.from >= t.options.report.to {
		warn("report_before_fit", "the report part comes before the fit part: settings knew the time to come")
	}
	if words := otherThan(f.Fit.Load, t.report.file().Load); words != "" {
		warn("other_load", "the load of the report part is another one than that of the fit part: %s", words)
	}
	if r := t.results(t.found.Default); len(r) > 1 && alike(r) {
		warn("seeds_alike", "all seeds gave the same: intervals of nothing, which any difference is more than; --to-rate, --trace-scale, --noise or --replica-startup-spread make them differ")
	}
	for i, p := range t.options.parameters {
		if v := t.found.Best.Setting[i]; p.kind != tunedWord && v != p.parameter(t.options.replay).Default && (v == p.low || v == p.high) {
			warn("at_bound", "%s %s is at the end of what was searched, %s: --tune %s=LOW..HIGH searches farther", p.flag, p.text(v), p.searched(), p.flag)
		}
	}
	return out
}

// decisions are those that the settings found make in a part.
func (t tuning) decisions(part comparison) int {
	o, err := t.options.variant(t.options.changed(t.found.Best.Setting))
	if err != nil {
		o = t.options.replay // they were replayed before
	}
	return int(part.length() / o.policies[0].settings.pulse)
}

// otherThan says in what two loads differ; empty where they are alike.
func otherThan(a, b replayLoadFile) string {
	for _, x := range []struct {
		name string
		a, b float64
	}{
		{"requests/s", a.Rate, b.Rate},
		{"requests in the busiest minute", float64(a.BusiestMinute), float64(b.BusiestMinute)},
		{"ISL on average", a.ISL, b.ISL},
		{"OSL on average", a.OSL, b.OSL},
	} {
		if x.a > otherLoad*x.b || x.b > otherLoad*x.a {
			return fmt.Sprintf("%.4g %s instead of %.4g", x.b, x.name, x.a)
		}
	}
	return ""
}

// alike reports whether replays with other seeds gave the very same.
func alike(results []replay.Result) bool {
	for _, r := range results[1:] {
		if r.Attainment != results[0].Attainment || r.GPUHours != results[0].GPUHours {
			return false
		}
	}
	return true
}
