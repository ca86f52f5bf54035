package main

import (
	"cmp"
	"flag"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

	"plimsoll/capacity"
	"plimsoll/engine"
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
		Flags: []cli.Flag{detailsFlag()}, Action: comparePlans,
	}
}

// comparedPlan is the cheapest plan of a file.
type comparedPlan struct {
	File   string  `json:"file"`
	Method string  `json:"method"`
	RPS    float64 `json:"rate"`
	capacity.Plan
}

type comparedPlans []comparedPlan

func comparePlans(c *cli.Context) error {
	files := c.Args().Slice()
	if len(files) < 2 {
		return field.Errorf("compare needs two files at least, there are %d", len(files)).Hint("plimsoll capacity compare today.yaml next-year.yaml")
	}
	var plans comparedPlans
	for _, file := range files {
		p, err := planOf(c, file)
		if err != nil {
			return inFile(file, err)
		}
		plans = append(plans, p)
	}
	if err := plans.show(c); err != nil {
		return err
	}
	if !slices.ContainsFunc(plans, func(p comparedPlan) bool { return p.Infeasible == nil }) {
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
	if o.method == "formula" {
		o.checkFormula(p)
	}
	if p.err != nil {
		return comparedPlan{}, p.err
	}
	if o.method == "formula" {
		f, err := o.byFormula()
		return comparedPlan{file, o.method, o.workload.Rate, f.plan()}, err
	}
	out, err := o.find()
	if err != nil {
		return comparedPlan{}, err
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
	shown := sizedPlan{Plan: p.Plan}
	number, usd, unit, none, gpus, gpuCount := plain, amount[capacity.USD], perUnit, "–", shown.gpus(), shown.gpuCount()
	if asCSV {
		number = func(x float64) string { return fmt.Sprintf("%.8g", x) }
		usd = func(x capacity.USD) string {
			if !x.Known() {
				return ""
			}
			return number(float64(x))
		}
		unit, none, gpus, gpuCount = usd, "", strings.Join(planGPUs(p.Plan), " and "), itoa(p.TotalGPUsFinal)
	}
	row := []string{
		p.File, p.Method, number(p.RPS), p.Layout, gpus, engineCounts(p.Plan), gpuCount, usd(p.HourlyUSD), usd(p.AnnualUSD),
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

func (plans comparedPlans) show(c *cli.Context) error {
	if c.String("format") != "csv" {
		return showCard(c, plans, plans.card, plans.detailed)
	}
	rows := [][]string{{
		"file", "method", "rate", "layout", "gpu", "engines", "total_gpus_final", "hourly_cost_usd", "annual_cost_usd",
		"cost_per_1k_queries_usd", "estimated_ttft_p99_ms", "estimated_itl_p99_ms", "provenance", "binding", "from_data_sheet", "nodes",
	}}
	for _, p := range plans {
		nodes := ""
		for _, pool := range p.Pools { // the same network in all
			nodes = cmp.Or(pool.Nodes.String(), nodes)
		}
		rows = append(rows, append(comparedRow(p, true), strconv.FormatBool(p.FromDataSheet()), nodes))
	}
	return showCSV(c, rows)
}

func (plans comparedPlans) detailed() string {
	t := newTable("file", "method", "$/year", "what one engine fewer, or a higher rate, breaks")
	for _, p := range plans {
		row := comparedRow(p, false)
		t.row(row[0], row[1], row[8], row[13])
	}
	return t.text("  ")
}

func (plans comparedPlans) card() card {
	t := newTable("file", "requests/s", "layout", "GPU", "engines", "GPUs", "$/hour", "$ per 1,000 requests", "TTFT p99 ms", "ITL p99 ms", "provenance")
	weakest, c := profile.Measured, card{table: t}
	var held comparedPlans
	for _, p := range plans {
		weakest = profile.Weakest(weakest, p.Provenance)
		row := comparedRow(p, false)
		t.row(slices.Concat(row[:1], row[2:8], row[9:13])...)
		for _, w := range p.Warnings {
			w.Message = p.File + ": " + w.Message
			c.warnings = append(c.warnings, w)
		}
		if p.Infeasible != nil {
			c.below = append(c.below, p.File+": "+row[13])
		} else {
			held = append(held, p)
		}
	}
	c.head = []string{marked(weakest), engine.Count(len(plans), "plan")}
	if len(held) == 0 {
		c.facts = []detail{{"Answer", "no fleet holds any of the SLOs"}}
		return c
	}
	hour := held.least(func(p comparedPlan) capacity.USD { return p.HourlyUSD })
	request := held.least(func(p comparedPlan) capacity.USD { return p.Per1kQueriesUSD })
	answer := hour.files() + hour.verb(" takes least: ", " take the same: ") + hour.fleets() + hourly(hour[0].HourlyUSD)
	if request.files() != hour.files() {
		answer += fmt.Sprintf("; for a request %s%s$%s per 1,000", request.files(), request.verb(" does: ", " do, the same: "), perUnit(request[0].Per1kQueriesUSD))
	}
	c.facts = []detail{{"Answer", answer}}
	if i := slices.IndexFunc(held, func(p comparedPlan) bool { return p.FromDataSheet() }); i >= 0 {
		c.below = append(c.below, starLine(held[i].Range.Factors))
	}
	c.below = append(c.below, modelLines(c.warnings)...)
	c.next = fmt.Sprintf("plimsoll capacity plan --workload %s --details", hour[0].File)
	return c
}

// least are the plans of the least cost; where it is nothing, or a price is not known, those
// of the fewest GPUs.
func (plans comparedPlans) least(cost func(comparedPlan) capacity.USD) (out comparedPlans) {
	byGPUs := slices.ContainsFunc(plans, func(p comparedPlan) bool { return !cost(p).Known() })
	order := func(a, b comparedPlan) int {
		if x, y := float64(cost(a)), float64(cost(b)); !byGPUs && math.Max(x, y) > 0 {
			if math.Abs(x-y) <= 1e-9*math.Max(x, y) { // rounding
				return 0
			}
			return cmp.Compare(x, y)
		}
		return cmp.Compare(a.TotalGPUsFinal, b.TotalGPUsFinal)
	}
	best := slices.MinFunc(plans, order)
	for _, p := range plans {
		if order(p, best) == 0 {
			out = append(out, p)
		}
	}
	return out
}

// files are the plans' names.
func (plans comparedPlans) files() string {
	var names []string
	for _, p := range plans {
		names = append(names, p.File)
	}
	return strings.Join(names, " and ")
}

// fleets are the plans' GPUs, each fleet once.
func (plans comparedPlans) fleets() string {
	var all []string
	for _, p := range plans {
		s := sizedPlan{Plan: p.Plan}
		all = append(all, s.gpuCount()+" × "+s.gpus())
	}
	return strings.Join(distinct(all), " and ")
}

// verb is one's or several's.
func (plans comparedPlans) verb(one, several string) string {
	if len(plans) > 1 {
		return several
	}
	return one
}
