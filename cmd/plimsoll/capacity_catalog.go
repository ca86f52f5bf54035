package main

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"plimsoll/capacity/prices"
	"plimsoll/engine"
	"plimsoll/engine/catalog"
	dep "plimsoll/engine/deployment"
	"plimsoll/engine/field"
	"plimsoll/engine/sim/build"
)

func capacityCatalogCommand() *cli.Command {
	return &cli.Command{
		Name: "catalog", Usage: "models, GPUs and prices that plans are made from, with their sources",
		Description: "Memory in GiB, bandwidth in GB/s, peaks in dense TFLOP/s, power in W, prices in USD per GPU and hour.\n" +
			"A dash is what a GPU does not have, or what no source says. Plans rank by the prices of AWS, Azure and GCP;\n" +
			"with --cloud by that cloud's.\n\n" +
			"   plimsoll capacity catalog\n" +
			"   plimsoll capacity catalog --prices ours.csv --format json",
		Flags:  stringFlags("", [][3]string{{"catalog", "", catalogUsage}, {"prices", "", "CSV `FILE` of further prices"}}),
		Action: showCatalog,
	}
}

// catalogFile is what a plan is made from.
type catalogFile struct {
	Models []catalog.Model `json:"models"`
	GPUs   []catalog.GPU   `json:"gpus"`
	Prices []prices.Price  `json:"prices"`
}

func showCatalog(c *cli.Context) error {
	p := &parser{c: c}
	cat, err := catalog.Load(p.name("catalog"))
	if err != nil {
		return err
	}
	out := catalogFile{cat.Models(), cat.GPUs(), readPrices(p).All()}
	if p.err != nil {
		return p.err
	}
	if c.String("format") == "json" {
		return printJSON(c.App.Writer, out)
	}
	var parts []string
	for _, p := range []struct {
		title string
		*table
	}{{"Models", modelRows(out.Models)}, {"GPUs", gpuRows(out.GPUs)}, {"Prices", priceRows(out.Prices)}} {
		parts = append(parts, fmt.Sprintf("%s: %d\n%s", p.title, len(p.rows), p.text("  ")))
	}
	return show(c.App.Writer, []byte(strings.Join(parts, "\n")))
}

func modelRows(ms []catalog.Model) *table {
	t := newTable("model", "parameters", "active", "layers", "attention", "experts", "context", "weights", "GB", "KV bytes/token", "source")
	for _, m := range ms {
		stored := dep.StorageOf("", "", m).Weights
		attention, experts := fmt.Sprintf("GQA %d/%d", m.QHeads, m.KVHeads), "–"
		if m.MLA() {
			attention = fmt.Sprintf("MLA %d", m.KVLoraRank)
		}
		if m.MoE() {
			experts = fmt.Sprintf("%d of %d", m.ExpertsPerToken, m.Experts)
		}
		t.row(m.Name, billions(m.Params), billions(m.ActiveParams), itoa(m.Layers), attention, experts, itoa(m.MaxContext),
			string(stored), fmt.Sprintf("%.1f", m.WeightBytes(stored)/1e9), fmt.Sprintf("%.0f", m.KVBytesPerToken(engine.BF16)), m.Source)
	}
	return t
}

func billions(n int64) string { return fmt.Sprintf("%.2f B", float64(n)/1e9) }

func gpuRows(gs []catalog.GPU) *table {
	t := newTable("GPU", "GiB", "GB/s", "bf16", "fp8", "fp4", "link GB/s", "a node", "between nodes", "W", "source", "notes")
	for _, g := range gs {
		t.row(g.Name, fmt.Sprintf("%.1f", float64(g.MemoryBytes)/(1<<30)), known(g.HBMBytesPerSec/1e9), known(g.BF16FLOPS/1e12), known(g.FP8FLOPS/1e12), known(g.FP4FLOPS/1e12),
			known(g.LinkBytesPerSec/1e9), itoa(cmp.Or(g.PerNode, catalog.UsualPerNode)), known(g.InterNodeBytesPerSec/1e9), known(float64(g.TDPWatts)), g.Source, g.Notes)
	}
	return t
}

// known is a figure, or a dash where there is none.
func known(x float64) string {
	if x == 0 {
		return "–"
	}
	return fmt.Sprintf("%.6g", x)
}

func priceRows(ps []prices.Price) *table {
	t := newTable("cloud", "region", "instance", "GPU", "GPUs", "kind", "$/GPU-hour", "date", "source")
	for _, p := range ps {
		t.row(p.Cloud, p.Region, p.Instance, p.GPU, itoa(p.GPUs), p.Kind.Words(), fmt.Sprintf("%.4g", p.USDPerGPUHour), p.Date.Format(time.DateOnly), p.Source)
	}
	return t
}

// catalogModel is the model of engines, and the catalog that it is from.
func catalogModel(f build.Options) (cat catalog.Catalog, m catalog.Model, err error) {
	if cat, err = catalog.Load(f.Catalog); err != nil {
		return cat, m, err
	}
	if m, err = cat.ModelOrFile(f.Model); err != nil {
		return cat, m, field.Errorf("--model: %w", err)
	}
	return cat, m, nil
}

// parseGPUs reads the GPUs to compare, and sees to it that the catalog has them
// and the model.
func parseGPUs(p *parser, f build.Options) []string {
	names := strings.Split(p.name("gpu"), ",")
	if p.err != nil || f.Profile != "" {
		return names
	}
	cat, _, err := catalogModel(f)
	if err != nil {
		p.err = err
		return names
	}
	found := map[string]string{}
	for i, name := range names {
		names[i] = strings.TrimSpace(name)
		g, err := cat.GPU(names[i])
		if err != nil {
			p.fail(field.Errorf("--gpu: %v", err))
			continue
		}
		if other, ok := found[g.Name]; ok {
			p.fail(field.Errorf("--gpu %q: %s and %s are the same GPU", p.name("gpu"), other, names[i]))
		}
		found[g.Name], names[i] = names[i], g.Name
	}
	return names
}
