package main

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"plimsoll/capacity"
	"plimsoll/engine"
	"plimsoll/profile"
	"plimsoll/profile/trace"
)

// reviewFile is the result as --format json prints it.
type reviewFile struct {
	Plan       string             `json:"plan"`
	Provenance profile.Provenance `json:"provenance"` // of latencies and sizes; the traffic is measured
	Planned    capacity.Workload  `json:"planned"`
	Measured   capacity.Workload  `json:"measured"`
	SLO        capacity.SLO       `json:"slo"`
	Figures    []reviewFigure     `json:"figures"`
	Fleet      reviewFleet        `json:"planned_fleet"`
	Resized    sizedPlan          `json:"resized"`
	Changes    []string           `json:"changes"`

	Source    *reviewSource     `json:"source,omitempty"`    // of the traffic; none of a trace
	Latencies []reviewLatency   `json:"latencies,omitempty"` // that were measured with it
	Warnings  []profile.Warning `json:"warnings,omitempty"`  // of the traffic
}

// reviewFigure is what was planned and what came; NaN is not known.
type reviewFigure struct {
	Name     string   `json:"name"`
	Unit     string   `json:"unit"`
	Planned  *float64 `json:"planned"` // null: the plan does not say
	Measured *float64 `json:"measured"`
	Between  *bounds  `json:"measured_between,omitempty"` // of the histogram bucket that it is in
}

// reviewFleet is what the planned fleet would have done with the traffic.
type reviewFleet struct {
	GPUs       int     `json:"gpus"` // spares included
	Attainment float64 `json:"attainment"`
	TTFT       float64 `json:"ttft_attainment"`
	ITL        float64 `json:"itl_attainment"`
	E2E        float64 `json:"e2e_attainment"`
	HoldsSLO   bool    `json:"holds_slo"`
}

// noteworthy is the relative change of a figure that is worth a word.
const noteworthy = 0.1

func (r *review) show(c *cli.Context) error {
	f := r.report()
	if c.String("format") == "json" {
		return printJSON(c.App.Writer, f)
	}
	var b bytes.Buffer
	f.text(&b)
	return show(c, b)
}

func (r *review) report() reviewFile {
	f := reviewFile{
		Plan: r.file, Provenance: r.provenance(), Planned: r.plans.Workload, Measured: r.workload, SLO: r.slo, Figures: r.figures(),
		Fleet: reviewFleet{
			GPUs: r.plan.TotalGPUsFinal, Attainment: r.run.Attainment(), TTFT: r.run.TTFT.Share(), ITL: r.run.ITL.Share(), E2E: r.run.E2E.Share(),
			HoldsSLO: r.run.Attainment() >= 0.99,
		},
		Resized: r.resized,
	}
	if r.seen != nil {
		f.Source, f.Latencies, f.Warnings = r.seen.source(), r.seen.latencies, r.seen.warnings()
	}
	f.Warnings = profile.ImplausibleFirst(slices.Concat(f.Warnings, r.warnings, profile.Implausible(r.resized.Warnings)))
	f.Changes = r.changes(f)
	return f
}

func (r *review) figures() []reviewFigure {
	w, m := r.plans.Workload, r.workload
	fs := []reviewFigure{
		figure("mean rate", "requests/s", w.AverageQPS(), r.came.rate),
	}
	for _, p := range r.came.peaks {
		planned := math.NaN()
		if p.window == w.PeakWindow {
			planned = w.PeakQPS
		}
		fs = append(fs, figure("peak in windows of "+short(p.window), "requests/s", planned, p.rate))
	}
	hours, err := w.Pattern.Hours()
	planned := math.NaN()
	if err == nil {
		planned = hoursMost(hours)
	}
	fs = append(fs,
		figure("busiest hour over the mean ("+string(w.Pattern)+")", "", planned, r.came.busiestHour),
		figure("ISL, mean", "tokens", w.AvgISL, m.AvgISL), figure("ISL, p99", "tokens", w.P99ISL, m.P99ISL),
		figure("OSL, mean", "tokens", w.AvgOSL, m.AvgOSL), figure("OSL, p99", "tokens", w.P99OSL, m.P99OSL),
	)
	if r.seen != nil {
		n := len(fs)
		fs[n-3].Between, fs[n-1].Between = boundsOf(r.seen.traffic.ISL.P99), boundsOf(r.seen.traffic.OSL.P99)
	}
	return fs
}

func figure(name, unit string, planned, measured float64) reviewFigure {
	return reviewFigure{Name: name, Unit: unit, Planned: orNull(planned), Measured: orNull(measured)}
}

// orNull is x, or nil where it is no number.
func orNull(x float64) *float64 {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return nil
	}
	return &x
}

// busiestHour is the most that one hour of the trace has over the mean; NaN of a
// trace shorter than a day.
func (r *review) busiestHour() float64 {
	if r.stats.Duration < 23*time.Hour {
		return math.NaN()
	}
	s, err := trace.Summarize(trace.Of(r.arrivals...), time.Hour)
	if err != nil {
		return math.NaN()
	}
	return s.Peaks[0].Ratio
}

// change is measured over planned less 1; NaN where one of them is not known, and
// where the plan's lies between the bounds that are known of the measured one.
func (f reviewFigure) change() float64 {
	if f.Planned == nil || f.Measured == nil || *f.Planned == 0 {
		return math.NaN()
	}
	if b := f.Between; b != nil && *f.Planned >= b.Low && (b.High == nil || *f.Planned <= *b.High) {
		return math.NaN()
	}
	return *f.Measured / *f.Planned - 1
}

// changes are what to change, and why.
func (r *review) changes(f reviewFile) []string {
	var out []string
	for _, g := range f.Figures {
		if c := g.change(); math.Abs(c) >= noteworthy {
			out = append(out, fmt.Sprintf("%s is %s, %s than the %.4g planned", g.Name, within(g.Measured, g.Between), moreOrLess(c), *g.Planned))
		}
	}
	out = append(out, r.latencyChanges()...)
	switch p, n := r.plan, r.resized; {
	case n.Infeasible != nil:
		out = append(out, "no number of these engines holds the SLO under this traffic: "+n.Infeasible.Why)
	case n.TotalGPUsFinal == p.TotalGPUsFinal && engineCounts(n.Plan) == engineCounts(p.Plan):
		out = append(out, fmt.Sprintf("the fleet stays: GPUs for this traffic are the same %d", p.TotalGPUsFinal))
	default:
		line := fmt.Sprintf("GPUs for this traffic: %d (engines: %s) instead of %d (%s)", n.TotalGPUsFinal, engineCounts(n.Plan), p.TotalGPUsFinal, engineCounts(p.Plan))
		if n.HourlyUSD.Known() && p.HourlyUSD.Known() {
			line += fmt.Sprintf(": $%s an hour instead of $%s", amount(n.HourlyUSD), amount(p.HourlyUSD))
		}
		out = append(out, line)
		if r.seen.slower() && n.TotalGPUsFinal < p.TotalGPUsFinal {
			out = append(out, "keep the GPUs until a profile describes this fleet: it is slower than the engines that were sized")
		}
	}
	return out
}

func moreOrLess(change float64) string {
	if change > 0 {
		return fmt.Sprintf("%.0f %% more", 100*change)
	}
	return fmt.Sprintf("%.0f %% less", -100*change)
}

func (f reviewFile) text(b *bytes.Buffer) {
	f.heading(b)
	fmt.Fprintf(b, "Plan %s: %s, %s on %s\n\n", f.Plan, engine.Count(f.Fleet.GPUs, "GPU"), f.Resized.Layout, f.gpu())
	t := newTable("figure", "unit", "planned", "measured", "change")
	for _, g := range f.Figures {
		change := "–"
		if c := g.change(); !math.IsNaN(c) {
			change = fmt.Sprintf("%+.0f %%", 100*c)
		}
		t.row(g.Name, g.Unit, within(g.Planned, nil), within(g.Measured, g.Between), change)
	}
	b.WriteString(t.text("  "))
	holds := "does not hold"
	if f.Fleet.HoldsSLO {
		holds = "holds"
	}
	fmt.Fprintf(b, "\nThe planned fleet, without spares, %s the SLO under this traffic: TTFT kept by %s of requests, ITL by %s of %s", holds, percent(f.Fleet.TTFT), percent(f.Fleet.ITL), f.SLO.ITLOf.Words())
	if f.SLO.E2EP99 > 0 {
		fmt.Fprintf(b, ", end to end by %s", percent(f.Fleet.E2E))
	}
	b.WriteString("\n")
	f.latencyText(b)
	f.warningText(b)
	b.WriteString("\nWhat to change:\n")
	for _, c := range f.Changes {
		fmt.Fprintf(b, "  %s\n", c)
	}
}

// heading says what the figures are worth.
func (f reviewFile) heading(b *bytes.Buffer) {
	implausibleLines(b, f.Warnings)
	fmt.Fprintf(b, "Traffic measured; latencies and sizes %s, not measured on a GPU\n", strings.ToUpper(f.Provenance.String()))
	if f.Source != nil {
		b.WriteString(f.Source.text())
	}
}

// gpu is the kind of the plan's GPUs.
func (f reviewFile) gpu() string {
	if len(f.Resized.Pools) == 0 {
		return "its GPUs"
	}
	return f.Resized.Pools[0].GPU
}
