package main

import (
	"bytes"
	"fmt"
	"os"
	"strings"

	"github.com/urfave/cli/v2"

	"plimsoll/engine"
	"plimsoll/engine/catalog"
	dep "plimsoll/engine/deployment"
	"plimsoll/engine/field"
	"plimsoll/engine/latency"
	"plimsoll/engine/sim/build"
	"plimsoll/profile/store"
)

func calibrateCommand() *cli.Command {
	s := func(name, def, usage string) cli.Flag { return &cli.StringFlag{Name: name, Value: def, Usage: usage} }
	return &cli.Command{
		Name: "calibrate", Usage: "fit the latency model to measured points of an engine", ArgsUsage: "DIR|FILE",
		Description: "DIR is a profile's folder. FILE is a table, CSV with the columns model, gpu, tp, isl, osl, loop (closed or\n" +
			"open), and where known precision (bf16, fp8, nvfp4 …), kv_dtype (bf16, fp8), backend, version, concurrency (closed),\n" +
			"rate_rps (open), ttft_ms, tpot_ms. Lengths are tokens, rates requests per second. A closed loop's ttft_ms counts at\n" +
			"concurrency 1 only: beyond, it is mostly how the client's requests bunch. A point that the\n" +
			"others contradict counts for little, and is named. The result is for --fit.\n\n" +
			"   plimsoll calibrate profiling_results\n" +
			"   plimsoll calibrate --suggest 6 planned.csv\n" +
			"   plimsoll calibrate --prior vllm --output ours.json points.csv\n" +
			"   plimsoll profile-sla --engine estimate --fit ours.json --model llama-3.1-70b --gpu h200-sxm --ttft 500 --itl 30",
		Flags: []cli.Flag{
			s("prior", "", "coefficients to begin from: a shipped fit's `NAME`, an engine and its version, or a file of this command's (default: the shipped one under which the points are likeliest)"),
			s("model", "", "model that the profile's engine ran, a catalog `name` or a config.json (default: as the profile says)"),
			s("gpu", "", "GPU that it ran on, a catalog `name` (default: as the profile says)"),
			s("output", "calibration.json", "`FILE` to write"),
			&cli.BoolFlag{Name: "force", Usage: "write over a file that is there"},
			s("suggest", "", "instead: name the `N` rows of the table, whose latencies may be empty, that tell most when measured"),
			s("catalog", "", catalogUsage),
		},
		Action: calibrateAction,
	}
}

// calibration is what the command found, as --format json prints it.
type calibration struct {
	Output string         `json:"output"`
	Prior  string         `json:"prior"`
	Why    string         `json:"prior_why"` // this prior
	Points int            `json:"points"`
	Fit    latency.Fit    `json:"fit"`
	Report latency.Report `json:"report"`
}

func calibrateAction(c *cli.Context) error {
	p := &parser{c: c}
	ask := calibrationAsked{
		from: c.Args().First(), on: ranOn{model: c.String("model"), gpu: c.String("gpu")},
		prior: strings.TrimSpace(c.String("prior")), output: c.String("output"), suggest: p.integer("suggest", 1, maxTokens, 0),
	}
	p.needs(ask.suggest == 0, "without --suggest, which writes nothing", "output", "force")
	switch {
	case p.err != nil:
		return p.err
	case ask.from == "":
		return field.Errorf("calibrate needs a profile's folder or a CSV file").Hint("plimsoll calibrate profiling_results")
	case ask.output == "":
		return field.Errorf("--output is empty: want a file")
	}
	cat, err := catalog.Load(c.String("catalog"))
	if err != nil {
		return err
	}
	if ask.suggest > 0 {
		return suggestAction(c, ask, cat)
	}
	if err := refuseOutput(ask.output, ask.from, c.Bool("force")); err != nil {
		return err
	}
	points, err := readPoints(ask, cat)
	if err != nil {
		return field.Errorf("calibrate: %v", err)
	}
	return calibrate(c, ask, points)
}

// calibrationAsked is what the command was asked for.
type calibrationAsked struct {
	from, prior, output string
	on                  ranOn
	suggest             int // rows to name instead; 0 = calibrate
}

// refuseOutput refuses to write over what is there.
func refuseOutput(output, from string, force bool) error {
	there, err := os.Stat(output)
	if err != nil {
		return nil //nolint:nilerr // nothing is there; what else is wrong shows when it is written
	}
	if there.IsDir() {
		return field.Errorf("--output %s is a folder: want a file", output)
	}
	if in, err := os.Stat(from); err == nil && os.SameFile(in, there) {
		return field.Errorf("--output %s is the file of points: want another file", output)
	}
	if !force {
		return field.Errorf("--output %s exists already", output).Hint("--force writes over it")
	}
	return nil
}

// calibrate fits, writes the file and shows what came of it.
func calibrate(c *cli.Context, ask calibrationAsked, points pointSet) error {
	prior, why, err := priorFor(ask.prior, points)
	if err != nil {
		return err
	}
	fit, report, err := latency.Calibrate(prior, points.obs)
	if err != nil {
		return field.Errorf("calibrate %s: %v", ask.from, err)
	}
	if e := points.engine; e != nil {
		fit.Engine, fit.Version = e.engine, e.version
	}
	var b bytes.Buffer
	if err := printJSON(&b, fit); err != nil {
		return err
	}
	if err := store.WriteFile(ask.output, b.Bytes()); err != nil {
		return err
	}
	for _, w := range append(points.warnings, report.Warnings...) {
		say(c.App.ErrWriter, "warning", "%s", w)
	}
	out := calibration{Output: ask.output, Prior: prior.Name, Why: why, Points: len(points.obs), Fit: fit, Report: report}
	if c.String("format") == "json" {
		return printJSON(c.App.Writer, out)
	}
	return show(c.App.Writer, out.text())
}

// priorFor is the fit to begin from, and why that one: what --prior names, else that of
// the engine that the points name, else the shipped one under which they are likeliest.
func priorFor(name string, points pointSet) (latency.Fit, string, error) {
	if name != "" {
		f, err := build.LoadFit(field.Prior, name)
		return f, "--prior names it", err
	}
	if e := points.engine; e != nil && e.engine != "" {
		return latency.FitFor(engine.Kind(e.engine), e.version), "it is that of the points' engine", nil
	}
	fits := latency.Fits()
	f, err := latency.Nearest(fits, points.obs)
	if err != nil {
		return f, "", field.Errorf("calibrate: %v", err)
	}
	return f, fmt.Sprintf("of the %d shipped fits, it matches the points best after calibration; that does not tell which engine the points come from", len(fits)), nil
}

// readPoints reads a folder or a table.
func readPoints(ask calibrationAsked, cat catalog.Catalog) (pointSet, error) {
	info, err := os.Stat(ask.from)
	if err != nil {
		return pointSet{}, err
	}
	if info.IsDir() {
		return folderPoints(ask.from, ask.on, cat)
	}
	rows, err := readTableFile(ask, cat)
	if err != nil {
		return pointSet{}, err
	}
	return tablePoints(ask.from, rows)
}

func readTableFile(ask calibrationAsked, cat catalog.Catalog) ([]tableRow, error) {
	if ask.on != (ranOn{}) {
		return nil, fmt.Errorf("%s is a table, whose rows name model and GPU: --model and --gpu are for a profile's folder", ask.from)
	}
	f, err := os.Open(ask.from)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // read only
	return readTable(ask.from, f, cat)
}

func (c calibration) text() []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "Calibrated %s on %s\nBegun from %s: %s\n\n", c.Prior, engine.Count(c.Points, "point"), c.Prior, c.Why)
	t := newTable("latency", "points", "before", "after", "leave-one-out")
	for _, row := range []struct {
		name               string
		before, after, out latency.Error
	}{
		{"TTFT", c.Report.Before.TTFT, c.Report.After.TTFT, c.Report.LeaveOneOut.TTFT},
		{"ITL, TPOT", c.Report.Before.TPOT, c.Report.After.TPOT, c.Report.LeaveOneOut.TPOT},
	} {
		t.row(row.name, itoa(row.before.N), errorCell(row.before), errorCell(row.after), errorCell(row.out))
	}
	b.WriteString(t.text("  "))
	fmt.Fprintf(&b, "\nMedian and p90 of the relative error. With this fit, estimates carry\n")
	fmt.Fprintf(&b, "  TTFT       %s\n  ITL, TPOT  %s\n", dep.ModelError(c.Fit.Groups[0].TTFT).Words(), dep.ModelError(c.Fit.Groups[0].TPOT).Words())
	fmt.Fprintf(&b, "File: %s (plimsoll profile-sla --engine estimate --fit %s …)\n", c.Output, c.Output)
	return b.Bytes()
}

// fewestForP90 is from how many errors on a 90th percentile says more than the
// largest of them.
const fewestForP90 = 3

func errorCell(e latency.Error) string {
	if e.N == 0 {
		return "–"
	}
	if e.N < fewestForP90 {
		return fmt.Sprintf("%.1f %% / –", 100*e.Median)
	}
	return fmt.Sprintf("%.1f %% / %.1f %%", 100*e.Median, 100*e.P90)
}
