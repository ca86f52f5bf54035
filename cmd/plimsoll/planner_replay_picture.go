package main

import (
	"math"
	"path/filepath"
	"strings"

	"plimsoll/planner/replay"
	"plimsoll/plots"
)

// loadName is what the load is, without the folder of a file.
func (c comparison) loadName() string {
	file := c.options.load.arrivals.file
	if file == "" {
		return c.facts.words
	}
	return strings.Replace(c.facts.words, file, filepath.Base(file), 1)
}

// wholePoints are a timeline's, but for a last one that is not over: its rates would
// be those of a moment.
func wholePoints(r replay.Result) []replay.Point {
	points := r.Timeline
	if n := len(points); n > 1 && points[n-1].To-points[n-1].From < points[0].To-points[0].From {
		return points[:n-1]
	}
	return points
}

// steppedLine is a line of one value for each span of time.
func steppedLine[T any](name string, spans []T, of func(T) float64) plots.Line {
	l := plots.Line{Name: name, Step: true}
	for _, x := range spans {
		l.Values = append(l.Values, of(x))
	}
	return l
}

func replayPanels(r replay.Result, points []replay.Point) []plots.Panel {
	line := func(name string, of func(replay.Point) float64) plots.Line { return steppedLine(name, points, of) }
	met := func(of func(replay.Point) int64) func(replay.Point) float64 {
		return func(p replay.Point) float64 {
			if p.Arrivals == 0 {
				return math.NaN()
			}
			return 100 * float64(of(p)) / float64(p.Arrivals)
		}
	}
	rate := line("", func(p replay.Point) float64 { return float64(p.Arrivals) / (p.To - p.From).Seconds() })
	rate.Filled = true
	panels := []plots.Panel{{Title: "Requests", Unit: "per second", Lines: []plots.Line{rate}}}
	for i, pool := range r.Pools {
		title := "Replicas"
		if len(r.Pools) > 1 {
			title = strings.ToUpper(string(pool.Role[:1])) + string(pool.Role[1:]) + " replicas"
		}
		ready := line("ready", func(p replay.Point) float64 { return float64(p.Pools[i].Ready) })
		ready.Filled = true
		panels = append(panels, plots.Panel{Title: title, Lines: []plots.Line{
			ready, line("wanted", func(p replay.Point) float64 { return float64(p.Pools[i].Wanted) }),
		}})
	}
	held := line("", func(p replay.Point) float64 {
		sum := 0.0
		for _, x := range p.Pools {
			sum += x.GPUs
		}
		return sum
	})
	return append(panels,
		plots.Panel{Title: "GPUs held", Unit: "mean", Lines: []plots.Line{held}},
		plots.Panel{Title: "Met the SLA", Unit: "%", Limits: []plots.Limit{{Name: "99 %", Value: 99}}, Lines: []plots.Line{
			line("TTFT", met(func(p replay.Point) int64 { return p.MetTTFT })), line("ITL", met(func(p replay.Point) int64 { return p.MetITL })),
		}},
	)
}
