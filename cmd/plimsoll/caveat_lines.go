package main

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"plimsoll/engine"
	"plimsoll/profile"
	"plimsoll/recommend"
	"plimsoll/sweep"
)

// caveatCounts are the warnings that points carry, one word for each kind with how
// many points it is of; empty where there are none. The whole text is in run.json.
func caveatCounts(points []profile.Point) string {
	count := map[string]int{}
	for _, p := range points {
		seen := map[string]bool{}
		for _, w := range p.Warnings {
			if !seen[w.Code] {
				seen[w.Code] = true
				count[w.Code]++
			}
		}
	}
	var said []string
	for _, code := range sortedKeys(count) {
		said = append(said, fmt.Sprintf("%s at %d of %s", code, count[code], engine.Count(len(points), "point")))
	}
	return strings.Join(said, ", ")
}

// restsOn are the points that a recommendation rests on: the picks, and those of
// surfaces. What a pick attained under load brings its caveats by itself.
func restsOn(res sweep.Result) []profile.Point {
	var ps []profile.Point
	for _, c := range []recommend.Choice{res.Prefill, res.Decode, res.Aggregated} {
		if len(c.All) > 0 {
			ps = append(ps, c.Picked.Point)
		}
	}
	for _, p := range res.Points {
		if p.Stage != profile.StageSurface {
			continue
		}
		if p.FailsTooOften || p.Latency(profile.SLA{}) <= 0 {
			p.Warnings = append(slices.Clone(p.Warnings), profile.Warnf("points_dropped", "has too many failures or no latency, and is not in the surface"))
		}
		ps = append(ps, p)
	}
	return ps
}

// pointCaveats sums up the warnings of points: one for each code, that of the worst
// point, and which others have it. All of them are with their points in run.json.
func pointCaveats(points []profile.Point) []profile.Warning {
	type caveat struct {
		worst  profile.Warning
		at     string
		points []string
	}
	var codes []string
	of := map[string]*caveat{}
	for _, p := range points {
		for _, w := range p.Warnings {
			c := of[w.Code]
			if c == nil {
				c = &caveat{worst: w, at: p.ID}
				of[w.Code], codes = c, append(codes, w.Code)
			}
			if w.Degree > c.worst.Degree {
				c.worst, c.at = w, p.ID
			}
			if !slices.Contains(c.points, p.ID) {
				c.points = append(c.points, p.ID)
			}
		}
	}
	var ws []profile.Warning
	for _, code := range codes {
		c := of[code]
		w := c.worst
		w.Message = c.at + ": " + w.Message
		others := slices.DeleteFunc(c.points, func(id string) bool { return id == c.at })
		if n := len(others); n > 0 {
			which := "one"
			if w.Degree > 0 {
				which = "the worst"
			}
			w.Message += fmt.Sprintf(" (%s of %s; the others: %s)", which, engine.Count(n+1, "point"), someOf(others, namedPoints))
		}
		ws = append(ws, w)
	}
	return ws
}

// namedPoints is how many points a line names.
const namedPoints = 4

// someOf names at most n of some, and counts the rest.
func someOf(names []string, n int) string {
	if len(names) <= n {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:n], ", "), len(names)-n)
}

// belowTable says what the table's rows are to be read with, and which points are
// in none of them because their figures are not the engine's, or are undecided.
func belowTable(b *bytes.Buffer, ch recommend.Choice) {
	var points []profile.Point
	for _, c := range ch.All {
		points = append(points, c.Point)
	}
	if said := caveatCounts(points); said != "" {
		fmt.Fprintf(b, "  caveats: %s\n", said)
	}
	for _, r := range ch.Rejected {
		if r.Uncompared() {
			fmt.Fprintf(b, "  not compared: %s at %.0f in flight: %s\n", r.Label, r.InFlight, r.Reason)
		}
	}
}

// caveatNote is the same for a picture of a phase's sweep.
func caveatNote(points []profile.Point, phase profile.Phase) string {
	var shown []profile.Point
	invalid := 0
	for _, p := range points {
		switch {
		case p.Stage != profile.StageSweep || p.Phase != phase:
		case p.Invalid != "":
			invalid++
		default:
			shown = append(shown, p)
		}
	}
	var said []string
	if c := caveatCounts(shown); c != "" {
		said = append(said, "caveats: "+c)
	}
	if invalid > 0 {
		said = append(said, fmt.Sprintf("%s invalid and not shown", engine.Count(invalid, "point")))
	}
	return strings.Join(said, "; ")
}
