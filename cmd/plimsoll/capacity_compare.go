package main

import (
	"bytes"
	"encoding/csv"
	"flag"
	"fmt"
	"io"
	"path/filepath"
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
	File         string             `json:"file"`
	Method       string             `json:"method"`
	Feasible     bool               `json:"feasible"`
	Strategy     string             `json:"strategy"`
	Layout       string             `json:"layout"`
	GPU          string             `json:"gpu"`
	Engines      string             `json:"engines"`
	TotalGPUs    int                `json:"total_gpus_final"`
	HourlyUSD    capacity.USD       `json:"hourly_cost_usd"`
	AnnualUSD    capacity.USD       `json:"annual_cost_usd"`
	Per1kQueries capacity.USD       `json:"cost_per_1k_queries_usd"`
	Per1MTokens  capacity.USD       `json:"cost_per_1m_tokens_usd"`
	PeakQPS      float64            `json:"peak_qps"`
	AvgISL       float64            `json:"avg_isl"`
	AvgOSL       float64            `json:"avg_osl"`
	TTFT         float64            `json:"estimated_ttft_p99_ms"`
	ITL          float64            `json:"estimated_itl_p99_ms"`
	Attainment   float64            `json:"attainment"` // 0 = not simulated
	Binding      string             `json:"binding"`
	Provenance   profile.Provenance `json:"provenance"`
	Warnings     []profile.Warning  `json:"warnings,omitempty"`
}

func comparePlans(c *cli.Context) error {
	files := c.Args().Slice()
	if len(files) < 2 {
		return field.Errorf("compare needs two files at least, there are %d", len(files)).Hint("plimsoll capacity compare today.yaml next-year.yaml")
	}
	plans := make([]comparedPlan, 0, len(files))
	feasible := false
	for _, file := range files {
		p, err := planOf(c, file)
		if err != nil {
			return err
		}
		feasible = feasible || p.Feasible
		plans = append(plans, p)
	}
	if err := showCompared(c, plans); err != nil {
		return err
	}
	if !feasible {
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
		return o.formulaCompared(file)
	}
	plans, err := o.size()
	if err != nil {
		return comparedPlan{}, inFile(file, err)
	}
	return sizedCompared(file, plans), nil
}

// inFile names the file that an error is about.
func inFile(file string, err error) error {
	if u, ok := err.(*field.Error); ok && !strings.Contains(u.Msg, file) { //nolint:errorlint // they are never wrapped
		return &field.Error{Msg: file + ": " + u.Msg, Hints: u.Hints}
	}
	return err
}

func sizedCompared(file string, out sizedPlans) comparedPlan {
	w := out.Workload
	c := comparedPlan{File: file, Method: "sized", PeakQPS: w.PeakQPS, AvgISL: w.AvgISL, AvgOSL: w.AvgOSL}
	if len(out.Plans) == 0 {
		return c
	}
	p := out.Plans[0]
	c.Strategy, c.Layout, c.Provenance, c.Warnings = string(p.Strategy), p.Layout, p.Provenance, p.Warnings
	if p.Infeasible != nil {
		c.Binding = p.Infeasible.Why
		return c
	}
	c.Feasible, c.Engines, c.TotalGPUs, c.Binding, c.Attainment = true, engineCounts(p.Plan), p.TotalGPUsFinal, p.Binding, p.Attainment
	gpus := make([]string, 0, len(p.Pools))
	for _, pool := range p.Pools {
		gpus = append(gpus, pool.GPU)
	}
	c.GPU = strings.Join(distinct(gpus), " and ")
	c.HourlyUSD, c.AnnualUSD, c.Per1kQueries, c.Per1MTokens = p.HourlyUSD, p.AnnualUSD, p.Per1kQueriesUSD, p.Per1MTokensUSD
	c.TTFT, c.ITL = p.EstimatedTTFTP99Ms, p.EstimatedITLP99Ms
	return c
}

func (o capacityOptions) formulaCompared(file string) (comparedPlan, error) {
	f, err := o.byFormula()
	if err != nil {
		return comparedPlan{}, inFile(file, err)
	}
	c := comparedPlan{
		File: file, Method: "formula", Feasible: true, Strategy: string(f.Strategy), Layout: fmt.Sprintf("TP:%d", f.Throughput.TP), GPU: f.Throughput.GPU,
		Engines: itoa(f.Groups), TotalGPUs: f.TotalGPUsFinal, HourlyUSD: f.HourlyUSD, AnnualUSD: f.AnnualUSD, Per1kQueries: f.Per1kQueriesUSD, Per1MTokens: f.Per1MTokensUSD,
		PeakQPS: o.workload.PeakQPS, AvgISL: o.workload.AvgISL, AvgOSL: o.workload.AvgOSL, TTFT: f.EstimatedTTFTP99Ms, ITL: f.EstimatedITLP99Ms,
		Binding: f.Binding, Provenance: f.Provenance, Warnings: f.Warnings,
	}
	if f.PrefillGroups > 0 {
		c.Engines = fmt.Sprintf("%d and %d", f.PrefillGroups, f.DecodeGroups)
	}
	return c, nil
}

func showCompared(c *cli.Context, plans []comparedPlan) error {
	var b bytes.Buffer
	switch c.String("format") {
	case "json":
		return printJSON(c.App.Writer, plans)
	case "csv":
		w := csv.NewWriter(&b)
		for _, r := range comparedRows(plans) {
			if err := w.Write(r); err != nil {
				return fmt.Errorf("writing CSV: %w", err)
			}
		}
		w.Flush()
		return show(c, b)
	}
	weakest := profile.Measured
	for _, p := range plans {
		weakest = profile.Weakest(weakest, p.Provenance)
		implausibleLines(&b, p.Warnings)
	}
	if weakest != profile.Measured {
		fmt.Fprintf(&b, "%s — not measured on a GPU\n\n", strings.ToUpper(weakest.String()))
	}
	b.WriteString(sideBySide(plans))
	for _, p := range plans {
		if !p.Feasible {
			fmt.Fprintf(&b, "  %s: infeasible: %s\n", p.File, p.Binding)
		}
		for _, w := range p.Warnings {
			fmt.Fprintf(&b, "  %s: warning: %s\n", p.File, w.Message)
		}
	}
	return show(c, b)
}

// comparedRows are a header and one row for each plan.
func comparedRows(plans []comparedPlan) [][]string {
	rows := [][]string{{
		"file", "method", "feasible", "strategy", "layout", "gpu", "engines", "total_gpus_final", "hourly_cost_usd", "annual_cost_usd",
		"cost_per_1k_queries_usd", "cost_per_1m_tokens_usd", "peak_qps", "avg_isl", "avg_osl", "estimated_ttft_p99_ms", "estimated_itl_p99_ms", "attainment", "binding", "provenance",
	}}
	for _, p := range plans {
		g := func(x float64) string { return fmt.Sprintf("%.8g", x) }
		usd := func(x capacity.USD) string {
			if !x.Known() {
				return ""
			}
			return g(float64(x))
		}
		rows = append(rows, []string{
			p.File, p.Method, fmt.Sprint(p.Feasible), p.Strategy, p.Layout, p.GPU, p.Engines, itoa(p.TotalGPUs), usd(p.HourlyUSD), usd(p.AnnualUSD),
			usd(p.Per1kQueries), usd(p.Per1MTokens), g(p.PeakQPS), g(p.AvgISL), g(p.AvgOSL), g(p.TTFT), g(p.ITL), g(p.Attainment), p.Binding, p.Provenance.String(),
		})
	}
	return rows
}

// sideBySide has a column for each plan.
func sideBySide(plans []comparedPlan) string {
	head := []string{""}
	for _, p := range plans {
		head = append(head, strings.TrimSuffix(filepath.Base(p.File), filepath.Ext(p.File)))
	}
	t := newTable(head...)
	row := func(name string, of func(comparedPlan) string) {
		cells := []string{name}
		for _, p := range plans {
			cells = append(cells, of(p))
		}
		t.row(cells...)
	}
	held := func(of func(comparedPlan) string) func(comparedPlan) string {
		return func(p comparedPlan) string {
			if !p.Feasible {
				return "–"
			}
			return of(p)
		}
	}
	row("requests/s at the peak", func(p comparedPlan) string { return plain(p.PeakQPS) })
	row("ISL, OSL", func(p comparedPlan) string { return plain(p.AvgISL) + ", " + plain(p.AvgOSL) })
	row("method", func(p comparedPlan) string { return p.Method })
	row("provenance", func(p comparedPlan) string { return p.Provenance.String() })
	row("holds the SLO", func(p comparedPlan) string {
		if !p.Feasible {
			return "no: infeasible"
		}
		if p.Method == "formula" {
			return "not simulated"
		}
		return "yes"
	})
	row("layout", func(p comparedPlan) string { return p.Layout })
	row("GPU", held(func(p comparedPlan) string { return p.GPU }))
	row("engines", held(func(p comparedPlan) string { return p.Engines }))
	row("GPUs", held(func(p comparedPlan) string { return itoa(p.TotalGPUs) }))
	row("$/hour", held(func(p comparedPlan) string { return amount(p.HourlyUSD) }))
	row("$/year", held(func(p comparedPlan) string { return amount(p.AnnualUSD) }))
	row("$ per 1,000 requests", held(func(p comparedPlan) string { return perUnit(p.Per1kQueries) }))
	row("$ per million tokens", held(func(p comparedPlan) string { return perUnit(p.Per1MTokens) }))
	row("TTFT p99 ms", held(func(p comparedPlan) string { return fmt.Sprintf("%.1f", p.TTFT) }))
	row("ITL p99 ms", held(func(p comparedPlan) string { return fmt.Sprintf("%.2f", p.ITL) }))
	row("what binds", held(func(p comparedPlan) string { return p.Binding }))
	return t.text("  ")
}
