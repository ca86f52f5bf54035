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
	dep "plimsoll/engine/deployment"
	"plimsoll/engine/field"
	"plimsoll/engine/sim/build"
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
	p.needs(false, "with --method sized", "parallelism", "max-gpus-per-engine", "max-model-len", "mixed-gpus", "spot-decode", "kv-dram")
	if o.fleet.Profile != "" {
		p.needs(false, "without --profile, which says it", "throughput", "max-num-seqs", "max-num-batched-tokens")
		return
	}
	p.needs(!o.published, "with --throughput model: a published row has its own GPU, size and price",
		"gpu", "tp", "fit", "max-num-seqs", "max-num-batched-tokens", "cloud", "spot", "prices")
	if len(o.gpus) > 1 {
		p.fail(field.Errorf("--method formula plans for one GPU, --gpu names %d", len(o.gpus)))
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
	if o.fleet.Profile != "" {
		return o.ofProfile(out)
	}
	cat, err := catalog.Load(o.fleet.Catalog)
	if err != nil {
		return out, err
	}
	m, err := cat.ModelOrFile(o.fleet.Model)
	if err != nil {
		return out, field.Errorf("--model: %v", err)
	}
	g, err := cat.GPU(o.gpus[0])
	if err != nil {
		return out, field.Errorf("--gpu: %v", err)
	}
	if !o.published {
		return o.cheapestSize(out, cat, m, g)
	}
	price := offer{usd: capacity.PublishedUSDPerGPUHr, from: "published"}
	if out.Throughput, err = publishedThroughput(m); err != nil {
		return out, err
	}
	if given, ok := o.money.given(out.Throughput.GPU); ok {
		price = given
	}
	return o.apply(out, m, price)
}

// ofProfile plans with the throughput of a profile's picks.
func (o capacityOptions) ofProfile(out formulaPlan) (formulaPlan, error) {
	s, err := build.ReadProfile(o.fleet)
	if err != nil {
		return out, err
	}
	cat, err := catalog.Load(o.fleet.Catalog)
	if err != nil {
		return out, err
	}
	m, errModel := cat.Model(s.Recommendation.Model)
	g, errGPU := cat.GPU(s.Recommendation.GPU)
	if err := errors.Join(errModel, errGPU); err != nil {
		return out, field.Errorf("--profile %s: the formulas need its model's KV and its GPU's memory: %s", o.fleet.Profile, oneLine(err)).Hint("--catalog FILE adds both")
	}
	prefill, decode := s.Recommendation.Prefill, s.Recommendation.Decode
	if prefill.GPUs != decode.GPUs {
		return out, field.Errorf("--profile %s: prefill was picked at %s and decode at %s: the formulas know one size", o.fleet.Profile, prefill.Label, decode.Label).
			Hint("--method sized takes both")
	}
	rate := prefill.ThroughputPerGPU
	if b, ok := s.Prefill.Batch(o.workload.AvgISL); ok {
		rate = b.ThroughputPerGPU
	}
	out.Throughput = capacity.Throughput{
		Name: "profile " + o.fleet.Profile + ", " + decode.Label, Model: m.Name, GPU: g.Name, TP: decode.GPUs,
		PrefillTPS: rate * float64(prefill.GPUs), DecodeTPS: decode.ThroughputPerGPU * float64(decode.GPUs),
		MaxBatch: max(1, int(decode.InFlight)), KVBytesPerToken: int64(m.KVBytesPerToken(engine.BF16)), GPUMemoryBytes: g.MemoryBytes, Provenance: s.Recommendation.Provenance,
		Warnings: append(s.Caveats(o.slo.ITLOf), s.Prefill.Short(o.workload.AvgISL)...),
	}
	return o.apply(out, m, o.money.of(g.Name, decode.GPUs))
}

// apply plans with a throughput and a price.
func (o capacityOptions) apply(out formulaPlan, m catalog.Model, price offer) (formulaPlan, error) {
	var err error
	out.Price = price.from
	options := capacity.Options{Strategy: o.strategy, UtilizationTarget: o.utilization, USDPerGPUHour: price.usd}
	if out.FormulaPlan, err = capacity.Formula(o.workload, o.slo, out.Throughput, options); err != nil {
		return out, field.Errorf("%v", flagged(err))
	}
	if o.caches.reuse {
		out.Warnings = append(out.Warnings, profile.Warnf("prefixes_ignored", "the formulas take every prompt as computed whole: prompts that begin alike are not in them; --method sized simulates their reuse"))
	}
	out.Warnings = append(out.Warnings, o.spotWarnings()...)
	if out.Minimum, err = capacity.Minimum(o.workload, o.slo, out.Throughput, options); err != nil {
		return out, field.Errorf("%v", flagged(err))
	}
	if o.strategy == capacity.Auto {
		out.Compared = o.compared(out.Throughput, options)
	}
	out.Corrections = capacity.Misleads(o.workload, o.slo, out.Throughput, options, out.FormulaPlan, capacity.Facts{
		Model: m, Weights: dep.StorageOf(o.fleet.Weights, m).Weights, ReplicaAvailability: o.failures.ReplicaAvailability,
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
	return capacity.Throughput{}, field.Errorf("--throughput published has no row for %s: want %s", m.Name, orList(names)).Hint("--throughput model works for every model of the catalog")
}

func (f formulaPlan) text(b *bytes.Buffer) {
	implausibleLines(b, f.Warnings)
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
		row("engines", "%d prefill + %d decode, of %s each", f.PrefillGroups, f.DecodeGroups, engine.Count(t.TP, "GPU"))
		row("TTFT, ITL p99", "%.2f ms, %.2f ms by formula", f.EstimatedTTFTP99Ms, f.EstimatedITLP99Ms)
	} else {
		row("engines", "%d aggregated, of %s each", f.Groups, engine.Count(t.TP, "GPU"))
	}
	if len(f.Compared) > 1 {
		a, b := f.Compared[0], f.Compared[1]
		row("auto", "%s %s, %s %d: the fewer GPUs, a tie to the former; latencies are not compared, aggregated has no formula for them", a.Strategy, engine.Count(a.GPUs, "GPU"), b.Strategy, b.GPUs)
	}
	row("GPUs", "%d; with burst headroom of %.2f: %d; with %d for redundancy: %d", f.TotalGPUs, f.BurstHeadroomFactor, f.TotalGPUsWithBurst, f.RedundancyGPUs, f.TotalGPUsFinal)
	minimum := engine.Count(f.Minimum.TotalGPUs, "GPU")
	if f.Minimum.Per1kQueriesUSD.Known() {
		minimum += fmt.Sprintf(" ($%s per 1,000 requests)", perUnit(f.Minimum.Per1kQueriesUSD))
	}
	if f.Strategy == capacity.Aggregated {
		minimum += ", in disaggregated pools: the formulas have no other"
	}
	row("minimum", "%s", minimum)
	if !f.HourlyUSD.Known() {
		row("cost", "%s", f.Price)
	} else {
		row("cost", "$%s an hour, $%s a day, $%s a month of 30 days, $%s a year (price: %s)", amount(f.HourlyUSD), amount(f.DailyUSD), amount(f.MonthlyUSD), amount(f.AnnualUSD), f.Price)
		row("per unit", "$%.4f per 1,000 requests, $%.4f per million output tokens", f.Per1kQueriesUSD, f.Per1MTokensUSD)
	}
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
