package main

import (
	"fmt"
	"math"
	"time"

	"plimsoll/engine"
	"plimsoll/engine/sim/fleet"
	"plimsoll/plots"
	"plimsoll/profile"
)

// picture is the run over time.
func (s simulation) picture() (*plots.Picture, error) {
	f, bins := s.fleet, s.report.Series
	c := plots.Caption{
		Model: f.Model, GPU: f.GPU, Configuration: f.Layout(), Engine: f.Source,
		ISL: int(math.Round(s.report.ISL.Mean())), OSL: int(math.Round(s.report.OSL.Mean())),
		SLA: profile.SLA{TTFT: f.SLA.TTFT, ITL: f.SLA.ITL, Stat: profile.Mean}, Provenance: s.report.Provenance,
		EachRequest: true, Feasible: true, Note: s.note(),
	}
	var start, width time.Duration
	if len(bins) > 0 {
		start, width = bins[0].From.Duration(), (bins[0].To - bins[0].From).Duration()
	}
	if n := len(bins); n > 1 && bins[n-1].To-bins[n-1].From < bins[0].To-bins[0].From {
		bins = bins[:n-1] // the last one is not over: its rates would be those of a moment
	}
	return plots.Timeline(c, "Simulated fleet: "+s.load.words, start, width, s.panels(bins), s.distributions())
}

// note is the result in one line.
func (s simulation) note() string {
	r := s.report
	n := fmt.Sprintf("%s, %.4g per second", engine.Count(r.Finished, "request"), r.Requests)
	if s.judged() {
		n += fmt.Sprintf("; %s met the SLA", percent(r.Attainment.Both))
	}
	if off := s.factor(); off > 0 {
		n += fmt.Sprintf(" (half of the model's errors of TTFT or of ITL are larger than a factor of %.2f)", off)
	}
	for _, w := range s.warnings {
		n += "; " + w.Message
	}
	return n
}

func (s simulation) panels(bins []fleet.Bin) []plots.Panel {
	line := func(name string, of func(fleet.Bin) float64) plots.Line { return steppedLine(name, bins, of) }
	perSecond := func(n int64, b fleet.Bin) float64 { return float64(n) / (b.To - b.From).Seconds() }
	ttft := func(of func(fleet.Bin) engine.Picoseconds) func(fleet.Bin) float64 {
		return func(b fleet.Bin) float64 {
			if b.FirstTokens == 0 {
				return math.NaN()
			}
			return of(b).Milliseconds()
		}
	}
	return []plots.Panel{
		{Title: "Requests", Unit: "per second", Lines: []plots.Line{
			line("arrived", func(b fleet.Bin) float64 { return perSecond(b.Arrivals, b) }),
			line("finished", func(b fleet.Bin) float64 { return perSecond(b.Finished, b) }),
		}},
		{Title: "In the fleet", Unit: "requests", Lines: []plots.Line{
			line("running", func(b fleet.Bin) float64 { return b.Running }),
			line("waiting", func(b fleet.Bin) float64 { return b.Waiting }),
		}},
		{Title: "KV cache in use", Unit: "%", Lines: []plots.Line{line("", func(b fleet.Bin) float64 { return 100 * b.KVUse })}},
		{Title: "TTFT", Unit: "ms", Log: true, Limits: limitOf(s.fleet.SLA.TTFT), Lines: []plots.Line{
			line("mean", ttft(func(b fleet.Bin) engine.Picoseconds { return b.TTFTMean })),
			line("slowest", ttft(func(b fleet.Bin) engine.Picoseconds { return b.TTFTMax })),
		}},
	}
}

func limitOf(d time.Duration) []plots.Limit {
	if d == 0 {
		return nil
	}
	ms := profile.Milliseconds(d)
	return []plots.Limit{{Name: fmt.Sprintf("SLA %g ms", ms), Value: ms}}
}

func (s simulation) distributions() []plots.Distribution {
	r := s.report
	return []plots.Distribution{
		{Title: "TTFT", Unit: "ms", Limits: limitOf(s.fleet.SLA.TTFT), Curves: []plots.Quantiles{quantiles("requests", r.TTFT)}},
		{Title: "ITL", Unit: "ms", Limits: limitOf(s.fleet.SLA.ITL), Curves: []plots.Quantiles{
			quantiles("tokens", r.ITL), quantiles("requests (mean of each)", r.TPOT),
		}},
		{Title: "End to end", Unit: "ms", Curves: []plots.Quantiles{quantiles("requests", r.E2E)}},
	}
}

// quantiles is a sketch as a curve of half percents.
func quantiles(name string, s fleet.Sketch) plots.Quantiles {
	q := plots.Quantiles{Name: name}
	if s.Count() == 0 {
		return q
	}
	q.Points = append(q.Points, plots.Quantile{Share: 0, Value: engine.Picoseconds(s.Min()).Milliseconds()})
	for i := 1; i < 200; i++ {
		share := float64(i) / 200
		q.Points = append(q.Points, plots.Quantile{Share: share, Value: engine.Picoseconds(s.Quantile(share)).Milliseconds()})
	}
	q.Points = append(q.Points, plots.Quantile{Share: 1, Value: engine.Picoseconds(s.Max()).Milliseconds()})
	return q
}
