package main

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"

	"github.com/urfave/cli/v2"

	"plimsoll/engine/catalog"
	"plimsoll/engine/latency"
)

// suggestion is the rows to measure, as --format json prints it.
type suggestion struct {
	Prior string         `json:"prior"`
	Why   string         `json:"prior_why"` // this prior
	Rows  []suggestedRow `json:"rows"`      // the most telling first
}

type suggestedRow struct {
	Line        int     `json:"line"` // in the table
	Model       string  `json:"model"`
	GPU         string  `json:"gpu"`
	TP          int     `json:"tp"`
	Precision   string  `json:"precision"`
	ISL         int     `json:"isl"`
	OSL         int     `json:"osl"`
	Concurrency int     `json:"concurrency,omitempty"` // of a closed loop
	Rate        float64 `json:"rate_rps,omitempty"`    // of an open loop
}

// suggestAction names the rows of a table that are most worth measuring.
func suggestAction(c *cli.Context, ask calibrationAsked, cat catalog.Catalog) error {
	rows, err := readTableFile(ask, cat)
	if err != nil {
		return usagef("calibrate: %v", err)
	}
	var known pointSet
	for _, r := range rows {
		known.obs = append(known.obs, r.measured()...)
	}
	known.nameEngine(ask.from, rows)
	prior, why := latency.DefaultFit(), "nothing is measured yet: it is the default"
	if ask.prior != "" || len(known.obs) > 0 {
		if prior, why, err = priorFor(ask.prior, known); err != nil {
			return err
		}
	}
	out := suggestion{Prior: prior.Name, Why: why, Rows: suggest(prior, rows, ask.suggest)}
	if len(out.Rows) == 0 {
		return usagef("calibrate: %s: no row can run: its model does not fit, or its limits are none", ask.from)
	}
	if len(out.Rows) < ask.suggest {
		say(c.App.ErrWriter, "warning", "%s: of the rows that are not measured, %d can run", ask.from, len(out.Rows))
	}
	if c.String("format") == "json" {
		return printJSON(c.App.Writer, out)
	}
	_, err = c.App.Writer.Write(out.text(ask.from))
	return err
}

// suggest is the n rows that tell most about the engine, the most telling first.
// Rows with a latency are measured, so that they are not named, unless all are.
func suggest(prior latency.Fit, rows []tableRow, n int) []suggestedRow {
	var candidates []latency.Observation
	var of []int // the row of each
	for i, r := range rows {
		for _, o := range r.obs {
			candidates, of = append(candidates, o), append(of, i)
		}
	}
	done := func(r tableRow) bool { return len(r.measured()) > 0 }
	all := !slices.ContainsFunc(rows, func(r tableRow) bool { return !done(r) })
	var out []suggestedRow
	named := map[int]bool{}
	for _, place := range latency.Informative(prior, candidates, len(candidates)) {
		i := of[place]
		if named[i] || done(rows[i]) && !all || len(out) == n {
			continue
		}
		named[i] = true
		out = append(out, newSuggestedRow(rows[i]))
	}
	return out
}

func newSuggestedRow(r tableRow) suggestedRow {
	o := r.obs[0]
	return suggestedRow{
		Line: r.line, Model: o.Model.Name, GPU: o.GPU.Name, TP: o.Config.Parallelism.TP, Precision: string(o.Config.Weights),
		ISL: o.ISL, OSL: o.OSL, Concurrency: o.InFlight, Rate: o.Rate,
	}
}

func (s suggestion) text(from string) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "Worth measuring, of the rows in %s, the most telling first\nBegun from %s: %s\n\n", from, s.Prior, s.Why)
	t := newTable("line", "model", "gpu", "tp", "precision", "isl", "osl", "load")
	for _, r := range s.Rows {
		load := fmt.Sprintf("%g requests/s", r.Rate)
		if r.Concurrency > 0 {
			load = fmt.Sprintf("%d in flight", r.Concurrency)
		}
		t.row(itoa(r.Line), r.Model, r.GPU, itoa(r.TP), cmp.Or(r.Precision, "bf16"), itoa(r.ISL), itoa(r.OSL), load)
	}
	b.WriteString(t.text("  "))
	return b.Bytes()
}
