package main

import (
	"bytes"
	"encoding/csv"
	"flag"
	"fmt"
	"io"
	"strings"

	"github.com/urfave/cli/v2"

	"plimsoll/capacity"
	"plimsoll/engine/field"
	"plimsoll/profile"
)

func capacityCompareCommand() *cli.Command {
	return &cli.Command{
		Name: "compare", Usage: "plans side by side", ArgsUsage: "A.yaml B.yaml [C.yaml] [D.yaml] [E.yaml] [F.yaml]",
		Description: "Each file is a YAML whose keys are flags of capacity plan (rates per second, lengths in tokens, latencies in ms,\n" +
			"money in USD); of each, the cheapest plan is shown. --format csv gives one row for each file.\n\n" +
			"   plimsoll capacity compare today.yaml next-year.yaml\n" +
			"   plimsoll capacity compare --format csv h100.yaml a100.yaml",
		Action: comparePlans,
	}
}

// comparedPlan is the cheapest plan of a file.
type comparedPlan struct {
	File   string  `json:"file"`
	Method string  `json:"method"`
	RPS    float64 `json:"rate"`
	capacity.Plan
}

func comparePlans(c *cli.Context) error {
	files := c.Args().Slice()
	if len(files) < 2 {
		return field.Errorf("compare needs two files at least, there are %d", len(files)).Hint("plimsoll capacity compare today.yaml next-year.yaml")
	}
	plans := make([]comparedPlan, 0, len(files))
	infeasible := 0
	for _, file := range files {
		p, err := planOf(c, file)
		if err != nil {
			return err
		}
		if p.Infeasible != nil {
			infeasible++
		}
		plans = append(plans, p)
	}
	if err := showCompared(c, plans); err != nil {
		return err
	}
	if infeasible == len(plans) {
		return &infeasibleError{"no fleet holds any of the SLOs"}
	}
	return nil
}

// planOf is the cheapest plan of a file, as capacity plan --workload has it.
func planOf(c *cli.Context, file string) (comparedPlan, error) {
	plan := capacityPlanCommand()
	set := flag.NewFlagSet(file, flag.ContinueOnError)
	set.SetOutput(io.Discard)
	for _, f := range plan.Flags {
		if err := f.Apply(set); err != nil {
			return comparedPlan{}, fmt.Errorf("flags of capacity plan: %w", err)
		}
	}
	ctx := cli.NewContext(c.App, set, nil)
	ctx.Command = plan
	if err := ctx.Set("workload", file); err != nil {
		return comparedPlan{}, fmt.Errorf("flags of capacity plan: %w", err)
	}
	p := &parser{c: ctx}
	o := parseCapacity(p)
	if p.err != nil {
		return comparedPlan{}, inFile(file, p.err)
	}
	if o.method == "formula" {
		if o.checkFormula(p); p.err != nil {
			return comparedPlan{}, inFile(file, p.err)
		}
		f, err := o.byFormula()
		if err != nil {
			return comparedPlan{}, inFile(file, err)
		}
		return comparedPlan{file, o.method, o.workload.Rate, f.plan()}, nil
	}
	out, err := o.find()
	if err != nil {
		return comparedPlan{}, inFile(file, err)
	}
	return comparedPlan{file, o.method, out.Workload.Rate, out.Plans[0].Plan}, nil
}

// inFile names the file that an error is about.
func inFile(file string, err error) error {
	if u, ok := err.(*field.Error); ok && !strings.Contains(u.Msg, file) { //nolint:errorlint // they are never wrapped
		return &field.Error{Msg: file + ": " + u.Msg, Hints: u.Hints}
	}
	return err
}

// plan is a plan by formulas in the words of one that was simulated.
func (f formulaPlan) plan() capacity.Plan {
	pool := capacity.PoolPlan{Engine: fmt.Sprintf("TP:%d", f.Throughput.TP), GPU: f.Throughput.GPU, Engines: f.Groups}
	pools := []capacity.PoolPlan{pool}
	if f.PrefillGroups > 0 {
		pools = append(pools, pool)
		pools[0].Engines, pools[1].Engines = f.PrefillGroups, f.DecodeGroups
	}
	return capacity.Plan{
		Strategy: f.Strategy, Layout: pool.Engine, Pools: pools, Groups: f.Groups, TotalGPUs: f.TotalGPUs, TotalGPUsFinal: f.TotalGPUsFinal,
		RedundancyGPUs: f.RedundancyGPUs, EstimatedTTFTP99Ms: f.EstimatedTTFTP99Ms, EstimatedITLP99Ms: f.EstimatedITLP99Ms,
		Costs: f.Costs, Binding: f.Binding, Provenance: f.Provenance, Warnings: f.Warnings,
	}
}

// comparedRow is a plan as a row of the table or of the CSV. An infeasible one has
// no figures.
func comparedRow(p comparedPlan, asCSV bool) []string {
	number, usd, unit, none := plain, amount[capacity.USD], perUnit, "–"
	if asCSV {
		number = func(x float64) string { return fmt.Sprintf("%.8g", x) }
		usd = func(x capacity.USD) string {
			if !x.Known() {
				return ""
			}
			return number(float64(x))
		}
		unit, none = usd, ""
	}
	row := []string{
		p.File, p.Method, number(p.RPS), p.Layout, sizedPlan{Plan: p.Plan}.gpus(), engineCounts(p.Plan), itoa(p.TotalGPUsFinal), usd(p.HourlyUSD), usd(p.AnnualUSD),
		unit(p.Per1kQueriesUSD), number(p.EstimatedTTFTP99Ms), number(p.EstimatedITLP99Ms), p.Provenance.String(), p.Binding,
	}
	if f := p.Infeasible; f != nil {
		for i := 4; i < 12; i++ {
			row[i] = none
		}
		row[13] = "infeasible: " + f.Why
	}
	return row
}

func showCompared(c *cli.Context, plans []comparedPlan) error {
	var b bytes.Buffer
	switch c.String("format") {
	case "json":
		return printJSON(c.App.Writer, plans)
	case "csv":
		w := csv.NewWriter(&b)
		rows := [][]string{{
			"file", "method", "rate", "layout", "gpu", "engines", "total_gpus_final", "hourly_cost_usd", "annual_cost_usd",
			"cost_per_1k_queries_usd", "estimated_ttft_p99_ms", "estimated_itl_p99_ms", "provenance", "binding",
		}}
		for _, p := range plans {
			rows = append(rows, comparedRow(p, true))
		}
		if err := w.WriteAll(rows); err != nil {
			return fmt.Errorf("writing CSV: %w", err)
		}
		return show(c, b.Bytes())
	}
	weakest := profile.Measured
	t := newTable("file", "method", "requests/s", "layout", "GPU", "engines", "GPUs", "$/hour", "$/year", "$ per 1,000 requests", "TTFT p99 ms", "ITL p99 ms", "provenance", "what binds")
	for _, p := range plans {
		implausibleLines(&b, p.Warnings)
		weakest = profile.Weakest(weakest, p.Provenance)
		t.row(comparedRow(p, false)...)
	}
	if weakest != profile.Measured {
		fmt.Fprintf(&b, "%s — not measured on a GPU\n\n", strings.ToUpper(weakest.String()))
	}
	b.WriteString(t.text("  "))
	for _, p := range plans {
		for _, w := range p.Warnings {
			fmt.Fprintf(&b, "  %s: warning: %s\n", p.File, w.Message)
		}
	}
	return show(c, b.Bytes())
}
