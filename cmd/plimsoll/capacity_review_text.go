package main

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"plimsoll/capacity"
	"plimsoll/engine"
	"plimsoll/profile"
)

// reviewFile is the result as --format json prints it.
type reviewFile struct {
	Plan       string             `json:"plan"`
	Provenance profile.Provenance `json:"provenance"` // of the size; the traffic is measured
	Answer     string             `json:"answer"`
	Planned    capacity.Workload  `json:"planned"`
	Measured   capacity.Workload  `json:"measured"`
	SLO        capacity.SLO       `json:"slo"`
	Figures    []reviewFigure     `json:"figures"`
	Resized    sizedPlan          `json:"resized"`
	Source     string             `json:"source,omitempty"` // of the traffic; none of a trace
	Warnings   []profile.Warning  `json:"warnings,omitempty"`
}

// reviewFigure is what was planned and what came, or what that takes; null is not known.
type reviewFigure struct {
	Name     string   `json:"name"`
	Unit     string   `json:"unit"`
	Planned  *float64 `json:"planned"`
	Measured *float64 `json:"measured"`
	Change   *float64 `json:"change"`            // measured over planned, less 1
	Assumed  string   `json:"assumed,omitempty"` // how Measured is filled in where it is not known
}

func (r *review) report() reviewFile {
	return reviewFile{
		Plan: r.file, Provenance: profile.Weakest(profile.Simulated, r.resized.Provenance), Answer: r.answer(),
		Planned: r.plans.Workload, Measured: r.workload, SLO: r.slo, Figures: r.figures(), Resized: r.resized, Source: r.source,
		Warnings: profile.ImplausibleFirst(slices.Concat(r.trace.notes(), r.warnings, profile.Implausible(r.resized.Warnings))),
	}
}

// answer is what to change.
func (r *review) answer() string {
	p, n := r.plan, r.resized
	if n.Infeasible != nil {
		return "no number of these engines holds the SLO under this traffic: " + n.Infeasible.Why
	}
	line := r.gpus()
	if now, planned := n.Pools[0].MaxModelLen, p.Pools[0].MaxModelLen; r.assumed["max-model-len"] == "" && planned > 0 && now > planned {
		line += fmt.Sprintf("; the engines need --max-model-len %d, as requests exceed the planned %d tokens", now, planned)
	}
	return line
}

// gpus is how many GPUs to have instead of those planned.
func (r *review) gpus() string {
	p, n := r.plan, r.resized
	if n.TotalGPUsFinal == p.TotalGPUsFinal && engineCounts(n.Plan) == engineCounts(p.Plan) {
		return fmt.Sprintf("the fleet stays: GPUs for this traffic are the same %d", p.TotalGPUsFinal)
	}
	line := fmt.Sprintf("GPUs for this traffic: %d (engines: %s) instead of %d (%s)", n.TotalGPUsFinal, engineCounts(n.Plan), p.TotalGPUsFinal, engineCounts(p.Plan))
	if n.HourlyUSD > 0 && p.HourlyUSD > 0 {
		line += fmt.Sprintf(": $%s an hour instead of $%s", amount(n.HourlyUSD), amount(p.HourlyUSD))
	}
	return line
}

func (r *review) figures() []reviewFigure {
	w, m := r.plans.Workload, r.workload
	planned := w.Rate
	if w.PeakWindow != m.PeakWindow {
		planned = math.NaN()
	}
	fs := []reviewFigure{
		figure("mean rate", "requests/s", w.AverageRate(), r.rate),
		figure("peak in windows of "+short(m.PeakWindow), "requests/s", planned, m.Rate),
		figure("ISL, mean", "tokens", w.ISL, m.ISL), figure("ISL, p99", "tokens", w.ISLP99, m.ISLP99),
		figure("OSL, mean", "tokens", w.OSL, m.OSL), figure("OSL, p99", "tokens", w.OSLP99, m.OSLP99),
	}
	if m.Prefixes.Groups > 0 {
		fs = append(fs, figure("prompts begin alike by", "tokens", float64(w.Prefixes.Tokens), float64(m.Prefixes.Tokens)))
	}
	if p, n := r.plan, r.resized; n.Infeasible == nil {
		fs = append(fs, figure("max-model-len", "tokens", float64(p.Pools[0].MaxModelLen), float64(n.Pools[0].MaxModelLen)))
		for i, pool := range p.Pools {
			fs = append(fs, figure(string(pool.Role)+" engines", "", float64(pool.Engines+pool.SpareEngines), float64(n.Pools[i].Engines+n.Pools[i].SpareEngines)))
		}
		fs = append(fs, figure("GPUs", "", float64(p.TotalGPUsFinal), float64(n.TotalGPUsFinal)), figure("cost", "USD/hour", float64(p.HourlyUSD), float64(n.HourlyUSD)))
	}
	for i := range fs {
		fs[i].Assumed = r.assumed[fs[i].Name]
	}
	return fs
}

func figure(name, unit string, planned, measured float64) reviewFigure {
	return reviewFigure{Name: name, Unit: unit, Planned: orNull(planned), Measured: orNull(measured), Change: orNull(measured/planned - 1)}
}

// orNull is x, or nil where it is no number.
func orNull(x float64) *float64 {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return nil
	}
	return &x
}

// said is a figure to four digits, "–" where it is not known.
func said(x *float64) string {
	switch {
	case x == nil:
		return "–"
	case *x >= 1000:
		return fmt.Sprintf("%.0f", *x)
	}
	return fmt.Sprintf("%.4g", *x)
}

func (r *review) card(f reviewFile) card {
	plans := r.options().newPlans(r.resized)
	t := newTable("figure", "unit", "planned", "measured", "change")
	for _, g := range f.Figures {
		change := "–"
		if g.Assumed != "" {
			change = g.Assumed
		} else if g.Change != nil {
			change = fmt.Sprintf("%+.0f %%", 100**g.Change)
		}
		t.row(g.Name, g.Unit, said(g.Planned), said(g.Measured), change)
	}
	return card{
		head: []string{marked(f.Provenance), plans.modelWords(), "measured: " + plans.loadWords()},
		facts: []detail{
			{"Answer", f.Answer},
			{"Plan", fmt.Sprintf("%s: %s, %s on %s", f.Plan, engine.Count(r.plan.TotalGPUsFinal, "GPU"), r.plan.Layout, r.plan.gpus())},
			{"Traffic", cmp.Or(f.Source, r.demand.file)},
		},
		table: t, below: starNote(r.resized), warnings: profile.JoinWarnings(f.Warnings, r.resized.Warnings), next: plans.nextCommand(),
	}
}
