package main

import (
	"slices"
	"strings"

	"plimsoll/plots"
	"plimsoll/profile"
	"plimsoll/profile/store"
)

// caption is what the pictures of one phase say; each shows the latency model's
// error, where there is one, in a way of its own, and says in which.
type caption struct {
	base  plots.Caption
	error profile.ModelError
	notes []string
}

// captionOf is of a phase's pick, with what was left out in that phase and what
// puts its points in doubt.
func captionOf(run store.Run, rec store.Recommendation, phase profile.Phase) caption {
	c := caption{base: plots.Caption{
		Model: rec.Model, GPU: rec.GPU, Engine: strings.TrimSpace(string(rec.Engine.Kind) + " " + rec.Engine.Version),
		ISL: rec.Workload.ISL, OSL: rec.Workload.OSL, SLA: run.SLA, Provenance: rec.Provenance, Feasible: rec.Feasible,
	}}
	if ws := profile.Implausible(rec.Warnings); len(ws) > 0 {
		c.base.Implausible = ws[0].Message
	}
	if p := rec.PhasePick(phase); p != nil {
		c.base.Configuration, c.error = p.Label, p.ModelError
	}
	for _, s := range run.Skips {
		if s.Phase == "" || s.Phase == phase {
			c.notes = append(c.notes, s.Label+" left out: "+firstLine(s.Reason))
		}
	}
	if said := caveatNote(run.Points, phase); said != "" {
		c.notes = append(c.notes, said)
	}
	return c
}

// of is the caption of a picture that compares configurations.
func (c caption) of(cs []plots.Candidate) plots.Caption {
	c.base.Configuration = ""
	barred := slices.ContainsFunc(cs, func(k plots.Candidate) bool { return k.High > 0 || k.Interval.High > 0 })
	switch {
	case !c.error.Known():
		return c.noted("")
	case !barred:
		return c.noted("the latency model's error: " + c.error.Words())
	}
	c.base.Bars = "the model's error (p90)"
	return c.noted("bars, drawn at the pick: the latency model's error, " + c.error.Words())
}

// curve is the caption of a fit over prompt lengths, which a band surrounds.
func (c caption) curve(fit plots.Curve) plots.Caption {
	switch {
	case !c.error.Known():
		return c.noted("")
	case fit == nil:
		return c.surface()
	}
	return c.noted("band: the fit's error and the latency model's, " + c.error.Words())
}

// surface is the caption of a map, which has no place for an error.
func (c caption) surface() plots.Caption {
	if !c.error.Known() {
		return c.noted("")
	}
	return c.noted("the map does not show the latency model's error: " + c.error.Words())
}

// ofLoads is the caption of a picture that compares loads of aggregated engines.
func (c caption) ofLoads(cs []plots.Candidate) plots.Caption {
	c.base.Configuration, c.base.Bars = "", "95 % interval of the load"
	if slices.ContainsFunc(cs, func(k plots.Candidate) bool { return k.Interval.High > 0 }) {
		c.notes = append([]string{"the pick's throughput is known only up to the lowest rate that missed"}, c.notes...)
	}
	if !c.error.Known() {
		return c.noted("")
	}
	return c.noted("bars exclude the latency model's ITL error: " + c.error.Words())
}

// noted is the caption with its notes, one of them first.
func (c caption) noted(first string) plots.Caption {
	notes := c.notes
	if first != "" {
		notes = append([]string{first}, notes...)
	}
	c.base.Note = strings.Join(notes, "; ")
	return c.base
}
