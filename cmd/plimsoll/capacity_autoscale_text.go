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
	"plimsoll/capacity/autoscale"
	"plimsoll/engine"
	"plimsoll/planner/policy"
	"plimsoll/profile"
)

// autoscaledDay is a static fleet and autoscaled ones on the same requests. Of
// traffic that is cut into cells, all figures but the shares are one cell's.
type autoscaledDay struct {
	options    autoscaleOptions
	candidate  candidate
	replicas   []int // of the static fleet
	rules      []policy.Simple
	static     autoscale.Result
	autoscaled []autoscale.Result // one for each start-up time
	provenance profile.Provenance
}

// autoscaleFile is the result as --format json prints it.
type autoscaleFile struct {
	Provenance profile.Provenance `json:"provenance"`
	Workload   capacity.Workload  `json:"workload"`
	SLO        capacity.SLO       `json:"slo"`
	Traffic    string             `json:"traffic"`
	Layout     string             `json:"layout"`
	GPUs       []string           `json:"gpus"` // kinds, by pool
	Source     string             `json:"source"`
	Prices     []string           `json:"prices"`
	Hours      float64            `json:"hours"`
	Cells      int                `json:"cells"`
	Rules      []ruleFile         `json:"rules"`
	Static     fleetRun           `json:"static"`
	Autoscaled []fleetRun         `json:"autoscaled"`
	Claim      string             `json:"claim"`
	Warnings   []profile.Warning  `json:"warnings"`
	Series     []dayBin           `json:"series"`
}

// ruleFile is what a pool's rule may do.
type ruleFile struct {
	Pool     string  `json:"pool"`
	Every    float64 `json:"interval_seconds"`
	Cooldown float64 `json:"cooldown_seconds"`
	Min      int     `json:"min_gpus"`
	Max      int     `json:"max_gpus"`
	Full     string  `json:"utilisation"`
}

// fleetRun is one fleet's day.
type fleetRun struct {
	StartUp    *float64     `json:"start_up_seconds,omitempty"` // none of the static fleet
	GPUHours   float64      `json:"gpu_hours"`
	Saved      float64      `json:"gpu_hours_saved"` // share of the static fleet's
	USD        capacity.USD `json:"cost_usd"`
	SavedUSD   capacity.USD `json:"cost_saved_usd"`
	Least      int          `json:"least_gpus"`
	Most       int          `json:"most_gpus"`
	Changes    int          `json:"changes"`
	Attainment float64      `json:"attainment"` // the least of those below
	HoldsSLO   bool         `json:"holds_slo"`
	TTFT       float64      `json:"ttft_attainment"`
	ITL        float64      `json:"itl_attainment"`
	E2E        float64      `json:"e2e_attainment"`
	Requests   int64        `json:"requests"`
	result     autoscale.Result
}

// claim is what the rule is said to save.
// Source: an article on capacity planning for disaggregated serving, as read in 2026.
const claim = "30–45 % fewer GPU-hours"

func (d autoscaledDay) show(c *cli.Context) error {
	if c.String("format") == "json" {
		return printJSON(c.App.Writer, d.file())
	}
	var b bytes.Buffer
	d.text(&b)
	return show(c, b)
}

func (d autoscaledDay) file() autoscaleFile {
	o := d.options
	f := autoscaleFile{
		Provenance: d.provenance, Workload: d.workload(), SLO: o.slo, Traffic: d.traffic(), Layout: d.candidate.layout.Name(),
		Source: d.candidate.source, Prices: d.candidate.prices, Hours: d.hours(), Cells: o.cells,
		Static: d.fleetRun(d.static, nil), Claim: claim, Warnings: slices.Concat(d.candidate.warnings, d.options.workload.Warnings()), Series: d.series(),
	}
	for i, p := range d.candidate.layout.Pools {
		f.GPUs = append(f.GPUs, p.GPU)
		r := d.rules[i]
		f.Rules = append(f.Rules, ruleFile{
			Pool: string(p.Engine.Role), Every: ruleEvery.Seconds(), Cooldown: r.Cooldown.Seconds(),
			Min: o.cells * r.MinGPUs, Max: o.cells * r.MaxGPUs, Full: utilisationWords(len(d.rules) > 1 && i == 0),
		})
	}
	for i, r := range d.autoscaled {
		f.Autoscaled = append(f.Autoscaled, d.fleetRun(r, &o.startUps[i]))
	}
	return f
}

func utilisationWords(prefill bool) string {
	if prefill {
		return "share of the time spent in steps"
	}
	return "requests held over those that an engine of the static fleet holds at the peak"
}

// workload is the whole one, of all cells.
func (d autoscaledDay) workload() capacity.Workload {
	w := d.options.workload
	w.PeakQPS *= float64(d.options.cells)
	return w
}

func (d autoscaledDay) hours() float64 {
	if n := len(d.static.Looks); n > 0 {
		return d.static.Looks[n-1].To.Hours()
	}
	return 0
}

func (d autoscaledDay) traffic() string {
	if d.options.arrivals != nil {
		return fmt.Sprintf("the trace's %s in %.4g hours", engine.Count(d.static.Requests, "request"), d.hours())
	}
	words := fmt.Sprintf("a day of %s from midnight, %s, Poisson at each hour's rate", d.options.workload.Pattern, engine.Count(d.static.Requests, "request"))
	if d.options.cells > 1 {
		words += fmt.Sprintf(", in one of %d equal cells with a router and rules of its own; GPUs and money are times %d", d.options.cells, d.options.cells)
	}
	return words
}

func (d autoscaledDay) fleetRun(r autoscale.Result, startUp *time.Duration) fleetRun {
	cells := float64(d.options.cells)
	f := fleetRun{
		GPUHours: cells * r.GPUHours, Saved: 1 - r.GPUHours/d.static.GPUHours, USD: d.usd(r), SavedUSD: d.usd(d.static) - d.usd(r), Least: math.MaxInt,
		Changes: r.Changes, Attainment: r.Attainment(), HoldsSLO: r.Attainment() >= 0.99,
		TTFT: r.TTFT.Share(), ITL: r.ITL.Share(), E2E: r.E2E.Share(), Requests: r.Requests, result: r,
	}
	for _, l := range r.Looks {
		gpus := d.options.cells * gpusOf(l)
		f.Least, f.Most = min(f.Least, gpus), max(f.Most, gpus)
	}
	if startUp != nil {
		s := startUp.Seconds()
		f.StartUp = &s
	}
	return f
}

// usd is the bill of a run: in each interval for the whole instances that its GPUs
// on average take.
func (d autoscaledDay) usd(r autoscale.Result) capacity.USD {
	sum := capacity.USD(0)
	for _, h := range r.Held {
		gpus := make([]float64, len(h.GPUs))
		for i, n := range h.GPUs {
			gpus[i] = float64(d.options.cells) * n
		}
		_, usd := d.candidate.layout.Billed(gpus)
		sum += capacity.USD(h.Hours) * usd
	}
	return sum
}

// wholeInstances says where more GPUs are paid for than there are.
func (d autoscaledDay) wholeInstances() string {
	for _, p := range d.candidate.layout.Pools {
		if p.InstanceGPUs > 1 {
			return "; $ are for whole instances"
		}
	}
	return ""
}

func gpusOf(l autoscale.Look) int {
	n := 0
	for _, p := range l.Pools {
		n += p.GPUs
	}
	return n
}

func (d autoscaledDay) text(b *bytes.Buffer) {
	f := d.file()
	doubtLines(b, f.Warnings, f.Provenance)
	head(b, f.Workload, f.SLO)
	fmt.Fprintf(b, "Simulated: %s\n", f.Traffic)
	fmt.Fprintf(b, "Static fleet, sized for the peak: %s engines of %s on %s, %s; step times: %s; prices: %s\n\n",
		d.engines(), f.Layout, strings.Join(distinct(f.GPUs), " and "), engine.Count(f.Static.Most, "GPU"), f.Source, strings.Join(f.Prices, "; "))
	t := newTable("fleet", "start-up", "GPU-hours", "saved", "$", "$ saved", "GPUs", "changes", "attainment", "TTFT kept", "ITL kept", "holds the SLO")
	t.rows = append(t.rows, f.Static.row("static", "–"))
	for i, r := range f.Autoscaled {
		t.rows = append(t.rows, r.row("autoscaled", short(d.options.startUps[i])))
	}
	b.WriteString(t.text("  "))
	fmt.Fprintf(b, "  in %.4g hours, every fleet beginning with the static one's GPUs; attainment is the least of the shares that kept a promise, an SLO at the 99th percentile asks for 99 %%%s\n\n", f.Hours, d.wholeInstances())
	for i, r := range f.Rules {
		fmt.Fprintf(b, "  rule, %s pool: %d to %s, looks every %s, changes every %s at most; utilisation is the %s\n", r.Pool, r.Min, engine.Count(r.Max, "GPU"), short(ruleEvery), short(d.rules[i].Cooldown), r.Full)
	}
	b.WriteString("\n  " + d.verdict(f) + "\n")
	for _, w := range f.Warnings {
		fmt.Fprintf(b, "  warning: %s\n", w.Message)
	}
}

// verdict holds the runs against what the rule is said to save.
func (d autoscaledDay) verdict(f autoscaleFile) string {
	parts := make([]string, 0, len(f.Autoscaled))
	for i, r := range f.Autoscaled {
		parts = append(parts, fmt.Sprintf("%s (attainment %s) with engines that start in %s", fewer(r.Saved), percent(r.Attainment), short(d.options.startUps[i])))
	}
	return fmt.Sprintf("The article that the rule is from claims %s; here it takes %s; the static fleet's attainment is %s.", claim, strings.Join(parts, ", "), percent(f.Static.Attainment))
}

func fewer(saved float64) string {
	if saved < 0 {
		return fmt.Sprintf("%.1f %% more", -100*saved)
	}
	return fmt.Sprintf("%.1f %% fewer", 100*saved)
}

func (r fleetRun) row(name, startUp string) []string {
	holds := "no"
	if r.HoldsSLO {
		holds = "yes"
	}
	saved, usd := "–", "–"
	if r.StartUp != nil {
		saved, usd = tenths(r.Saved), amount(r.SavedUSD)
	}
	gpus := itoa(r.Least)
	if r.Most != r.Least {
		gpus += "–" + itoa(r.Most)
	}
	return []string{name, startUp, fmt.Sprintf("%.1f", r.GPUHours), saved, amount(r.USD), usd, gpus, itoa(r.Changes), percent(r.Attainment), percent(r.TTFT), percent(r.ITL), holds}
}

// engines of the static fleet, "3 and 6".
func (d autoscaledDay) engines() string {
	parts := make([]string, 0, len(d.replicas))
	for _, n := range d.replicas {
		parts = append(parts, itoa(d.options.cells*n))
	}
	return strings.Join(parts, " and ")
}

// short is a time without zero parts: 5m, not 5m0s.
func short(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}
