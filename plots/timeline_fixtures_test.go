package plots

import (
	"math"
	"strings"
	"time"

	"plimsoll/profile"
)

// day is a made-up fleet over n bins: load that rises and falls, replicas that
// follow it, and a queue and a TTFT that suffer where they are late.
func day(n int) ([]Panel, []Distribution) {
	part := func(f func(x float64) float64) []float64 {
		vs := make([]float64, n)
		for i := range vs {
			vs[i] = f((float64(i) + 0.5) / float64(n))
		}
		return vs
	}
	noise := func(x float64) float64 { return 1 + 0.08*math.Sin(911*x) + 0.05*math.Sin(2777*x+1) }
	load := func(x float64) float64 { return 20 * (1 - 0.8*math.Cos(2*math.Pi*x)) * noise(x) }
	surge := func(x float64) float64 { y := (x - 0.42) / 0.04; return math.Exp(-y * y) }
	ttft := func(x float64) float64 { return (80 + 1500*surge(x)) * noise(x) }
	limit := []Limit{{"SLA 200 ms", 200}}
	panels := []Panel{
		{Title: "Requests", Unit: "per second", Lines: []Line{
			{Name: "arrived", Values: part(load), Filled: true},
			{Name: "finished", Values: part(func(x float64) float64 { return load(x) * (1 - 0.4*surge(x) + 0.5*surge(x-0.05)) })},
		}},
		{Title: "Requests in the engines", Lines: []Line{
			{Name: "waiting", Values: part(func(x float64) float64 { return 300 * surge(x) })},
			{Name: "running", Values: part(func(x float64) float64 { return 6 * load(x) })},
		}},
		{Title: "KV cache in use", Unit: "%", Lines: []Line{{Name: "mean", Values: part(func(x float64) float64 { return 1.5 * load(x) })}}},
		{Title: "TTFT", Unit: "ms", Log: true, Limits: limit, Lines: []Line{
			{Name: "mean", Values: part(ttft)},
			{Name: "max", Values: part(func(x float64) float64 { return 3 * ttft(x) * noise(x*x) })},
		}},
		{Title: "Replicas", Lines: []Line{
			{Name: "ready", Step: true, Filled: true, Values: part(func(x float64) float64 { return math.Ceil(load(max(x-0.03, 0)) / 9) })},
			{Name: "wanted", Step: true, Values: part(func(x float64) float64 { return math.Ceil(load(x) / 9) })},
		}},
	}
	return panels, []Distribution{
		{Title: "TTFT", Unit: "ms", Limits: limit, Curves: []Quantiles{{"requests", quantiles(func(p float64) float64 { return 60 * math.Pow(1-p, -0.6) })}}},
		{Title: "ITL", Unit: "ms", Limits: []Limit{{"SLA 20 ms", 20}}, Curves: []Quantiles{{"gaps", quantiles(func(p float64) float64 { return 9 + 6*p + 12*math.Pow(p, 20) })}}},
	}
}

// quantiles are 101 points of a distribution given by its quantile function.
func quantiles(at func(float64) float64) []Quantile {
	var qs []Quantile
	for i := range 101 {
		p := float64(i) / 100
		qs = append(qs, Quantile{p, at(min(p, 0.999))})
	}
	return qs
}

func fleetCaption() Caption {
	c := caption()
	c.Configuration, c.Note = "TP:1 × 2 to 4 replicas", ""
	return c
}

func timelines() []pictureCase {
	of := func(n int, width time.Duration, change func(*Caption, []Panel, []Distribution) ([]Panel, []Distribution)) func() (*Picture, error) {
		return func() (*Picture, error) {
			c := fleetCaption()
			ps, ds := day(n)
			if change != nil {
				ps, ds = change(&c, ps, ds)
			}
			return Timeline(c, "A fleet over time", 0, width, ps, ds)
		}
	}
	long := strings.Repeat("a very long name of something ", 6)
	return []pictureCase{
		{"timeline", of(96, 15*time.Minute, nil)},
		{"timeline_gaps", of(120, 10*time.Second, func(_ *Caption, ps []Panel, ds []Distribution) ([]Panel, []Distribution) {
			for i := range ps {
				for j := range ps[i].Lines {
					vs := ps[i].Lines[j].Values
					for k := range vs {
						if k > 40 && k < 80 && k != 60 || k%31 == 0 {
							vs[k] = math.NaN()
						}
					}
				}
			}
			ps[2].Lines[0].Low, ps[2].Lines[0].High = scaled(ps[2].Lines[0].Values, 0.7), scaled(ps[2].Lines[0].Values, 1.2)
			ps[1].Lines[0].Values = nil
			ps[1].Lines = ps[1].Lines[:1]
			return ps, append(ds, Distribution{Title: "E2E", Unit: "s"})
		})},
		{"timeline_one_panel", of(60, time.Second, func(_ *Caption, ps []Panel, _ []Distribution) ([]Panel, []Distribution) { return ps[3:4], nil })},
		{"timeline_distributions", of(60, time.Second, func(_ *Caption, _ []Panel, ds []Distribution) ([]Panel, []Distribution) { return nil, ds })},
		{"timeline_2000_bins", of(2000, 5*time.Minute, func(c *Caption, ps []Panel, ds []Distribution) ([]Panel, []Distribution) {
			c.Provenance = profile.Measured
			return ps, ds
		})},
		{"timeline_one_bin", of(1, time.Second, nil)},
		{"timeline_two_bins", of(2, time.Hour, nil)},
		{"timeline_outlier", of(300, 2*time.Second, func(_ *Caption, ps []Panel, ds []Distribution) ([]Panel, []Distribution) {
			for i := range ps {
				ps[i].Lines[0].Values[200] *= 1e5
			}
			ds[0].Curves[0].Points[100].Value = 1e7
			ds[1].Curves[0].Points[100].Value = 400
			return ps, ds
		})},
		{"timeline_zeros", of(50, 24*time.Hour, func(_ *Caption, ps []Panel, ds []Distribution) ([]Panel, []Distribution) {
			for i := range ps {
				for j := range ps[i].Lines {
					ps[i].Lines[j].Values = scaled(ps[i].Lines[j].Values, 0)
				}
			}
			ds[1].Curves[0].Points = []Quantile{{0.5, 0}}
			return ps, ds
		})},
		{"timeline_full", of(200, 3*time.Minute, func(c *Caption, ps []Panel, ds []Distribution) ([]Panel, []Distribution) {
			c.Feasible, c.Note = false, strings.Repeat("This note goes on and on. ", 30)
			ps = append(ps, Panel{Title: "TTFT", Unit: "ms", Limits: []Limit{{"SLA 200 ms", 200}, {"SLA 50 s", 50000}}, Lines: []Line{ps[3].Lines[0], ps[3].Lines[1], {Name: "half the mean", Values: scaled(ps[3].Lines[0].Values, 0.5)}, {Name: "twice the max", Values: scaled(ps[3].Lines[1].Values, 2)}}})
			q := ds[0].Curves[0]
			for _, name := range []string{"aggregated", "prefill", "decode"} {
				for i, p := range q.Points {
					q.Points[i].Value = p.Value * 1.7
				}
				ds[0].Curves = append(ds[0].Curves, Quantiles{name, append([]Quantile(nil), q.Points...)})
			}
			return ps, append(ds, ds...)
		})},
		{"timeline_long_names", of(90, time.Minute, func(c *Caption, ps []Panel, ds []Distribution) ([]Panel, []Distribution) {
			c.Model, c.Configuration = long, long
			for i := range ps {
				ps[i].Title, ps[i].Limits = long, []Limit{{long, 50}}
				for j := range ps[i].Lines {
					ps[i].Lines[j].Name = long
				}
			}
			ds[0].Title, ds[1].Unit, ds[1].Curves[0].Name = long, long, long
			return ps, ds
		})},
		{"timeline_nothing", of(0, 0, func(c *Caption, _ []Panel, _ []Distribution) ([]Panel, []Distribution) {
			c.Note = "the trace has no requests between 10:00 and 11:00"
			return nil, nil
		})},
	}
}

func scaled(vs []float64, by float64) []float64 {
	out := make([]float64, len(vs))
	for i, v := range vs {
		out[i] = v * by
	}
	return out
}
