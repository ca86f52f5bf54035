package main

import (
	"bytes"
	"cmp"
	"fmt"
	"time"

	"plimsoll/engine"
	"plimsoll/profile"
	"plimsoll/sweep"
)

// planJSON is a plan as --format json prints it.
type planJSON struct {
	Provenance profile.Provenance `json:"provenance"`
	Deployment string             `json:"deployment"`
	Steps      []stepJSON         `json:"steps"`
	LeftOut    []profile.Skip     `json:"left_out"`
	Memory     []preflight        `json:"memory,omitempty"`             // of one GPU; absent where model or GPU are unknown
	Cost       searchCost         `json:"cost"`                         // of all steps, at most; without loading
	Other      *searchCost        `json:"other_search,omitempty"`       // likewise, of the search that was not asked for; absent where there is none
	Commands   []plannedCommand   `json:"commands,omitempty"`           // of engines that are started by a command line, without credentials
	Missing    string             `json:"missing_executable,omitempty"` // the engine's program, where it is not on PATH
	Output     string             `json:"output"`
}

type stepJSON struct {
	Stage    profile.Stage `json:"stage"`
	Phase    profile.Phase `json:"phase"`
	Label    string        `json:"label,omitempty"` // empty for the pick's
	Points   int           `json:"max_points"`
	Requests int           `json:"max_requests"`
	Unrated  bool          `json:"requests_unknown,omitempty"` // its loads come at rates that nobody knows: max_requests and cost are 0
	Expected float64       `json:"expected_seconds,omitempty"` // 0 = unknown
	Cost     sweep.Cost    `json:"cost"`
}

func newPlanJSON(d deployment, so sweep.Options, steps []sweep.Step, skips []profile.Skip, rooms []preflight, commands []plannedCommand, output string) planJSON {
	p := planJSON{Provenance: d.provenance, Deployment: d.describe(), LeftOut: append([]profile.Skip{}, skips...), Memory: rooms, Commands: commands, Missing: d.missing, Output: output}
	p.Cost, p.Other = searchCosts(so)
	for _, s := range steps {
		j := stepJSON{Stage: s.Stage, Phase: s.Phase, Label: s.Label, Points: s.Points, Requests: s.Cost.Requests, Unrated: s.Unrated, Cost: s.Cost}
		if s.Known {
			j.Expected = s.Expected.Seconds()
		}
		p.Steps = append(p.Steps, j)
	}
	return p
}

// plan prints what would be done, and starts nothing.
func (u *console) plan(o profileOptions, d deployment, so sweep.Options, skips []profile.Skip) error {
	steps := sweep.Plan(so)
	output, err := outputState(o.dir)
	if err != nil {
		return folderError(err)
	}
	commands, err := d.commands(o, so)
	if err != nil {
		return err
	}
	if o.format == "json" {
		return printJSON(u.out, newPlanJSON(d, so, steps, skips, d.preflight(o), commands, output))
	}
	var b bytes.Buffer
	prov := d.provenance.String()
	if d.kind == engine.KindEndpoint {
		prov = "not asked yet"
	}
	fmt.Fprintf(&b, "Plan for %s (%s): nothing is started\n\n", d.describe(), prov)
	t := newTable("stage", "phase", "configuration", "launches", "points ≤", "requests ≤", "time about")
	points, requests, total, known := 0, 0, time.Duration(0), true
	for _, s := range steps {
		label, asked, cost := cmp.Or(s.Label, "the pick"), itoa(s.Cost.Requests), "unknown"
		if s.Known {
			cost = s.Expected.Round(100 * time.Millisecond).String()
		}
		if s.Unrated {
			asked = "unknown"
		}
		t.row(string(s.Stage), string(s.Phase), label, itoa(s.Cost.Launches), itoa(s.Points), asked, cost)
		points, requests, total, known = points+s.Points, requests+s.Cost.Requests, total+s.Expected, known && s.Known
	}
	cost := "unknown: no latency model for this model and GPU"
	switch {
	case d.kind == engine.KindEstimate:
		cost = "about " + total.Round(time.Second).String() + " of computing"
	case known:
		cost = "about " + total.Round(time.Second).String() + " without the engines' own start-up (estimated)"
	}
	chosen, other := searchCosts(so)
	t.row("", "", "in all", itoa(chosen.Cost.Launches), itoa(points), chosen.more()+itoa(requests), "")
	b.WriteString(t.text(""))
	preflightTable(&b, d.preflight(o), d.defaults(o))
	fmt.Fprintf(&b, "\nTime: %s\n", cost)
	if chosen.Unrated && so.Open.Longest > 0 {
		fmt.Fprintf(&b, "Each rate is judged for up to %s (--load-time)\n", short(so.Open.Longest))
	}
	chosen.expected(&b, "takes", known)
	if other != nil {
		other.expected(&b, "would take", known)
	}
	commandLines(&b, commands)
	if d.missing != "" {
		fmt.Fprintf(&b, "Not found: %s is not on PATH\n", d.missing)
	}
	for _, s := range skips {
		fmt.Fprintf(&b, "Left out: %s: %s\n", s.Label, s.Reason)
	}
	fmt.Fprintf(&b, "Output: %s\n", output)
	return show(u.out, b.Bytes())
}
