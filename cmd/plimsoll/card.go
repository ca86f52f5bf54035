package main

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	dep "plimsoll/engine/deployment"
	"plimsoll/interpolation"
	"plimsoll/profile"
	"plimsoll/profile/store"
)

// card is what a command prints: the answer, a table, what is to be heeded and what to do
// next. --details prints the rest.
type card struct {
	head     []string // what the figures are, and of what
	facts    []detail // the answer, a name before each line
	table    *table
	below    []string // what the table is to be read with
	warnings []profile.Warning
	details  string // what --details prints; empty: it was not asked for
	next     string // the next command
	page     string // the page that has all of it
	last     []string
}

// detailsFlag is in every command that prints a card.
func detailsFlag() cli.Flag {
	return &cli.BoolFlag{Name: "details", Usage: "print all that the result rests on, too", Category: "output"}
}

// marked is a provenance as a card's head has it.
func marked(p profile.Provenance) string {
	if p == profile.Measured {
		return strings.ToUpper(p.String())
	}
	if p == profile.Given {
		return "BY GIVEN tokens/s, which nobody checked"
	}
	return strings.ToUpper(p.String()) + ", not measured on a GPU"
}

// showCard prints a result: the file as JSON, or its card, with --details all that it
// rests on and every warning, too.
func showCard(c *cli.Context, file any, made func() card, detailed func() string) error {
	if c.String("format") == "json" {
		return printJSON(c.App.Writer, file)
	}
	out := made()
	if c.Bool("details") {
		out.details = detailed()
	}
	return show(c.App.Writer, out.text())
}

// show prints a result at once or fails: nobody may take half of one for all.
func show(w io.Writer, text []byte) error {
	if _, err := w.Write(text); err != nil {
		return fmt.Errorf("printing the result: %w", err)
	}
	return nil
}

// showCSV prints rows.
func showCSV(c *cli.Context, rows [][]string) error {
	var b bytes.Buffer
	if err := csv.NewWriter(&b).WriteAll(rows); err != nil {
		return fmt.Errorf("writing CSV: %w", err)
	}
	return show(c.App.Writer, b.Bytes())
}

func (c card) text() []byte {
	var b bytes.Buffer
	for _, w := range profile.Implausible(c.warnings) {
		fmt.Fprintf(&b, "IMPLAUSIBLE — %s\n", w.Message)
	}
	fmt.Fprintf(&b, "%s\n", strings.Join(c.head, " · "))
	if len(c.facts) > 0 {
		b.WriteString("\n")
	}
	for _, f := range c.facts {
		fmt.Fprintf(&b, "  %-8s %s\n", f.name, f.text)
	}
	if c.table != nil && len(c.table.rows) > 0 {
		b.WriteString("\n" + c.table.text("  "))
	}
	for _, line := range c.below {
		fmt.Fprintf(&b, "  %s\n", line)
	}
	if c.details != "" {
		b.WriteString("\n" + strings.Trim(c.details, "\n") + "\n")
	}
	if text := c.warned(); text != "" {
		b.WriteString("\n" + text)
	}
	if c.next != "" || c.page != "" {
		b.WriteString("\n")
	}
	if c.next != "" {
		fmt.Fprintf(&b, "Next  %s\n", c.next)
	}
	if c.page != "" {
		fmt.Fprintf(&b, "Page  %s\n", c.page)
	}
	if len(c.last) > 0 {
		b.WriteString("\n" + strings.Join(c.last, "\n") + "\n")
	}
	return b.Bytes()
}

// warned counts the warnings and says the one that matters; with the details, all of them.
func (c card) warned() string {
	ws := byUrgency(c.warnings)
	switch {
	case len(ws) == 0:
		return ""
	case c.details != "":
		var b strings.Builder
		for _, w := range ws {
			fmt.Fprintf(&b, "  Warning: %s\n", w.Message)
		}
		return b.String()
	case len(ws) == 1:
		return fmt.Sprintf("  Warning: %s\n", ws[0].Message)
	}
	return fmt.Sprintf("  %d warnings. The most important: %s   → --details\n", len(ws), ws[0].Message)
}

// urgent are the codes of warnings that may turn an answer into another one, the worst
// first: of figures that are not what they seem, then of promises that do not hold, then
// of what was assumed.
var urgent = []string{
	profile.CodeFLOPS, profile.CodeTTFTFlat, profile.CodeKVUsage, "void", "invalid", "machine_taken", "server_differs", "faster_under_load", "foreign_load", "queued_alone", "lost", "refused", "rejected", "unfinished", profile.CodeFailures,
	"saturated", "time_unit", "ticks", "at_cap", "client_late", "prefix_hit", "wrong_lengths", "no_model_label", "partly_scraped", "fewer_series", "gaps", "window_unseen", "above_buckets", "buckets_differ", "not_measured", "pattern_above_peak",
	store.ProfileInfeasible, store.ProfileMissed, "interruptions", "sla_not_held", "sla_unreachable", "ttft_unreachable", "itl_unreachable", "itl_out_of_reach", "plan_unsettled", "plan_short", "held_back", "thrash", "links_busy",
	"budget_below_least", "budget_below_peak", "breach_unmended", "replicas_late", "empty_is_zero", "no_e2e", "prefixes_ignored", "prefixes_unknown",
	"wide_bracket", "unverified", "undecided", "other_stat", "statistic_unseen", "one_price", "spot", "model_error_sla", "near_saturation", promptsHoldUp, layoutNear, "several_namespaces", "other_models", "counted_at_end", "wide_bucket", "mean_of_counters",
	interpolation.CodeWild, interpolation.CodeThroughputClash, interpolation.CodeITLNotRising, dep.CodeSlower, dep.CodeNodes, dep.CodeDataSheet, "fit_length", "kv_beyond_room", "kv_assumed", "weights_assumed", "chunk_assumed", "max_num_seqs_assumed", "transfer_free", store.ProfileDoubts,
}

// byUrgency is a sorted copy of warnings, the most important first.
func byUrgency(ws []profile.Warning) []profile.Warning {
	return slices.SortedStableFunc(slices.Values(ws), func(a, b profile.Warning) int { return urgency(a) - urgency(b) })
}

// urgency orders warnings: a smaller one comes first.
func urgency(w profile.Warning) int {
	switch i := slices.Index(urgent, w.Code); {
	case i >= 0:
		return i
	case w.Code == importedCode, w.Code == "gpus_unknown", w.Code == noSurfaces: // a fact, which changes no figure
		return len(urgent) + 1
	}
	return len(urgent)
}
