package main

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"

	"plimsoll/capacity"
	"plimsoll/engine"
	"plimsoll/engine/catalog"
	"plimsoll/profile"
)

// formulaPlan is a plan by the closed formulas with what they get wrong.
type formulaPlan struct {
	Workload   capacity.Workload   `json:"workload"`
	SLO        capacity.SLO        `json:"slo"`
	Throughput capacity.Throughput `json:"throughput"`
	Price      string              `json:"price"`
	capacity.FormulaPlan
	Compared    []strategyGPUs        `json:"compared,omitempty"` // with --strategy auto
	Minimum     capacity.MinimumPlan  `json:"minimum"`
	Corrections []capacity.Correction `json:"corrections"`
}

// strategyGPUs is a strategy that auto looked at.
type strategyGPUs struct {
	Strategy capacity.Strategy `json:"strategy"`
	GPUs     int               `json:"total_gpus_final"`
}

// checkFormula refuses what the formulas do not look at.
func (o capacityOptions) checkFormula(p *parser) {
	p.needs(false, "with --method sized", "mixed-gpus", "spot-decode", "kv-dram")
	if o.fleet.profile != "" {
		p.needs(false, "without --profile, which says it", "throughput", "max-num-seqs", "max-num-batched-tokens")
		return
	}
	p.needs(!o.published, "with --throughput model: a published row has its own GPU, size and price",
		"gpu", "tp", "fit", "max-num-seqs", "max-num-batched-tokens", "cloud", "spot", "prices")
	if len(o.gpus) > 1 {
		p.fail(usagef("--method formula plans for one GPU, --gpu names %d", len(o.gpus)))
	}
}

func (o capacityOptions) planByFormula(c *cli.Context) error {
	p := &parser{c: c}
	if o.checkFormula(p); p.err != nil {
		return p.err
	}
	f, err := o.byFormula()
	if unmet := (*unmetError)(nil); errors.As(err, &unmet) {
		return showUnmet(c, unmet)
	}
	if err != nil {
		return err
	}
	if c.String("format") == "json" {
		return printJSON(c.App.Writer, f)
	}
	var b bytes.Buffer
	f.text(&b)
	if _, err := c.App.Writer.Write(b.Bytes()); err != nil {
		return fmt.Errorf("printing the plan: %w", err)
	}
	return nil
}

func (o capacityOptions) byFormula() (formulaPlan, error) {
	out := formulaPlan{Workload: o.workload, SLO: o.slo}
	if o.fleet.profile != "" {
		return o.ofProfile(out)
	}
	cat, err := loadCatalog(o.fleet.catalog)
	if err != nil {
		return out, err
	}
	m, err := findModel(cat, o.fleet.model)
	if err != nil {
		return out, usagef("--model: %v", err)
	}
	g, err := cat.GPU(o.gpus[0])
	if err != nil {
		return out, usagef("--gpu: %v", err)
	}
	if !o.published {
		return o.cheapestSize(out, m, g)
	}
	usd := capacity.PublishedUSDPerGPUHr
	out.Price = "published"
	if o.money.fixed > 0 {
		usd, out.Price = o.money.fixed, "as given"
	}
	if out.Throughput, err = publishedThroughput(m); err != nil {
		return out, err
	}
	return o.apply(out, m, usd)
}

// ofProfile plans with the throughput of a profile's picks.
func (o capacityOptions) ofProfile(out formulaPlan) (formulaPlan, error) {
	s, err := readProfileSource(o.fleet)
	if err != nil {
		return out, err
	}
	cat, err := loadCatalog(o.fleet.catalog)
	if err != nil {
		return out, err
	}
	m, errModel := cat.Model(s.rec.Model)
	g, errGPU := cat.GPU(s.rec.GPU)
	if err := errors.Join(errModel, errGPU); err != nil {
		return out, usagef("--profile %s: the formulas need its model's KV and its GPU's memory: %s", o.fleet.profile, oneLine(err)).hint("--catalog FILE adds both")
	}
	prefill, decode := s.rec.Prefill, s.rec.Decode
	if prefill.GPUs != decode.GPUs {
		return out, usagef("--profile %s: prefill was picked at %s and decode at %s: the formulas know one size", o.fleet.profile, prefill.Label, decode.Label).
			hint("--method sized takes both")
	}
	rate := prefill.ThroughputPerGPU
	if b, ok := s.prefill.Batch(o.workload.AvgISL); ok {
		rate = b.ThroughputPerGPU
	}
	out.Throughput = capacity.Throughput{
		Name: "profile " + o.fleet.profile + ", " + decode.Label, Model: m.Name, GPU: g.Name, TP: decode.GPUs,
		PrefillTPS: rate * float64(prefill.GPUs), DecodeTPS: decode.ThroughputPerGPU * float64(decode.GPUs),
		MaxBatch: max(1, int(decode.InFlight)), KVBytesPerToken: int64(m.KVBytesPerToken(engine.BF16)), GPUMemoryBytes: g.MemoryBytes, Provenance: s.rec.Provenance,
		Warnings: append(s.caveats(), s.prefill.Short(o.workload.AvgISL)...),
	}
	price, err := o.money.of(g.Name, decode.GPUs)
	if err != nil {
		return out, err
	}
	out.Price = price.from
	return o.apply(out, m, price.usd)
}

// apply plans with a throughput and a price.
func (o capacityOptions) apply(out formulaPlan, m catalog.Model, usd float64) (formulaPlan, error) {
	var err error
	options := capacity.Options{Strategy: o.strategy, UtilizationTarget: o.utilization, USDPerGPUHour: usd}
	if out.FormulaPlan, err = capacity.Formula(o.workload, o.slo, out.Throughput, options); err != nil {
		return out, usagef("%v", flagged(err))
	}
	if o.caches.reuse {
		out.Warnings = append(out.Warnings, profile.Warnf("prefixes_ignored", "the formulas take every prompt as computed whole: prompts that begin alike are not in them; --method sized simulates their reuse"))
	}
	out.Warnings = append(out.Warnings, o.spotWarnings()...)
	if out.Minimum, err = capacity.Minimum(o.workload, o.slo, out.Throughput, options); err != nil {
		return out, usagef("%v", flagged(err))
	}
	if o.strategy == capacity.Auto {
		out.Compared = o.compared(out.Throughput, options)
	}
	out.Corrections = capacity.Misleads(o.workload, o.slo, out.Throughput, options, out.FormulaPlan, capacity.Facts{
		Model: m, Weights: storageOf(o.fleet.weights, m).weights, ReplicaAvailability: o.failures.ReplicaAvailability,
		GroupsPerDomain: o.failures.DomainGPUs / out.Throughput.TP,
	})
	return out, nil
}

// compared are both strategies' GPUs, of which auto takes the fewer.
func (o capacityOptions) compared(t capacity.Throughput, options capacity.Options) []strategyGPUs {
	var out []strategyGPUs
	for _, s := range o.strategies() {
		options.Strategy = s
		if p, err := capacity.Formula(o.workload, o.slo, t, options); err == nil {
			out = append(out, strategyGPUs{s, p.TotalGPUsFinal})
		}
	}
	return out
}

func publishedThroughput(m catalog.Model) (capacity.Throughput, error) {
	var names []string
	for _, t := range capacity.PublishedThroughputs() {
		if t.Model == m.Name {
			return t, nil
		}
		names = append(names, t.Model)
	}
	return capacity.Throughput{}, usagef("--throughput published has no row for %s: want %s", m.Name, orList(names)).hint("--throughput model works for every model of the catalog")
}

func (f formulaPlan) text(b *bytes.Buffer) {
	if f.Throughput.Provenance != profile.Measured {
		fmt.Fprintf(b, "%s — not measured on a GPU\n", strings.ToUpper(f.Throughput.Provenance.String()))
	}
	head(b, f.Workload, f.SLO)
	t := f.Throughput
	fmt.Fprintf(b, "Throughput of one engine (%s): %s: prefill %.0f, decode %.0f tokens/s\n\n", t.Provenance, t.Name, t.PrefillTPS, t.DecodeTPS)
	row := func(name, format string, a ...any) {
		fmt.Fprintf(b, "  %-22s "+format+"\n", append([]any{name}, a...)...)
	}
	if f.Strategy == capacity.Disaggregated {
		row("engines", "%d prefill + %d decode, of %d GPUs each", f.PrefillGroups, f.DecodeGroups, t.TP)
		row("TTFT, ITL p99", "%.2f ms, %.2f ms by formula", f.EstimatedTTFTP99Ms, f.EstimatedITLP99Ms)
	} else {
		row("engines", "%d aggregated, of %d GPUs each", f.Groups, t.TP)
	}
	if len(f.Compared) > 1 {
		a, b := f.Compared[0], f.Compared[1]
		row("auto", "%s %d GPUs, %s %d: the fewer GPUs, a tie to the former; latencies are not compared, aggregated has no formula for them", a.Strategy, a.GPUs, b.Strategy, b.GPUs)
	}
	row("GPUs", "%d; with burst headroom of %.2f: %d; with %d for redundancy: %d", f.TotalGPUs, f.BurstHeadroomFactor, f.TotalGPUsWithBurst, f.RedundancyGPUs, f.TotalGPUsFinal)
	minimum := "%d GPUs ($%.4f per 1,000 requests)"
	if f.Strategy == capacity.Aggregated {
		minimum += ", in disaggregated pools: the formulas have no other"
	}
	row("minimum", minimum, f.Minimum.TotalGPUs, f.Minimum.Per1kQueriesUSD)
	row("cost", "$%s an hour, $%s a day, $%s a month of 30 days, $%s a year (price: %s)", amount(f.HourlyUSD), amount(f.DailyUSD), amount(f.MonthlyUSD), amount(f.AnnualUSD), f.Price)
	row("per unit", "$%.4f per 1,000 requests, $%.4f per million output tokens", f.Per1kQueriesUSD, f.Per1MTokensUSD)
	row("binds", "%s", f.Binding)
	for _, w := range f.Warnings {
		row("warning", "%s", w.Message)
	}
	if len(f.Corrections) == 0 {
		return
	}
	b.WriteString("\nWhere the formulas mislead, each figure by itself (--method sized makes a plan of it all):\n")
	table := newTable("figure", "formula", "right", "unit", "because")
	for _, c := range f.Corrections {
		table.row(c.Field, fmt.Sprintf("%.6g", c.Formula), fmt.Sprintf("%.6g", c.Right), c.Unit, c.Why)
	}
	b.WriteString(table.text("  "))
}
