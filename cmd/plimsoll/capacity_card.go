package main

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"time"

	"plimsoll/capacity"
	"plimsoll/engine"
	"plimsoll/engine/catalog"
	"plimsoll/profile"
)

// mostLayouts is how many layouts a plan's card shows.
const mostLayouts = 8

func (out sizedPlans) card() card {
	best := out.Plans[0]
	c := card{
		head:  []string{marked(best.Provenance), out.modelWords(), out.loadWords()},
		facts: out.facts(), table: out.cardTable(), warnings: slices.Concat(out.Trace.notes(), best.Warnings), next: out.nextCommand(),
	}
	if best.candidate.defaults != "" {
		c.head = append(c.head, best.candidate.defaults)
	}
	if slices.ContainsFunc(out.Plans, func(p sizedPlan) bool { return p.Rough && p.Infeasible == nil }) {
		c.below = append(c.below, "≈: by short trials, exact to an engine or some percent")
	}
	c.below = append(c.below, starNote(out.Plans...)...)
	c.below = slices.Concat(c.below, out.holdUpWords(), whatIfLines(out.WhatIf))
	c.below = append(c.below, out.withoutRow()...)
	if n := len(out.LeftOut); n > 0 {
		c.below = append(c.below, fmt.Sprintf("%s not sized, for example %s: %s", engine.Count(n, "layout"), out.LeftOut[0].Label, shortened(out.LeftOut[0].Reason)))
	}
	return c
}

// modelWords are what the plan's engines run.
func (out sizedPlans) modelWords() string {
	if out.Inputs.Profile != "" {
		return "profile " + out.Inputs.Profile
	}
	if m, err := (catalog.Catalog{}).ModelOrFile(out.Inputs.Model); err == nil { // a config.json
		return shortModel(m.Name)
	}
	return shortModel(out.Inputs.Model)
}

// loadWords are the load that was planned for.
func (out sizedPlans) loadWords() string {
	w := out.Workload
	length := func(name string, mean, p99 float64) string {
		if p99 > mean {
			return fmt.Sprintf("%s %.0f (p99 %.0f)", name, mean, p99)
		}
		return fmt.Sprintf("%s %.0f", name, mean)
	}
	s := fmt.Sprintf("%s, %s", length("ISL", w.ISL, w.ISLP99), length("OSL", w.OSL, w.OSLP99))
	peak := "at the peak"
	if t := out.Trace; t != nil {
		peak = fmt.Sprintf("at the peak over %s, %s over the busiest second", short(w.PeakWindow), plain(t.Second))
		if t.words != "" {
			s += ", " + t.words
		}
	}
	if out.GPUCount > 0 {
		return s
	}
	return fmt.Sprintf("%s requests/s %s, %s", plain(w.Rate), peak, s)
}

// facts are the answer, and what it rests on.
func (out sizedPlans) facts() []detail {
	best := out.Plans[0]
	if f := best.Infeasible; f != nil {
		said := []detail{{"SLO", fmt.Sprintf("no number of engines holds %s: %s: %s", out.SLO, best.candidate.starred(), f.Why)}}
		if out.GPUCount > 0 {
			said[0].text = fmt.Sprintf("no rate holds %s on %s: %s", out.SLO, engine.Count(out.GPUCount, "GPU"), f.Why)
		}
		if f.TTFT > 0 { // else no request was served
			said = append(said, detail{"Promise", fmt.Sprintf("TTFT %.4g ms, ITL %.4g ms, end to end %.4g s", f.TTFT.Seconds()*1e3, f.ITL.Seconds()*1e3, f.E2EP99.Seconds())})
		}
		return said
	}
	all := []detail{{"Use", fmt.Sprintf("%d × %s: %s", best.TotalGPUsFinal, best.gpus(), best.fleetWords())}}
	if best.RPS > 0 {
		all = append(all, detail{"Carries", best.rateWords() + " with " + out.SLO.String()})
	} else {
		holds := fmt.Sprintf("%s, with TTFT %.4g ms and ITL %.4g ms", out.SLO, best.EstimatedTTFTMs, best.EstimatedITLMs)
		if best.Binding != capacity.OneEngine {
			holds += "; one engine fewer breaks " + best.Binding
		}
		all = append(all, detail{"Holds", holds})
	}
	all = append(all, detail{"Costs", best.costWords()})
	for _, d := range best.details() {
		if name := map[string]string{"chunk": "Chunk", "range": "Trust"}[d.name]; name != "" {
			all = append(all, detail{name, d.text})
		}
	}
	return all
}

// fleetWords are the engines of each pool: "4 × TP:4 prefill + 1 × TP:4 decode".
func (p sizedPlan) fleetWords() string {
	var pools []string
	for _, pool := range p.Pools {
		name := pool.Engine
		if len(p.Pools) == 1 {
			name = p.Layout // with its chunk
		}
		s := fmt.Sprintf("%d × %s %s", pool.Engines, name, pool.Role)
		if pool.SpareEngines > 0 {
			s += fmt.Sprintf(" and %d spare", pool.SpareEngines)
		}
		pools = append(pools, s)
	}
	return strings.Join(pools, " + ")
}

func (p sizedPlan) rateWords() string {
	if p.TraceScale > 0 {
		return fmt.Sprintf("%s requests/s on average, the trace at %.3g times its rate,", plain(p.RPS), p.TraceScale)
	}
	return plain(p.RPS) + " requests/s"
}

// costWords are what it costs, and by which prices.
func (p sizedPlan) costWords() string {
	switch {
	case p.HourlyUSD == 0:
		return "nothing: the GPUs are owned"
	case !p.HourlyUSD.Known():
		return "no price known: --cost-per-gpu-hour USD, or --prices FILE.csv"
	}
	return fmt.Sprintf("$%s/h, $%s per 1M output tokens%s   (%s)", amount(p.HourlyUSD), amount(p.Per1MTokensUSD), p.whole(), strings.Join(p.Prices, "; "))
}

func (out sizedPlans) cardTable() *table {
	head := []string{"layout", "GPU", "engines", "GPUs", "$/hour", out.SLO.Figure("TTFT"), out.SLO.Figure("ITL"), "what one engine fewer breaks"}
	if out.GPUCount > 0 {
		head[len(head)-1] = "what a higher rate breaks"
		head = slices.Insert(head, 4, "requests/s")
	}
	t := newTable(head...)
	rows, more := out.shown()
	for _, p := range rows {
		bound := ""
		if p.Rough {
			bound = "≈ "
		}
		row := []string{p.Layout, p.gpus(), bound + engineCounts(p.Plan), bound + p.gpuCount(), amount(p.HourlyUSD), fmt.Sprintf("%.1f", p.EstimatedTTFTMs), fmt.Sprintf("%.2f", p.EstimatedITLMs), p.Binding}
		if out.GPUCount > 0 {
			row[2], row[3] = engineCounts(p.Plan), p.gpuCount()
			row = slices.Insert(row, 4, bound+plain(p.RPS))
		}
		t.row(row...)
	}
	if more > 0 {
		t.row(append([]string{fmt.Sprintf("and %d more", more)}, make([]string, len(head)-1)...)...)
	}
	return t
}

// shown are the best layouts, among them one of each kind of GPU, and how many more there are.
func (out sizedPlans) shown() (rows []sizedPlan, more int) {
	kinds := map[string]bool{} // that have no row yet
	for _, p := range out.Plans {
		if p.Infeasible == nil {
			kinds[p.gpus()] = true
		}
	}
	for _, p := range out.Plans {
		switch {
		case p.Infeasible != nil:
		case kinds[p.gpus()], len(rows)+len(kinds) < mostLayouts:
			rows = append(rows, p)
			delete(kinds, p.gpus())
		default:
			more++
		}
	}
	return rows, more
}

// withoutRow says which kinds of GPU hold the SLO at no size, or at no rate.
func (out sizedPlans) withoutRow() (lines []string) {
	at := "size"
	if out.GPUCount > 0 {
		at = "rate"
	}
	for _, gpu := range out.gpus {
		of := func(p sizedPlan) bool { return p.candidate.has(gpu) }
		if len(out.gpus) < 2 || out.Plans[0].Infeasible != nil || slices.ContainsFunc(out.Plans, func(p sizedPlan) bool { return p.Infeasible == nil && of(p) }) {
			continue
		}
		i := slices.IndexFunc(out.Plans, of)
		line := fmt.Sprintf("%s holds the SLO at no %s", starred(gpu, i >= 0 && out.Plans[i].candidate.layout.FromDataSheet()), at)
		if i >= 0 {
			line += fmt.Sprintf(", nearest %s: %s", out.Plans[i].Layout, shortened(out.Plans[i].Infeasible.Why))
		} else if i := slices.IndexFunc(out.LeftOut, func(s profile.Skip) bool { return strings.HasSuffix(s.Label, " on "+gpu) }); i >= 0 {
			line += fmt.Sprintf(", for example %s: %s", out.LeftOut[i].Label, shortened(out.LeftOut[i].Reason))
		}
		lines = append(lines, line)
	}
	return lines
}

// gpuCount is its GPUs, and how many are billed where those are more.
func (p sizedPlan) gpuCount() string {
	if p.BilledGPUs > p.TotalGPUsFinal {
		return fmt.Sprintf("%d (%d billed)", p.TotalGPUsFinal, p.BilledGPUs)
	}
	return itoa(p.TotalGPUsFinal)
}

// nextCommand replays the plan's load with its kind of engines, scaled by the planner.
func (out sizedPlans) nextCommand() string {
	best := out.Plans[0]
	if best.Infeasible != nil {
		return ""
	}
	ms := func(d time.Duration) string { return fmt.Sprintf("%.6g", profile.Milliseconds(d)) }
	return fmt.Sprintf("plimsoll planner replay %s --mode %s --ttft %s --itl %s --sla-stat %s", out.flags(), best.Strategy, ms(out.SLO.TTFT), ms(out.SLO.ITL), out.SLO.SLA().Stat)
}

// flags are the model and the load as other commands take them.
func (out sizedPlans) flags() string {
	var words []string
	add := func(flag, value string) {
		if value != "" {
			words = append(words, "--"+flag+" "+value)
		}
	}
	if out.Inputs.Profile != "" {
		add("profile", out.Inputs.Profile)
	} else {
		add("model", out.Inputs.Model)
		add("gpu", strings.ToLower(strings.Join(planGPUs(out.Plans[0].Plan)[:1], "")))
		if n := out.Inputs.PerNode; n > 0 {
			add("gpus-per-node", itoa(n))
		}
		add("weights", string(out.Inputs.Weights))
		add("kv-dtype", string(out.Inputs.KV))
		if f := out.Inputs.MemoryFraction; f > 0 {
			add("memory-fraction", fmt.Sprint(f))
		}
		add("fit", out.Inputs.Fit)
		add("catalog", out.Inputs.Catalog)
	}
	w := out.Workload
	if t := out.Trace; t != nil {
		add("trace", t.File)
		add("time-unit", t.said)
		if t.Spread {
			words = append(words, "--spread-ticks")
		}
	} else {
		length := func(x float64) string { return fmt.Sprintf("%.0f", x) }
		add("rate", plain(w.Rate))
		add("isl", length(w.ISL))
		if w.ISLP99 > w.ISL {
			add("isl-p99", length(w.ISLP99))
		}
		add("osl", length(w.OSL))
		if w.OSLP99 > w.OSL {
			add("osl-p99", length(w.OSLP99))
		}
	}
	return strings.Join(words, " ")
}

// detailed is what --details prints of the best plan, of the layouts that hold nothing and
// of those that were not sized.
func (out sizedPlans) detailed() string {
	var b bytes.Buffer
	head(&b, out.Workload, out.SLO)
	fmt.Fprintf(&b, "Simulated: %s\n", out.Traffic)
	out.notSized(&b)
	if best := out.Plans[0]; best.Infeasible == nil {
		best.Warnings = nil // the card has them
		best.text(&b)
	}
	return b.String()
}

// holdUpWords say of a layout behind the best that its steps hold up others.
func (out sizedPlans) holdUpWords() []string {
	i := slices.IndexFunc(out.Plans, func(p sizedPlan) bool {
		return len(p.Warnings) > 0 && p.Warnings[len(p.Warnings)-1].Code == promptsHoldUp
	})
	if i <= 0 { // the first says all of its own
		return nil
	}
	w := out.Plans[i].Warnings
	return []string{w[len(w)-1].Message}
}
