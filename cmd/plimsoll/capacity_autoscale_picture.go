package main

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"strings"
	"time"

	"plimsoll/capacity/autoscale"
	"plimsoll/plots"
	"plimsoll/profile/store"
)

// dayBin is a part of the day.
type dayBin struct {
	Seconds    float64   `json:"from_seconds"`
	QPS        float64   `json:"requests_per_second"`
	StaticGPUs float64   `json:"static_gpus"`
	GPUs       []float64 `json:"autoscaled_gpus"` // mean, for each start-up time
	StaticMiss float64   `json:"static_missed"`   // the larger of the shares above the SLO
	Missed     []float64 `json:"autoscaled_missed"`
}

// mostDayBins are as many as a picture shows.
const mostDayBins = 288

// binWidth is how many looks make a bin.
func (d autoscaledDay) binWidth() int {
	return max(1, (len(d.static.Looks)+mostDayBins-1)/mostDayBins)
}

func (d autoscaledDay) series() []dayBin {
	width, cells := d.binWidth(), d.options.cells
	var bins []dayBin
	for from := 0; from < len(d.static.Looks); from += width {
		to := min(from+width, len(d.static.Looks))
		looks := d.static.Looks[from:to]
		arrivals := int64(0)
		for _, l := range looks {
			arrivals += l.Arrivals
		}
		span := looks[len(looks)-1].To - looks[0].From
		b := dayBin{
			Seconds: looks[0].From.Seconds(), QPS: float64(cells) * float64(arrivals) / span.Seconds(),
			StaticGPUs: float64(cells) * meanGPUs(looks), StaticMiss: missedIn(looks),
		}
		for _, r := range d.autoscaled {
			b.GPUs = append(b.GPUs, float64(cells)*meanGPUs(r.Looks[from:to]))
			b.Missed = append(b.Missed, missedIn(r.Looks[from:to]))
		}
		bins = append(bins, b)
	}
	return bins
}

func meanGPUs(looks []autoscale.Look) float64 {
	sum := 0
	for _, l := range looks {
		sum += gpusOf(l)
	}
	return float64(sum) / float64(len(looks))
}

// missedIn is the larger of the shares of TTFT and ITL above the SLO.
func missedIn(looks []autoscale.Look) float64 {
	var ttft, itl autoscale.Kept
	for _, l := range looks {
		ttft = autoscale.Kept{Count: ttft.Count + l.TTFT.Count, Missed: ttft.Missed + l.TTFT.Missed}
		itl = autoscale.Kept{Count: itl.Count + l.ITL.Count, Missed: itl.Missed + l.ITL.Missed}
	}
	return max(1-ttft.Share(), 1-itl.Share())
}

func (d autoscaledDay) draw(file string) error {
	pic, err := d.picture()
	if err != nil {
		return fmt.Errorf("drawing %s: %w", file, err)
	}
	return writePicture(file, pic)
}

// writePicture writes a picture in the format that the file's name says.
func writePicture(file string, pic *plots.Picture) error {
	write := func(w io.Writer) error { return pic.WriteSVG(w) }
	if strings.ToLower(filepath.Ext(file)) == ".png" {
		write = pic.WritePNG
	}
	var b bytes.Buffer
	if err := write(&b); err != nil {
		return fmt.Errorf("drawing %s: %w", file, err)
	}
	return store.WriteFile(file, b.Bytes())
}

func (d autoscaledDay) picture() (*plots.Picture, error) {
	o, f := d.options, d.file()
	c := plots.Caption{
		Model: o.servedModel(), GPU: strings.Join(distinct(f.GPUs), " and "), Configuration: f.Layout, Engine: f.Source,
		ISL: int(math.Round(o.workload.AvgISL)), OSL: int(math.Round(o.workload.AvgOSL)),
		SLA:        o.slo.SLA(),
		Provenance: d.provenance, Feasible: true, Note: d.verdict(f),
	}
	panels := []plots.Panel{
		{Title: "Requests", Unit: "per second", Lines: []plots.Line{{Step: true}}},
		{Title: "GPUs", Unit: "mean", Lines: []plots.Line{{Name: "static", Step: true}}},
		{Title: "Missed the SLO", Unit: "%", Limits: []plots.Limit{{Name: "1 %", Value: 1}}, Lines: []plots.Line{{Name: "static", Step: true}}},
	}
	for _, s := range o.startUps {
		for i := 1; i < len(panels); i++ {
			panels[i].Lines = append(panels[i].Lines, plots.Line{Name: fmt.Sprintf("start-up %s", short(s)), Step: true})
		}
	}
	for _, b := range f.Series {
		add := func(panel, line int, v float64) {
			l := &panels[panel].Lines[line]
			l.Values = append(l.Values, v)
		}
		add(0, 0, b.QPS)
		add(1, 0, b.StaticGPUs)
		add(2, 0, 100*b.StaticMiss)
		for i := range b.GPUs {
			add(1, i+1, b.GPUs[i])
			add(2, i+1, 100*b.Missed[i])
		}
	}
	title := "Static peak and autoscaled fleets: " + string(o.workload.Pattern) + " day"
	if o.arrivals != nil {
		title = "Static peak and autoscaled fleets: a trace"
	}
	return plots.Timeline(c, title, 0, time.Duration(d.binWidth())*ruleEvery, panels, nil)
}
