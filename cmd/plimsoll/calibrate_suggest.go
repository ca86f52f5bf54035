package main

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"

	"github.com/urfave/cli/v2"

	"plimsoll/engine"
	"plimsoll/engine/catalog"
	"plimsoll/engine/field"
	"plimsoll/engine/latency"
)

// suggestion is the rows to measure, as --format json prints it.
type suggestion struct {
	Prior   string         `json:"prior"`
	Why     string         `json:"prior_why"`          // this prior
	Rows    []suggestedRow `json:"rows"`               // the most telling first
	LeftOut []leftOutRow   `json:"left_out,omitempty"` // rows that cannot be measured
	Again   bool           `json:"again,omitempty"`    // every row is measured already
	able    int            // rows that were to be chosen from
}

// leftOutRow is a row that no engine can run, and why.
type leftOutRow struct {
	Line   int    `json:"line"` // in the table
	Reason string `json:"reason"`
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
		return field.Errorf("calibrate: %v", err)
	}
	var known pointSet
	for _, r := range rows {
		known.obs = append(known.obs, r.measured()...)
	}
	known.nameEngine(ask.from, rows)
	prior, why := latency.DefaultFit(), "nothing is measured yet; it is the default"
	if e := known.engine; e != nil && e.engine != "" {
		prior, why = latency.FitFor(engine.Kind(e.engine), e.version), "nothing is measured yet; it is that of the rows' engine"
	}
	if ask.prior != "" || len(known.obs) > 0 {
		if prior, why, err = priorFor(ask.prior, known); err != nil {
			return err
		}
	}
	out := suggest(prior, rows, ask.suggest)
	out.Why = why
	for _, l := range out.LeftOut {
		say(c.App.ErrWriter, "warning", "%s:%d: left out: %s", ask.from, l.Line, l.Reason)
	}
	if len(out.Rows) == 0 {
		return field.Errorf("calibrate: %s: no row can run", ask.from)
	}
	if out.able < ask.suggest {
		say(c.App.ErrWriter, "warning", "%s", out.fewer(ask.from))
	}
	if c.String("format") == "json" {
		return printJSON(c.App.Writer, out)
	}
	return show(c.App.Writer, out.text(ask.from))
}

// fewer says why there are fewer rows than asked for.
func (s suggestion) fewer(from string) string {
	all, which := s.able+len(s.LeftOut), "that are not measured"
	if s.Again {
		which = "that there are, all of them measured"
	}
	return fmt.Sprintf("%s: of the %d rows %s, %d can run", from, all, which, s.able)
}

// suggest is the n rows that tell most about the engine, the most telling first.
// Rows with a latency are measured, so that they are not named, unless all are.
func suggest(prior latency.Fit, rows []tableRow, n int) suggestion {
	out := suggestion{Prior: prior.Name}
	done := func(r tableRow) bool { return len(r.measured()) > 0 }
	out.Again = !slices.ContainsFunc(rows, func(r tableRow) bool { return !done(r) })
	var candidates []latency.Observation
	var of []int // the row of each
	for i, r := range rows {
		wanted := out.Again || !done(r)
		why := r.cannot()
		switch {
		case why != nil && wanted:
			out.LeftOut = append(out.LeftOut, leftOutRow{r.line, why.Error()})
		case wanted:
			out.able++
		}
		if why != nil {
			continue
		}
		for _, o := range r.obs {
			candidates, of = append(candidates, o), append(of, i)
		}
	}
	named := map[int]bool{}
	for _, place := range latency.Informative(prior, candidates, len(candidates)) {
		i := of[place]
		if named[i] || done(rows[i]) && !out.Again || len(out.Rows) == n {
			continue
		}
		named[i] = true
		o := rows[i].obs[0]
		out.Rows = append(out.Rows, suggestedRow{
			Line: rows[i].line, Model: o.Model.Name, GPU: o.GPU.Name, TP: o.Config.Parallelism.TP, Precision: string(o.Config.Weights),
			ISL: o.ISL, OSL: o.OSL, Concurrency: o.InFlight, Rate: o.Rate,
		})
	}
	return out
}

// cannot says why no latency of the row can be measured; nil = one can.
func (r tableRow) cannot() error {
	o := r.obs[0]
	if most := o.Model.MaxContext; o.ISL+o.OSL > most {
		return fmt.Errorf("isl %d and osl %d are %d tokens together: %s takes %d at most", o.ISL, o.OSL, o.ISL+o.OSL, o.Model.Name, most)
	}
	var err error
	for _, o := range r.obs {
		o.Seconds = 1 // whatever it will be
		if err = possible(o); err == nil {
			return nil
		}
	}
	return err
}

func (s suggestion) text(from string) []byte {
	var b bytes.Buffer
	again := ""
	if s.Again {
		again = " again, as all are measured"
	}
	fmt.Fprintf(&b, "Worth measuring%s, of the rows in %s, the most telling first\nBegun from %s: %s\n\n", again, from, s.Prior, s.Why)
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
