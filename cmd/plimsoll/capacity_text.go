package main

import (
	"bytes"
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"plimsoll/capacity"
	"plimsoll/engine"
	"plimsoll/engine/sim/fleet"
)

func showPlans(c *cli.Context, out sizedPlans) error {
	return showCard(c, out.split(), out.card, out.detailed)
}

// split puts apart the layouts that hold the SLO at no size: of these there are
// no figures to sort by.
func (out sizedPlans) split() sizedPlans {
	plans := out.Plans
	out.Plans = []sizedPlan{}
	for _, p := range plans {
		if f := p.Infeasible; f != nil {
			l := p.candidate.layout
			out.Infeasible = append(out.Infeasible, infeasiblePlan{p.Strategy, p.Layout, l.Pools[0].GPU, l.FromDataSheet(), *f})
		} else {
			out.Plans = append(out.Plans, p)
		}
	}
	return out
}

// notSized are the layouts that hold the SLO at no size, and those left out.
func (out sizedPlans) notSized(b *bytes.Buffer) {
	for _, p := range out.Plans {
		if f := p.Infeasible; f != nil {
			fmt.Fprintf(b, "  %s: infeasible: %s", p.candidate.starred(), f.Why)
			if f.TTFT > 0 { // else no request was served
				fmt.Fprintf(b, "; what could be promised: TTFT %.4g ms, ITL %.4g ms, end to end %.4g s", f.TTFT.Seconds()*1e3, f.ITL.Seconds()*1e3, f.E2EP99.Seconds())
			}
			b.WriteString("\n")
		}
	}
	for _, s := range out.LeftOut {
		fmt.Fprintf(b, "  not sized: %s: %s\n", s.Label, s.Reason)
	}
}

func head(b *bytes.Buffer, w capacity.Workload, slo capacity.SLO) {
	fmt.Fprintf(b, "Workload: %s requests/s at the peak, %s on average (the peak in windows of %v); prompts %.0f tokens (p99 %.0f), outputs %.0f (p99 %.0f)\n",
		plain(w.Rate), plain(w.AverageRate()), w.PeakWindow, w.ISL, w.ISLP99, w.OSL, w.OSLP99)
	if p := w.Prefixes; p.Groups > 0 {
		fmt.Fprintf(b, "Prompts that begin alike: %.0f %% of them, in %s, by %s\n", 100*p.Share, engine.Count(p.Groups, "group"), engine.Count(p.Tokens, "token"))
	}
	fmt.Fprintf(b, "SLO: %s\n", slo)
}

// restsOn are the load, and where step times and prices are from.
func (p sizedPlan) restsOn(d demand) string {
	var b bytes.Buffer
	head(&b, d.workload, d.slo)
	fmt.Fprintf(&b, "Step times: %s\nPrices: %s\n", p.Source, strings.Join(p.Prices, "; "))
	return b.String()
}

// gpus are the pools' GPUs, each once, with a ✱ where times are from a data sheet.
func (p sizedPlan) gpus() string {
	names := ofPools(p.Plan, func(pool capacity.PoolPlan) string { return starred(pool.GPU, pool.FromDataSheet) })
	return cmp.Or(strings.Join(names, " and "), "GPU") // a profile may not know
}

func planGPUs(p capacity.Plan) []string {
	return ofPools(p, func(pool capacity.PoolPlan) string { return pool.GPU })
}

// ofPools are the words of a plan's pools, each once.
func ofPools(p capacity.Plan, of func(capacity.PoolPlan) string) []string {
	var words []string
	for _, pool := range p.Pools {
		words = append(words, of(pool))
	}
	return distinct(words)
}

// routing names each pool's rule.
func (p sizedPlan) routing() string {
	return strings.Join(ofPools(p.Plan, func(pool capacity.PoolPlan) string {
		rule := strings.ReplaceAll(string(pool.Router), "_", " ")
		if pool.Router == fleet.LeastLoaded {
			rule += " (a request without a token counts as four)"
		}
		return rule
	}), ", then ")
}

// whole says where more GPUs are paid for than the plan has.
func (p sizedPlan) whole() string {
	if p.BilledGPUs == p.TotalGPUsFinal {
		return ""
	}
	return fmt.Sprintf(", for the %d GPUs of whole instances", p.BilledGPUs)
}

// engineCounts are "3 + 6", with spares "3+1 + 6+2".
func engineCounts(p capacity.Plan) string {
	var parts []string
	for _, pool := range p.Pools {
		s := itoa(pool.Engines)
		if pool.SpareEngines > 0 {
			s += "+" + itoa(pool.SpareEngines)
		}
		parts = append(parts, s)
	}
	return strings.Join(parts, " and ")
}

// text is one plan at length.
func (p sizedPlan) text(b *bytes.Buffer) {
	best := "Cheapest"
	if !(p.HourlyUSD > 0) {
		best = "Fewest GPUs"
	}
	title := fmt.Sprintf("%s: %s, %s", best, engine.Count(p.TotalGPUsFinal, "GPU"), p.Layout)
	if p.RPS > 0 {
		title = "At that rate:"
	}
	fmt.Fprintf(b, "\n%s\n", title)
	t := newTable("pool", "engines", "spare", "GPUs", "busy", "KV use", "in flight", "waiting")
	for _, pool := range p.Pools {
		n := float64(pool.Engines)
		t.row(fmt.Sprintf("%s %s", pool.Engine, pool.Role), itoa(pool.Engines), itoa(pool.SpareEngines), itoa(pool.GPUs),
			fmt.Sprintf("%.0f %%", 100*pool.Utilisation), fmt.Sprintf("%.0f %%", 100*pool.KVUse), fmt.Sprintf("%.1f", pool.Running/n), fmt.Sprintf("%.2f", pool.Waiting/n))
	}
	b.WriteString(t.text("  "))
	fmt.Fprintf(b, "  busy, KV use, in flight and waiting are means over what was simulated; the last two per engine\n\n")
	for _, d := range p.details() {
		fmt.Fprintf(b, "  %-14s %s\n", d.name, d.text)
	}
	for _, warning := range p.Warnings {
		fmt.Fprintf(b, "  %-14s %s\n", "warning", warning.Message)
	}
}

// detail is a line of a plan at length.
type detail struct{ name, text string }

// details are what a plan does and costs, in words.
func (p sizedPlan) details() []detail {
	var out []detail
	row := func(name, format string, a ...any) { out = append(out, detail{name, fmt.Sprintf(format, a...)}) }
	if p.Chunk != nil {
		row("chunk", "%s", p.Chunk.words(p.EstimatedGapP99Ms))
	}
	row("routing", "%s: another may miss the SLO", p.routing())
	row("TTFT", "p50 %.1f ms, p99 %.1f ms", p.EstimatedTTFTP50Ms, p.EstimatedTTFTP99Ms)
	row("ITL", "p50 %.2f ms, p99 %.2f ms; p99 of single gaps between tokens %.2f ms", p.EstimatedITLP50Ms, p.EstimatedITLP99Ms, p.EstimatedGapP99Ms)
	row("end to end", "p50 %.2f s, p99 %.2f s", p.EstimatedE2EP50Ms/1e3, p.EstimatedE2EP99Ms/1e3)
	row("attainment", "%.2f %% (the least of those promised)", 100*p.Attainment)
	if p.Availability > 0 {
		row("availability", "%.5f that all engines needed are up", p.Availability)
	}
	if r := p.RateRange; r != nil {
		row("range", "%s requests/s if %s slower than the model; %s if as much faster (nine of ten comparisons were within)", plain(r.Low), r.Factors.Words(), plain(r.High))
	} else if p.Range.Factors.Known() {
		row("range", "%s", p.Range.Words())
	} else {
		row("range", "none: %s step times have no model error, and their own error was not measured", p.Provenance)
	}
	if p.HourlyUSD == 0 {
		row("cost", "%s, owned", engine.Count(p.TotalGPUsFinal, "GPU"))
	} else if p.HourlyUSD.Known() {
		row("cost", "$%s an hour, $%s a day, $%s a month of 30 days, $%s a year%s", amount(p.HourlyUSD), amount(p.DailyUSD), amount(p.MonthlyUSD), amount(p.AnnualUSD), p.whole())
		row("per unit", "$%.4f per 1,000 requests and $%.4f per million output tokens at the peak; $%.4f and $%.4f on average", p.Per1kQueriesUSD, p.Per1MTokensUSD, p.Average.Per1kQueriesUSD, p.Average.Per1MTokensUSD)
	}
	lens := ofPools(p.Plan, func(pool capacity.PoolPlan) string { return itoa(pool.MaxModelLen) })
	row("max-model-len", "%s tokens of prompt and output together", strings.Join(lens, " and "))
	if kv := p.candidate.kv; kv.Bytes() < engine.BF16.Bytes() {
		row("KV cache", "in %s: %s", kv, flagWords(kvFlags(kv)))
	}
	row("step times", "%s", p.Source)
	row("prices", "%s", strings.Join(p.Prices, "; "))
	var others []string
	for _, o := range p.Others {
		others = append(others, fmt.Sprintf("%s %s from $%s (%s, %s)", o.GPU, o.Kind.Words(), amount(o.USDPerGPUHour), o.Cloud, o.Date.Format(time.DateOnly)))
	}
	if len(others) > 0 {
		row("other prices", "%s a GPU-hour; this plan is not ranked by them", strings.Join(others, ", "))
	}
	return out
}
