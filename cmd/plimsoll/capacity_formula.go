package main

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

	"plimsoll/capacity"
	"plimsoll/engine"
	"plimsoll/engine/catalog"
	dep "plimsoll/engine/deployment"
	"plimsoll/engine/field"
	"plimsoll/profile"
)

// formulaPlan is a plan by the closed formulas with what they get wrong.
type formulaPlan struct {
	Workload   capacity.Workload   `json:"workload"`
	SLO        capacity.SLO        `json:"slo"`
	Trace      *measuredTrace      `json:"trace,omitempty"`
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
	p.needs(false, "with --method sized", "parallelism", "max-gpus-per-engine", "max-num-batched-tokens", "max-model-len", "fit", "profile", "mixed-gpus", "spot-decode", "kv-dram")
	p.needs(o.given != nil, "with tokens/s in --throughput: a published row has its own GPU, size and price",
		"gpu", "tp", "max-num-seqs", "cloud", "spot", "prices")
	if len(o.gpus) > 1 || len(o.asked) > 1 {
		p.fail(field.Errorf("--method formula plans for one kind of engine: --gpu and --tp take one word each"))
	}
}

// givenThroughput are the tokens/s of an engine in prefill and in decode.
type givenThroughput struct{ prefill, decode float64 }

// throughput reads published, which is nil, or the tokens/s of an engine.
func (p *parser) throughput() *givenThroughput {
	word := p.name("throughput")
	if word == "published" {
		return nil
	}
	prefill, decode, _ := strings.Cut(word, ",")
	a, errA := strconv.ParseFloat(prefill, 64)
	b, errB := strconv.ParseFloat(decode, 64)
	if errA != nil || errB != nil || !(min(a, b) >= 1 && max(a, b) <= 1e9) {
		p.fail(field.Errorf("--throughput %q: want published, or an engine's tokens/s in prefill and in decode, such as 50000,8000", word))
	}
	return &givenThroughput{a, b}
}

func (o capacityOptions) planByFormula(c *cli.Context) error {
	p := &parser{c: c}
	if o.checkFormula(p); p.err != nil {
		return p.err
	}
	f, err := o.byFormula()
	if err != nil {
		return err
	}
	plans := o.newPlans(sizedPlan{Plan: f.plan(), Prices: []string{f.Price}})
	return showCard(c, f, func() card { return f.card(plans) }, f.detailed)
}

func (o capacityOptions) byFormula() (formulaPlan, error) {
	out := formulaPlan{Workload: o.workload, SLO: o.slo, Trace: o.trace}
	cat, m, err := catalogModel(o.fleet)
	if err != nil {
		return out, err
	}
	if o.given != nil {
		g, err := cat.GPU(o.gpus[0])
		if err != nil {
			return out, field.Errorf("--gpu: %v", err)
		}
		g.PerNode = cmp.Or(o.fleet.PerNode, g.PerNode)
		out.Throughput = o.givenEngine(m, g)
		return o.apply(out, m, o.money.of(g.Name, out.Throughput.TP))
	}
	price := offer{usd: capacity.PublishedUSDPerGPUHr, from: "published"}
	if out.Throughput, err = publishedThroughput(m, "--throughput PREFILL,DECODE gives the tokens/s of an engine"); err != nil {
		return out, err
	}
	if given, ok := o.money.given(out.Throughput.GPU); ok {
		price = given
	}
	return o.apply(out, m, price)
}

// givenEngine is an engine that does what was given, with as many sequences at once
// as the ITL lets it have.
func (o capacityOptions) givenEngine(m catalog.Model, g catalog.GPU) capacity.Throughput {
	layout := engine.TP(1)
	if o.asked != nil {
		layout = o.asked[0]
	}
	return capacity.Throughput{
		Name: fmt.Sprintf("%s on %s, as given", m.Name, engineOn(g, layout)), Model: m.Name, GPU: g.Name, TP: layout.GPUs(),
		PrefillTPS: o.given.prefill, DecodeTPS: o.given.decode,
		MaxBatch:        cmp.Or(o.fleet.Limits.MaxNumSeqs, max(1, int(o.given.decode*o.slo.ITL.Seconds()))),
		KVBytesPerToken: int64(m.KVBytesPerToken(cmp.Or(o.fleet.KV, m.KV))), GPUMemoryBytes: g.MemoryBytes, Provenance: profile.Given,
	}
}

// apply plans with a throughput and a price.
func (o capacityOptions) apply(out formulaPlan, m catalog.Model, price offer) (formulaPlan, error) {
	var err error
	out.Price = price.from
	options := capacity.Options{Strategy: o.strategy, UtilizationTarget: o.utilization, USDPerGPUHour: price.usd}
	if out.FormulaPlan, err = capacity.Formula(o.workload, o.slo, out.Throughput, options); err != nil {
		return out, field.Errorf("%v", err)
	}
	if o.caches.reuse {
		out.Warnings = append(out.Warnings, profile.Warnf("prefixes_ignored", "the formulas compute every prompt in full and ignore shared prefixes. Use --method sized to simulate their reuse"))
	}
	out.Warnings = append(out.Warnings, spotWarnings(o.spotDecode, o.money.kind)...)
	if out.Minimum, err = capacity.Minimum(o.workload, o.slo, out.Throughput, options); err != nil {
		return out, field.Errorf("%v", err)
	}
	if o.strategy == capacity.Auto {
		out.Compared = o.compared(out.Throughput, options)
	}
	stored := dep.StorageOf(o.fleet.Weights, o.fleet.KV, m)
	out.Corrections = capacity.Misleads(o.workload, o.slo, out.Throughput, options, out.FormulaPlan, capacity.Facts{
		Model: m, Weights: stored.Weights, KV: stored.KV, ReplicaAvailability: o.failures.ReplicaAvailability,
		GroupsPerDomain: o.failures.DomainGPUs / out.Throughput.TP,
	})
	return out, nil
}

// compared are both strategies' GPUs, of which auto takes the fewer.
func (d demand) compared(t capacity.Throughput, options capacity.Options) []strategyGPUs {
	var out []strategyGPUs
	for _, s := range strategiesOf(capacity.Auto) {
		options.Strategy = s
		if p, err := capacity.Formula(d.workload, d.slo, t, options); err == nil {
			out = append(out, strategyGPUs{s, p.TotalGPUsFinal})
		}
	}
	return out
}

func publishedThroughput(m catalog.Model, otherwise string) (capacity.Throughput, error) {
	var names []string
	for _, t := range capacity.PublishedThroughputs() {
		if t.Model == m.Name {
			return t, nil
		}
		names = append(names, t.Model)
	}
	return capacity.Throughput{}, field.Errorf("--throughput published has no row for %s: want %s", m.Name, orList(names)).Hint("%s", otherwise)
}

func (f formulaPlan) card(plans sizedPlans) card {
	p, t := plans.Plans[0], f.Throughput
	p.BilledGPUs = p.TotalGPUsFinal
	engines, binds := fmt.Sprintf("%d aggregated", f.Groups), f.Binding
	if f.Strategy == capacity.Disaggregated {
		engines = fmt.Sprintf("%d prefill + %d decode", f.PrefillGroups, f.DecodeGroups)
		binds += fmt.Sprintf("; by formula TTFT p99 is %.2f ms, ITL p99 %.2f ms", f.EstimatedTTFTP99Ms, f.EstimatedITLP99Ms)
	}
	minimum := engine.Count(f.Minimum.TotalGPUs, "GPU")
	if f.Minimum.Per1kQueriesUSD.Known() {
		minimum += fmt.Sprintf(" ($%s per 1,000 requests)", perUnit(f.Minimum.Per1kQueriesUSD))
	}
	if f.Strategy == capacity.Aggregated {
		minimum += ", in disaggregated pools: the formulas have no other"
	}
	c := card{
		head: []string{marked(t.Provenance), plans.modelWords(), plans.loadWords()},
		facts: []detail{
			{"Use", fmt.Sprintf("%d × %s: %s, of %s each: %d; with burst headroom of %.2f: %d; with %d for redundancy: %d", f.TotalGPUsFinal, t.GPU, engines, engine.Count(t.TP, "GPU"), f.TotalGPUs, f.BurstHeadroomFactor, f.TotalGPUsWithBurst, f.RedundancyGPUs, f.TotalGPUsFinal)},
			{"Binds", binds},
			{"Costs", p.costWords()},
			{"Minimum", minimum},
			{"Engine", fmt.Sprintf("%s: prefill %.0f, decode %.0f tokens/s", t.Name, t.PrefillTPS, t.DecodeTPS)},
		},
		table: newTable("where the formulas mislead", "formula", "right", "unit"), warnings: slices.Concat(f.Trace.notes(), f.Warnings),
		next: fmt.Sprintf("plimsoll capacity plan %s --ttft-p99 %g --itl-p99 %g", plans.flags(), profile.Milliseconds(f.SLO.TTFT), profile.Milliseconds(f.SLO.ITL)),
	}
	if len(f.Compared) > 1 {
		a, b := f.Compared[0], f.Compared[1]
		c.facts = append(c.facts, detail{"Auto", fmt.Sprintf("%s %s, %s %d: fewer GPUs win, ties go to the first; latencies are not compared, as aggregated engines have no formula for them", a.Strategy, engine.Count(a.GPUs, "GPU"), b.Strategy, b.GPUs)})
	}
	for _, x := range f.Corrections {
		c.table.row(x.Field, fmt.Sprintf("%.6g", x.Formula), fmt.Sprintf("%.6g", x.Right), x.Unit)
	}
	return c
}

func (f formulaPlan) detailed() string {
	var b bytes.Buffer
	head(&b, f.Workload, f.SLO)
	if f.HourlyUSD.Known() {
		fmt.Fprintf(&b, "Costs: $%s a day, $%s a month of 30 days, $%s a year; $%s per 1,000 requests\n", amount(f.DailyUSD), amount(f.MonthlyUSD), amount(f.AnnualUSD), perUnit(f.Per1kQueriesUSD))
	}
	for _, c := range f.Corrections {
		fmt.Fprintf(&b, "  %s (%s): %s\n", c.Field, c.Unit, c.Why)
	}
	return b.String()
}
