package main

import (
	"bytes"
	"fmt"
	"os"
	"strings"

	"github.com/urfave/cli/v2"

	"plimsoll/engine/catalog"
	"plimsoll/engine/latency"
	"plimsoll/profile/store"
)

func calibrateCommand() *cli.Command {
	s := func(name, def, usage string) cli.Flag { return &cli.StringFlag{Name: name, Value: def, Usage: usage} }
	return &cli.Command{
		Name: "calibrate", Usage: "fit the latency model to measured points of an engine", ArgsUsage: "DIR|FILE",
		Description: "DIR is a profile's folder. FILE is a table, CSV with the columns model, gpu, tp, isl, osl, loop (closed or\n" +
			"open), and where known precision (bf16, fp8, fp4), backend, version, concurrency (closed), rate_rps (open),\n" +
			"ttft_ms, tpot_ms. Lengths are tokens, rates requests per second. A closed loop's ttft_ms counts at\n" +
			"concurrency 1 only: beyond, it is mostly how the client's requests bunch. The result is for --fit.\n\n" +
			"   plimsoll calibrate profiling_results\n" +
			"   plimsoll calibrate --prior vllm --output ours.json points.csv\n" +
			"   plimsoll profile-sla --engine estimate --fit ours.json --model llama-3.1-70b --gpu h200-sxm --ttft 500 --itl 30",
		Flags: []cli.Flag{
			s("prior", "", "coefficients to begin from: a shipped fit's `NAME` or a file of this command's (default: recent vLLM)"),
			s("model", "", "model that the profile's engine ran, a catalog `name` (default: as the profile says)"),
			s("gpu", "", "GPU that it ran on, a catalog `name` (default: as the profile says)"),
			s("output", "calibration.json", "`FILE` to write"),
			s("catalog", "", "`FILE` of further models or GPUs"),
		},
		Action: calibrateAction,
	}
}

// calibration is what the command found, as --format json prints it.
type calibration struct {
	Output string         `json:"output"`
	Prior  string         `json:"prior"`
	Points int            `json:"points"`
	Fit    latency.Fit    `json:"fit"`
	Report latency.Report `json:"report"`
}

func calibrateAction(c *cli.Context) error {
	from := c.Args().First()
	if from == "" {
		return usagef("calibrate needs a profile's folder or a CSV file").hint("plimsoll calibrate profiling_results")
	}
	output := c.String("output")
	if output == "" {
		return usagef("--output is empty: want a file")
	}
	cat, err := loadCatalog(c.String("catalog"))
	if err != nil {
		return err
	}
	prior, err := loadFit("prior", strings.TrimSpace(c.String("prior")))
	if err != nil {
		return err
	}
	obs, err := readObservations(from, ranOn{model: c.String("model"), gpu: c.String("gpu")}, cat)
	if err != nil {
		return usagef("calibrate: %v", err)
	}
	fit, report, err := latency.Calibrate(prior, obs)
	if err != nil {
		return usagef("calibrate %s: %v", from, err)
	}
	b, err := fitJSON(fit)
	if err != nil {
		return err
	}
	if err := store.WriteFile(output, b); err != nil {
		return err
	}
	for _, w := range report.Warnings {
		say(c.App.ErrWriter, "warning", "%s", w)
	}
	out := calibration{Output: output, Prior: prior.Name, Points: len(obs), Fit: fit, Report: report}
	if c.String("format") == "json" {
		return printJSON(c.App.Writer, out)
	}
	_, err = c.App.Writer.Write(out.text())
	return err
}

// readObservations reads a folder or a table.
func readObservations(from string, on ranOn, cat catalog.Catalog) ([]latency.Observation, error) {
	info, err := os.Stat(from)
	if err != nil {
		return nil, err
	}
	if info.IsDir() {
		return folderObservations(from, on, cat)
	}
	if on != (ranOn{}) {
		return nil, fmt.Errorf("%s is a table, whose rows name model and GPU: --model and --gpu are for a profile's folder", from)
	}
	f, err := os.Open(from)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // read only
	return tableObservations(from, f, cat)
}

// fitJSON is the file that --fit takes.
func fitJSON(f latency.Fit) ([]byte, error) {
	var b bytes.Buffer
	if err := printJSON(&b, f); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

func (c calibration) text() []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "Calibrated %s on %d points\n\n", c.Prior, c.Points)
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
	fmt.Fprintf(&b, "  TTFT       %s\n  ITL, TPOT  %s\n", shownError(modelError(c.Fit.TTFT)), shownError(modelError(c.Fit.TPOT)))
	fmt.Fprintf(&b, "File: %s (plimsoll profile-sla --engine estimate --fit %s …)\n", c.Output, c.Output)
	return b.Bytes()
}

func errorCell(e latency.Error) string {
	if e.N == 0 {
		return "–"
	}
	return fmt.Sprintf("%.1f %% / %.1f %%", 100*e.Median, 100*e.P90)
}
