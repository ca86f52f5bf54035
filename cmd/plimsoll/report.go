package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/urfave/cli/v2"

	"plimsoll/capacity/prices"
	"plimsoll/engine/field"
	"plimsoll/plots/pages"
	"plimsoll/profile"
	"plimsoll/profile/store"
	"plimsoll/recommend"
	"plimsoll/sweep"
)

func reportCommand() *cli.Command {
	return &cli.Command{
		Name: "report", Usage: "write a profile as one HTML page", ArgsUsage: "DIR",
		Description: "The page needs no network: charts, picks, warnings and the command that makes the profile again are in one file.\n" +
			"Its sliders pick again among the points that were measured, by the rule of profile-sla. profile-sla writes it too.\n\n" +
			"   plimsoll report profiling_results\n" +
			"   plimsoll report --cost-per-gpu-hour 2.5 --output page.html profiling_results",
		Flags: stringFlags("", [][3]string{
			{"output o", "", "write `FILE` (default: report.html in DIR)"},
			{"cost-per-gpu-hour", "", "`USD`, or GPU=USD (default: no money is shown)"},
		}),
		Action: writeReport,
	}
}

func writeReport(c *cli.Context) error {
	dir := c.Args().First()
	if dir == "" {
		return field.Errorf("report needs a folder").Hint("plimsoll report profiling_results")
	}
	p := &parser{c: c}
	usd := p.gpuPrices()
	if p.err != nil {
		return p.err
	}
	of, err := readProfiled(dir, usd)
	if err != nil {
		return err
	}
	of.sayImplausible(c)
	html, err := of.page.HTML()
	if err != nil {
		return err
	}
	file := cmp.Or(c.String("output"), filepath.Join(dir, reportFileName))
	if err := store.WriteFile(file, html); err != nil {
		return err
	}
	if c.String("format") == "json" {
		return printJSON(c.App.Writer, map[string]string{"file": file})
	}
	_, err = fmt.Fprintf(c.App.Writer, "%s: open it in a browser\n", file)
	return err
}

// profiled is a profile's folder.
type profiled struct {
	dir  string
	run  store.Run
	rec  store.Recommendation
	page pages.Profile
}

// readProfiled reads a folder, or says why it holds no profile.
func readProfiled(dir string, usd prices.Given) (profiled, error) {
	out, err := loadProfiled(dir, usd)
	if err != nil {
		return out, noProfile(dir, err)
	}
	return out, nil
}

// sayImplausible says which of the folder's figures cannot be right.
func (p profiled) sayImplausible(c *cli.Context) {
	for _, w := range profile.Implausible(p.rec.Warnings) {
		say(c.App.ErrWriter, "warning", "%s: the profile's figures are implausible: %s", p.dir, w.Message)
	}
}

// noProfile refuses a folder that cannot be read as a profile.
func noProfile(dir string, err error) error {
	refusal := field.Errorf("%s holds no finished profile: %v", dir, err)
	if _, none := os.Stat(filepath.Join(dir, replayFileName)); none == nil {
		return refusal.Hint("it holds a replay, whose page planner replay has written beside it: %s", filepath.Join(dir, reportFileName))
	}
	if state, unclear := store.Inspect(dir); errors.Is(err, os.ErrNotExist) && unclear == nil && state == store.OurRun {
		return refusal.Hint("the profile-sla command that began it goes on with --resume")
	}
	if errors.Is(err, os.ErrNotExist) {
		return refusal.Hint("name the --output-dir of a profile-sla that has ended; plimsoll profile-sla import makes one of NVIDIA Dynamo's NPZ files")
	}
	return refusal.Hint("name the --output-dir of a profile-sla that has ended; where its files are damaged, profile-sla --resume writes them again from its journal")
}

func loadProfiled(dir string, usd prices.Given) (out profiled, err error) {
	out.dir = dir
	if out.rec, err = store.ReadRecommendation(dir); err != nil {
		return out, err
	}
	if out.run, err = store.ReadRun(dir); err != nil {
		return out, err
	}
	out.page = pageOf(out.run, out.rec)
	out.page.USD, _ = usd.Of(out.rec.GPU)
	if out.rec.Mode == store.Aggregated {
		return out, nil
	}
	weakest := profile.Published
	if out.page.Prefill, err = store.LoadPrefill(dir, store.LoadOptions{Provenance: &weakest}); err != nil {
		return out, err
	}
	out.page.Decode, err = store.LoadDecode(dir, store.LoadOptions{Provenance: &weakest})
	return out, err
}

// pageOf is a profile as a page takes it, but for the surfaces at the picks.
func pageOf(run store.Run, rec store.Recommendation) pages.Profile {
	p := pages.Profile{
		Origin: profileOrigin(run, rec), SLA: run.SLA, Rank: rankOf(run), ISL: rec.Workload.ISL, OSL: rec.Workload.OSL,
		Points: chosenFrom(run), Verified: verifiedLines(rec), Assumptions: rec.Assumptions,
		Ending: endingOf(run, rec), TTFTErrors: ttftErrors(run),
	}
	for _, s := range run.Skips {
		what := s.Label
		if s.Phase != "" {
			what += ", " + string(s.Phase)
		}
		p.LeftOut = append(p.LeftOut, pages.Fact{Name: what, Text: firstLine(s.Reason)})
	}
	return p
}

// writePage writes report.html of a profile that has just ended.
func writePage(dir string, run store.Run, rec store.Recommendation, ps profile.PrefillSurface, ds profile.DecodeSurface) error {
	p := pageOf(run, rec)
	if rec.Mode != store.Aggregated { // whose page is of loads
		p.Prefill, p.Decode = ps, ds
	}
	html, err := p.HTML()
	if err != nil {
		return err
	}
	return store.WriteFile(filepath.Join(dir, reportFileName), html)
}

// rankOf is what a profile's candidates were ranked by; one that was imported says
// nothing of it.
func rankOf(run store.Run) recommend.Rank {
	if run.Inputs["--search"] == "" {
		return recommend.BySingle
	}
	return ruleOf(sweep.Search(run.Inputs["--search"]), sweep.Mode(run.Inputs["--mode"]))
}

// chosenFrom are the points that the pick was made of: a sweep's, but for those of
// configurations that were left out.
func chosenFrom(run store.Run) []profile.Point {
	return slices.DeleteFunc(slices.Clone(run.Points), func(p profile.Point) bool {
		return p.Stage != profile.StageSweep || slices.ContainsFunc(run.Skips, func(s profile.Skip) bool {
			return s.Label == p.Config.Label() && (s.Phase == "" || s.Phase == p.Phase)
		})
	})
}
