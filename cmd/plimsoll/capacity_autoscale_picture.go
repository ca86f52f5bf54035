package main

import (
	"bytes"
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"time"

	"plimsoll/plots"
	"plimsoll/profile/store"
)

// dayBin is an interval of the replay. Its figures are in the order of the policies.
type dayBin struct {
	Seconds float64   `json:"from_seconds"`
	QPS     float64   `json:"requests_per_second"`
	GPUs    []float64 `json:"gpus"`   // mean
	Missed  []float64 `json:"missed"` // share of the requests that missed TTFT or ITL
}

// mostDayBins are as many as a picture shows.
const mostDayBins = 288

// binWidth is how many points of a timeline make a bin.
func (d autoscaled) binWidth() int {
	return max(1, (len(d.runs[0].result.Timeline)+mostDayBins-1)/mostDayBins)
}

func (d autoscaled) timeline() []dayBin {
	var bins []dayBin
	for i, width := 0, d.binWidth(); i < len(d.runs[0].result.Timeline); i += width {
		var b dayBin
		for _, r := range d.runs {
			points := r.result.Timeline[i:min(i+width, len(r.result.Timeline))]
			from, span := points[0].From, (points[len(points)-1].To - points[0].From).Seconds()
			arrivals, missed, gpus := int64(0), int64(0), 0.0
			for _, p := range points {
				arrivals, missed = arrivals+p.Arrivals, missed+p.Arrivals-p.MetBoth
				for _, pool := range p.Pools {
					gpus += pool.GPUs * (p.To - p.From).Seconds()
				}
			}
			b.Seconds, b.QPS = from.Seconds(), float64(arrivals)/span/d.share
			b.GPUs = append(b.GPUs, gpus/span/d.share)
			b.Missed = append(b.Missed, float64(missed)/float64(max(1, arrivals)))
		}
		bins = append(bins, b)
	}
	return bins
}

// writePicture writes a picture in the format that the file's name says; "" = nowhere.
func writePicture(file string, draw func() (*plots.Picture, error)) error {
	if file == "" {
		return nil
	}
	var b bytes.Buffer
	pic, err := draw()
	switch {
	case err != nil:
	case strings.ToLower(filepath.Ext(file)) == ".png":
		err = pic.WritePNG(&b)
	default:
		err = pic.WriteSVG(&b)
	}
	if err != nil {
		return fmt.Errorf("drawing %s: %w", file, err)
	}
	return store.WriteFile(file, b.Bytes())
}

func (d autoscaled) picture() (*plots.Picture, error) {
	o, f := d.options, d.file()
	c := plots.Caption{
		Model: plannedModel(o.fleet), GPU: strings.Join(planGPUs(d.plan.Plan), " and "), Configuration: f.Layout, Engine: f.Source,
		ISL: int(math.Round(o.workload.ISL)), OSL: int(math.Round(o.workload.OSL)),
		SLA:        o.slo.SLA(),
		Provenance: f.Provenance, Feasible: true, Note: d.verdict(f),
	}
	line := func(name string, of func(dayBin) float64) plots.Line {
		l := plots.Line{Name: name, Step: true}
		for _, b := range f.Timeline {
			l.Values = append(l.Values, of(b))
		}
		return l
	}
	panels := []plots.Panel{{Title: "Requests", Unit: "per second", Lines: []plots.Line{line("", func(b dayBin) float64 { return b.QPS })}}}
	for _, policy := range []string{scaledBySLA, scaledByArticle} { // a panel has room for the start-ups of one
		gpus := plots.Panel{Title: "GPUs", Unit: "mean"}
		missed := plots.Panel{Title: "Missed the SLO", Unit: "%", Limits: []plots.Limit{{Name: "1 %", Value: 1}}}
		for i, r := range d.runs {
			if i == 0 || r.policy == policy {
				gpus.Lines = append(gpus.Lines, line(r.name(), func(b dayBin) float64 { return b.GPUs[i] }))
				missed.Lines = append(missed.Lines, line(r.name(), func(b dayBin) float64 { return 100 * b.Missed[i] }))
			}
		}
		panels = append(panels, gpus, missed)
	}
	title := "Static peak and autoscaled fleets: " + string(o.workload.Pattern) + " day"
	if o.arrivals != nil {
		title = "Static peak and autoscaled fleets: a trace"
	}
	first := d.runs[0].result.Timeline[0]
	return plots.Timeline(c, title, 0, time.Duration(d.binWidth())*(first.To-first.From), panels, nil)
}
