package main

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

	"plimsoll/engine/field"
	"plimsoll/plots/pages"
	"plimsoll/profile"
	"plimsoll/profile/store"
)

// compareProfiles is the page of two profiles. Those of other workloads or modes
// answer other questions, and are refused; what else they differ in is a warning.
func compareProfiles(sides [2]profiled, command string) (pages.Comparison, error) {
	a, b := sides[0], sides[1]
	if sameFolder(a.dir, b.dir) {
		return pages.Comparison{}, field.Errorf("%s and %s are one folder: want two profiles", a.dir, b.dir)
	}
	for _, f := range []struct {
		field string
		of    func(profiled) string
	}{
		{"mode", func(p profiled) string { return string(p.rec.Mode) }},
		{"isl", func(p profiled) string { return strconv.Itoa(p.rec.Workload.ISL) }},
		{"osl", func(p profiled) string { return strconv.Itoa(p.rec.Workload.OSL) }},
	} {
		if x, y := f.of(a), f.of(b); x != y {
			return pages.Comparison{}, field.Errorf("%s and %s differ in --%s, %s and %s: their figures answer different questions", a.dir, b.dir, f.field, x, y).
				Hint("profile both with the same --%s, or write a page of each", f.field)
		}
	}
	out := pages.Comparison{Origin: pages.Origin{
		Title: "Two profiles of " + a.rec.Model, Provenance: profile.Weakest(a.rec.Provenance, b.rec.Provenance),
		Virtual: a.page.Virtual || b.page.Virtual, Version: buildVersion(), Command: command,
	}}
	if a.rec.Model != b.rec.Model {
		out.Title = fmt.Sprintf("Profiles of %s and %s", orWord(a.rec.Model, "an engine"), orWord(b.rec.Model, "an engine"))
	}
	for i, s := range sides {
		out.Sides[i] = pages.Side{Name: s.dir, Profile: s.page}
		engine := strings.TrimSpace(string(s.rec.Engine.Kind) + " " + s.rec.Engine.Version)
		out.Facts = append(out.Facts, pages.Fact{Name: side(i), Text: fmt.Sprintf("%s: %s on %s, %s", s.dir, engine, orWord(s.rec.GPU, "a GPU that is not known"), s.rec.Provenance)})
	}
	out.Facts = append(out.Facts, pages.Fact{Name: "Workload", Text: fmt.Sprintf("ISL %d, OSL %d tokens; %s", a.rec.Workload.ISL, a.rec.Workload.OSL, a.rec.Mode)})
	others := otherFlags(a.run.Inputs, b.run.Inputs)
	for i := range sides {
		for _, f := range others {
			out.Sides[i].Facts = append(slices.Clip(out.Sides[i].Facts), pages.Fact{Name: f.name, Text: f.values[i]})
		}
	}
	out.Warnings = differenceWarnings(a, b)
	return out, nil
}

// differenceWarnings are what to know before the figures: what else is not the same,
// and the warnings of each profile.
func differenceWarnings(a, b profiled) []pages.Warning {
	var out []pages.Warning
	say := func(code, field, x, y, what string) {
		if x != y {
			out = append(out, pages.Warning{Warning: profile.Warnf(code, "%s differs, %s in A and %s in B: %s", field, x, y, what)})
		}
	}
	ms := func(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) + " ms" }
	const picks = "each pick is for its own"
	say("other_sla", "--ttft", ms(a.rec.SLA.TTFTMillis), ms(b.rec.SLA.TTFTMillis), picks)
	say("other_sla", "--itl", ms(a.rec.SLA.ITLMillis), ms(b.rec.SLA.ITLMillis), picks)
	say("other_sla", "--sla-stat", a.run.SLA.By(), b.run.SLA.By(), "latencies are other statistics, and not to be compared")
	say("other_rank", "--rank", string(rankOf(a.run)), string(rankOf(b.run)), picks)
	say("other_model", "the model", orWord(a.rec.Model, "not known"), orWord(b.rec.Model, "not known"), "a token of one is not a token of the other")
	say("other_provenance", "the provenance", a.rec.Provenance.String(), b.rec.Provenance.String(), "a difference may be that of what was measured from what was not")
	if a.rec.Engine.Kind == b.rec.Engine.Kind && a.rec.Engine.Fit != b.rec.Engine.Fit {
		say("other_fit", "--fit", orWord(a.rec.Engine.Fit, "none"), orWord(b.rec.Engine.Fit, "none"), "a difference may be that of the fits")
	}
	for i, s := range []profiled{a, b} {
		for _, w := range s.rec.Warnings {
			out = append(out, pages.Warning{Warning: w, Of: side(i)})
		}
	}
	return out
}

// side names a profile of two.
func side(i int) string { return [2]string{"A", "B"}[i] }

// otherFlag is an input that is not the same in both.
type otherFlag struct {
	name   string
	values [2]string
}

// otherFlags are the flags that differ, but for where the files are and what facts
// say of each profile anyway.
func otherFlags(a, b store.Inputs) []otherFlag {
	said := []string{"--output-dir", "--isl", "--osl", "--ttft", "--itl", "--sla-stat", "--model", "--gpu", "--quiet", "--resume", "--force"}
	var out []otherFlag
	names := maps.Clone(a)
	maps.Copy(names, b)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if a[name] != b[name] && strings.HasPrefix(name, "--") && !slices.Contains(said, name) {
			out = append(out, otherFlag{name, [2]string{cmp.Or(a[name], "–"), cmp.Or(b[name], "–")}})
		}
	}
	return out
}

func sameFolder(a, b string) bool {
	x, errX := os.Stat(a)
	y, errY := os.Stat(b)
	return filepath.Clean(a) == filepath.Clean(b) || errX == nil && errY == nil && os.SameFile(x, y)
}

// differenceArguments are the command again, as a shell takes it.
func differenceArguments(c *cli.Context) []string {
	words := []string{"plimsoll", "report"}
	for _, name := range []string{"cost-per-gpu-hour", "output"} {
		if v := c.String(name); v != "" {
			words = append(words, "--"+name, v)
		}
	}
	return append(words, c.Args().Slice()...)
}
