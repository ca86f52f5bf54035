package main

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"plimsoll/capacity"
	"plimsoll/engine"
	"plimsoll/planner/replay"
	"plimsoll/profile"
)

// autoscaleFile is the result as --format json prints it: figures of the whole fleet.
type autoscaleFile struct {
	Provenance profile.Provenance `json:"provenance"`
	Workload   capacity.Workload  `json:"workload"`
	SLO        capacity.SLO       `json:"slo"`
	Traffic    string             `json:"traffic"`
	Layout     string             `json:"layout"`
	Engines    []int              `json:"engines"` // of the static fleet, by pool
	GPUs       []string           `json:"gpus"`    // kinds, by pool
	Source     string             `json:"source"`
	Prices     []string           `json:"prices"`
	Hours      float64            `json:"hours"`
	Share      float64            `json:"share"` // of the fleet and its load that was replayed
	MinGPUs    int                `json:"min_gpus"`
	MaxGPUs    int                `json:"max_gpus"`
	Policies   []scaledFile       `json:"policies"` // the static one first
	Warnings   []profile.Warning  `json:"warnings"`
	Timeline   []dayBin           `json:"timeline"`
}

// scaledFile is how one fleet served the requests.
type scaledFile struct {
	Policy     string       `json:"policy"`
	StartUp    *float64     `json:"startup_seconds,omitempty"` // none of the static fleet
	GPUHours   float64      `json:"gpu_hours"`
	Saved      float64      `json:"gpu_hours_saved"` // share of the static fleet's
	USD        capacity.USD `json:"cost_usd"`
	SavedUSD   capacity.USD `json:"cost_saved_usd"`
	Least      int          `json:"least_gpus"`
	Most       int          `json:"most_gpus"`
	Scalings   int          `json:"scalings"`
	Attainment float64      `json:"attainment"` // of TTFT and ITL together
	TTFT       float64      `json:"attainment_ttft"`
	ITL        float64      `json:"attainment_itl"`
	GapP99     float64      `json:"gap_p99_ms"` // between tokens
	E2EP99     float64      `json:"e2e_p99_ms"` // of finished requests
	HoldsSLO   bool         `json:"holds_slo"`
	Requests   int64        `json:"requests"`
	Claim      string       `json:"claim,omitempty"` // what the policy's source says that it saves
}

func (d autoscaled) file() autoscaleFile {
	o := d.options
	f := autoscaleFile{
		Provenance: profile.Weakest(d.plan.Provenance, profile.Simulated), Workload: o.workload, SLO: o.slo, Traffic: d.traffic(),
		Layout: d.plan.Layout, Engines: d.plan.sized.Replicas, Source: d.plan.Source, Prices: d.plan.Prices, Hours: d.scenario.Length.Hours(),
		Share: d.share, Warnings: slices.Concat([]profile.Warning{}, d.options.trace.notes(), d.plan.Warnings), Timeline: d.timeline(),
	}
	for i, p := range d.scenario.Deployment.Pools {
		f.GPUs = append(f.GPUs, d.plan.Pools[i].GPU)
		f.MinGPUs, f.MaxGPUs = f.MinGPUs+p.Min*p.GPUs, f.MaxGPUs+p.Max*p.GPUs
	}
	f.MinGPUs, f.MaxGPUs = d.wholeFleet(f.MinGPUs), d.wholeFleet(f.MaxGPUs)
	for _, r := range d.runs {
		f.Policies = append(f.Policies, d.scaled(r))
		for _, w := range r.result.Warnings {
			w.Message = r.name() + ": " + w.Message
			f.Warnings = append(f.Warnings, w)
		}
	}
	return f
}

// name is the policy's, with the start-up time where it scales.
func (r autoscaledRun) name() string {
	if r.policy == staticPeak {
		return r.policy
	}
	return fmt.Sprintf("%s, start-up %s", r.policy, short(r.startUp))
}

func (d autoscaled) traffic() string {
	requests := engine.Count(d.runs[0].result.Requests, "request")
	if d.options.arrivals != nil {
		return fmt.Sprintf("the trace's %s in %.4g hours", requests, d.scenario.Length.Hours())
	}
	words := fmt.Sprintf("a day of %s from midnight, %s, Poisson at each hour's rate", d.options.workload.Pattern, requests)
	if d.share < 1 {
		words += fmt.Sprintf(", %.3g %% of the load on %s with their own router and autoscaler; GPUs and money are scaled up", 100*d.share, d.scenario.Start)
	}
	return words
}

// wholeFleet scales a GPU count of the part that was replayed up to the whole fleet.
func (d autoscaled) wholeFleet(gpus int) int { return int(float64(gpus)/d.share + 0.5) }

func (d autoscaled) scaled(r autoscaledRun) scaledFile {
	static, x := d.runs[0].result, r.result
	f := scaledFile{
		Policy: r.policy, GPUHours: x.GPUHours / d.share, Saved: 1 - x.GPUHours/static.GPUHours,
		USD: d.usd(x), SavedUSD: d.usd(static) - d.usd(x), Least: math.MaxInt, Scalings: x.Scales,
		Attainment: x.Attainment.Both, TTFT: x.Attainment.TTFT, ITL: x.Attainment.ITL, GapP99: profile.Milliseconds(x.Gaps.P99), E2EP99: profile.Milliseconds(x.E2E.P99), Requests: x.Requests,
		HoldsSLO: d.holds(x), Claim: policyOf(r.policy).claim,
	}
	for _, p := range x.Timeline {
		gpus := 0
		for i, pool := range p.Pools {
			gpus += (pool.Ready + pool.Starting + pool.Draining) * d.scenario.Fleet.Pools[i].GPUs
		}
		f.Least, f.Most = min(f.Least, d.wholeFleet(gpus)), max(f.Most, d.wholeFleet(gpus))
	}
	if r.policy != staticPeak {
		f.StartUp = new(r.startUp.Seconds())
	}
	return f
}

// holds reports whether each promise is kept at the 99th percentile. A request that
// did not finish has missed TTFT and ITL.
func (d autoscaled) holds(r replay.Result) bool {
	s := d.options.slo
	return min(r.Attainment.TTFT, r.Attainment.ITL) >= replay.DefaultTarget && (s.StallP99 == 0 || r.Gaps.P99 <= s.StallP99) && (s.E2EP99 == 0 || r.E2E.P99 <= s.E2EP99)
}

// usd is the bill of a run. Each point of its timeline is billed for the whole instances
// that its mean GPUs take.
func (d autoscaled) usd(r replay.Result) capacity.USD {
	sum := capacity.USD(0)
	for _, p := range r.Timeline {
		gpus := make([]float64, len(p.Pools))
		for i, pool := range p.Pools {
			gpus[i] = pool.GPUs / d.share
		}
		_, usd := d.plan.candidate.layout.Billed(gpus)
		sum += capacity.USD((p.To - p.From).Hours()) * usd
	}
	return sum
}

func (d autoscaled) card() card {
	f, rule, article, plans := d.file(), policyOf(scaledBySLA), policyOf(scaledByArticle), d.options.newPlans(d.plan)
	c := card{
		head: []string{marked(f.Provenance), plans.modelWords(), plans.loadWords(), f.Traffic},
		facts: []detail{
			{"Answer", d.verdict(f)},
			{"Static", fmt.Sprintf("%d × %s: %s, sized for the peak", d.plan.TotalGPUs, d.plan.gpus(), d.plan.fleetWords())},
			{"Scaled", fmt.Sprintf("%s, %.0f %% of what fills a replica; every %s; bounds in GPUs: %s", rule.about, 100*defaultUtilization, short(rule.every), fromTo(f.MinGPUs, f.MaxGPUs))},
			{"Article", article.about},
			{"SLO", f.SLO.String() + ": 99 % of requests have to meet each"},
		},
		table:    d.table(f),
		below:    []string{fmt.Sprintf("in %.4g hours; attained: requests that met TTFT and ITL, of all that came", f.Hours)},
		warnings: f.Warnings, next: plans.nextCommand(),
	}
	if slices.ContainsFunc(d.plan.candidate.layout.Pools, func(p capacity.EnginePool) bool { return p.InstanceGPUs > 1 }) {
		c.below[0] += "; $ are for whole instances"
	}
	var took []string
	for _, p := range f.Policies {
		if p.Policy == scaledByArticle {
			took = append(took, moreGPUs(p.GPUHours, f.Policies[0].GPUHours))
		}
	}
	c.below = append(append(c.below, claimed(scaledByArticle, article.claim, took...)), starNote(d.plan)...)
	if d.options.arrivals == nil {
		plans.Workload.Rate = plans.Workload.AverageRate()
		c.next = plans.nextCommand() + " --arrival daily --duration 24h"
	}
	return c
}

func (d autoscaled) table(f autoscaleFile) *table {
	columns := []string{"policy", "start-up", "GPU-hours", "saved", "$", "$ saved", "GPUs", "scalings", "attained", "TTFT", "ITL"}
	if f.SLO.StallP99 > 0 {
		columns = append(columns, "gap p99 ms")
	}
	if f.SLO.E2EP99 > 0 {
		columns = append(columns, "E2E p99 s")
	}
	t := newTable(append(columns, "holds the SLO")...)
	for i, p := range f.Policies {
		t.row(p.row(d.runs[i].startUp, f.SLO)...)
	}
	return t
}

// verdict holds the autoscaled fleets against the static one.
func (d autoscaled) verdict(f autoscaleFile) string {
	static := f.Policies[0]
	var parts []string
	for i, p := range f.Policies[1 : 1+len(d.options.startUps)] { // hpa:sla's
		holds := "misses"
		if p.HoldsSLO {
			holds = "holds"
		}
		cost := ""
		if static.USD > 0 { // in whole instances fewer GPU-hours may cost as much
			cost = fmt.Sprintf(" for %s of the cost", percent(float64(p.USD/static.USD)))
		}
		parts = append(parts, fmt.Sprintf("%s%s and %s the SLO with engines that start in %s (attained %s)", moreGPUs(p.GPUHours, static.GPUHours), cost, holds, short(d.options.startUps[i]), percent(p.Attainment)))
	}
	return fmt.Sprintf("scaled by %s, the fleet takes %s; %s attained %s", scaledBySLA, strings.Join(parts, "; "), staticPeak, percent(static.Attainment))
}

func (f scaledFile) row(startUp time.Duration, slo capacity.SLO) []string {
	holds := "no"
	if f.HoldsSLO {
		holds = "yes"
	}
	start, saved, usd := "–", "–", "–"
	if f.StartUp != nil {
		start, saved, usd = short(startUp), tenths(f.Saved), amount(f.SavedUSD)
	}
	row := []string{f.Policy, start, fmt.Sprintf("%.4g", f.GPUHours), saved, amount(f.USD), usd, fromTo(f.Least, f.Most), itoa(f.Scalings), percent(f.Attainment), percent(f.TTFT), percent(f.ITL)}
	if slo.StallP99 > 0 {
		row = append(row, fmt.Sprintf("%.2f", f.GapP99))
	}
	if slo.E2EP99 > 0 {
		row = append(row, fmt.Sprintf("%.2f", f.E2EP99/1e3))
	}
	return append(row, holds)
}

// fromTo is "2–6", or "2" where both are.
func fromTo(least, most int) string {
	if least == most {
		return itoa(least)
	}
	return itoa(least) + "–" + itoa(most)
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
