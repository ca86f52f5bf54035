package plots

import (
	"errors"
	"fmt"
)

// A FleetLine is fleets that were sized while one input moved: points in order
// of the input, joined.
type FleetLine struct {
	Name   string // of what moved
	Points []FleetPoint
}

// FleetPoint is a fleet that was sized.
type FleetPoint struct {
	At     float64 // the input
	Size   float64 // of the fleet: GPUs or money
	Text   string  // beside the point; empty for none
	Picked bool    // the plan
}

// CostAgainstSLO shows what a fleet costs, in US dollars per hour, where one of
// its promised latencies is so many times what was asked for: a line for each.
// What no fleet holds has no point; the Caption's Note says so.
func CostAgainstSLO(c Caption, lines []FleetLine) (*Picture, error) {
	return fleets(c, lines, chart{title: "Cost of the fleet against its SLO", x: "Promised latency, times the SLO asked for", y: "Cost (US dollars per hour)"})
}

// GPUsAgainstQPS shows how many GPUs a fleet takes at so many requests per
// second.
func GPUsAgainstQPS(c Caption, lines []FleetLine) (*Picture, error) {
	return fleets(c, lines, chart{title: "GPUs against load", x: "Requests per second", y: "GPUs"})
}

func fleets(c Caption, lines []FleetLine, ch chart) (*Picture, error) {
	errs := []error{c.check()}
	ch.caption, ch.fromZero = c, true
	for i, l := range lines {
		s := series{name: clean(l.Name), look: lookOf(i), joined: true}
		for _, p := range l.Points {
			errs = append(errs, drawable(s.name, "input", p.At), drawable(s.name, "size", p.Size))
			s.dots = append(s.dots, dot{x: p.At, y: p.Size, text: shorten(clean(p.Text), 28), solid: true, picked: p.Picked})
		}
		ch.series = append(ch.series, s)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("plotting %q: %w", ch.title, err)
	}
	return ch.picture(), nil
}
