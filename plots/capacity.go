package plots

import (
	"errors"
	"fmt"
)

// A FleetLine is the fleets that one SLO takes at rising rates, joined.
type FleetLine struct {
	Name   string // the SLO
	Points []FleetPoint
}

// FleetPoint is a fleet that was sized.
type FleetPoint struct {
	RPS    float64 // requests/s at the peak
	GPUs   int
	Text   string // beside the point; empty for none
	Picked bool   // the plan
}

// Fleets shows how many GPUs a fleet takes against requests/s at the peak, a line
// for each SLO. What no fleet holds has no point; the Caption's Note says so.
func Fleets(c Caption, lines []FleetLine) (*Picture, error) {
	errs := []error{c.check()}
	ch := chart{caption: c, fromZero: true, title: "GPUs against load", x: "Requests per second at the peak", y: "GPUs"}
	for i, l := range lines {
		s := series{name: clean(l.Name), look: lookOf(i), joined: true}
		for _, p := range l.Points {
			errs = append(errs, drawable(s.name, "rate", p.RPS))
			s.dots = append(s.dots, dot{x: p.RPS, y: float64(p.GPUs), text: shorten(clean(p.Text), 28), solid: true, picked: p.Picked})
		}
		ch.series = append(ch.series, s)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("plotting %q: %w", ch.title, err)
	}
	return ch.picture(), nil
}
