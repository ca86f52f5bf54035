package main

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"plimsoll/engine"
	"plimsoll/plots/pages"
	"plimsoll/profile"
	"plimsoll/profile/store"
)

// writePage writes the plans as one HTML file.
func (o capacityOptions) writePage(file string, out sizedPlans, command planCommand) error {
	g, err := o.grid(out, command)
	if err != nil {
		return fmt.Errorf("sizing the plans of %s: %w", file, err)
	}
	html, err := o.page(file, out, command, g).HTML()
	if err != nil {
		return err
	}
	return store.WriteFile(file, html)
}

// page is a plan as a page takes it.
func (o capacityOptions) page(file string, out sizedPlans, command planCommand, g pages.CapacityGrid) pages.Capacity {
	p := pages.Capacity{
		Origin: pages.Origin{
			Title: "Capacity for " + o.servedModel(), Version: buildVersion(), Virtual: true, Provenance: profile.Estimated,
			Command: command.again(file), Facts: o.pageFacts(out),
		},
		SLO: o.slo, Grid: g, Assumptions: o.planAssumptions(out),
	}
	for i, x := range out.Plans {
		if x.Infeasible != nil {
			p.Unmet = append(p.Unmet, pages.Fact{Name: x.candidate.name(), Text: x.Infeasible.Why})
			continue
		}
		if i > 0 && x.RPS > 0 { // of another rate
			p.LeftOut = append(p.LeftOut, pages.Fact{Name: x.candidate.name(), Text: fmt.Sprintf("about %s requests/s at most", plain(x.RPS))})
			continue
		}
		p.Plans = append(p.Plans, x.shown())
		of := ""
		if i > 0 {
			of = x.candidate.name()
		}
		for _, w := range x.Warnings {
			if i > 0 && slices.Contains(out.Plans[0].Warnings, w) {
				continue // said of the plan itself
			}
			p.Warnings = append(p.Warnings, pages.Warning{Warning: w, Of: of})
		}
	}
	for _, s := range out.LeftOut {
		p.LeftOut = append(p.LeftOut, pages.Fact{Name: s.Label, Text: s.Reason})
	}
	if len(out.Plans) > 0 {
		p.Provenance = out.Plans[0].Provenance
	}
	if len(p.Plans) > 0 {
		for _, d := range out.Plans[0].details() {
			p.Details = append(p.Details, pages.Fact{Name: d.name, Text: d.text})
		}
	}
	for _, w := range out.WhatIf {
		p.Beside = append(p.Beside, w.shown())
	}
	return p
}

// shown is a plan as a page takes it.
func (p sizedPlan) shown() pages.CapacityPlan {
	return pages.CapacityPlan{Plan: p.Plan, GPU: p.gpus(), Rough: p.Rough}
}

// pageFacts are the workload and the SLO.
func (o capacityOptions) pageFacts(out sizedPlans) []pages.Fact {
	w := out.Workload
	var facts []pages.Fact
	if len(out.Plans) > 0 && out.Plans[0].RPS > 0 {
		facts = append(facts, pages.Fact{Name: "Answer", Text: out.Plans[0].answer()})
	}
	facts = append(facts, []pages.Fact{
		{Name: "Workload", Text: fmt.Sprintf("%s requests/s at the peak, %s on average, the peak in windows of %s", plain(w.PeakQPS), plain(w.AverageQPS()), short(w.PeakWindow))},
		{Name: "Lengths", Text: fmt.Sprintf("prompts %.0f tokens (p99 %.0f), outputs %.0f (p99 %.0f)", w.AvgISL, w.P99ISL, w.AvgOSL, w.P99OSL)},
		{Name: "SLO", Text: o.slo.String()},
		{Name: "Simulated", Text: out.Traffic},
	}...)
	if x := w.Prefixes; x.Groups > 0 {
		facts = append(facts, pages.Fact{Name: "Prompts alike", Text: fmt.Sprintf("%.0f %% of them, in %s, by %s", 100*x.Share, engine.Count(x.Groups, "group"), engine.Count(x.Tokens, "token"))})
	}
	return append(facts, pages.Fact{Name: "Made", Text: time.Now().UTC().Format("2006-01-02 15:04 UTC")})
}

// planAssumptions are what a plan takes for given.
func (o capacityOptions) planAssumptions(out sizedPlans) []string {
	as := []string{
		"the load is " + out.Traffic + ": what comes otherwise is not planned for",
		"a size holds where the upper 95 % bound of the share of requests that miss a promise is below 1 %, in simulated fleets of the same requests",
		"requests are routed as the plan says, and no other load is on the GPUs",
		"GPUs are paid for all the time, at the peak's size; a year has 365 days",
	}
	if o.slo.Availability > 0 {
		domain := "each engine fails by itself"
		if o.failures.DomainGPUs > 0 {
			domain = fmt.Sprintf("%d GPUs fail together", o.failures.DomainGPUs)
		}
		as = append(as, fmt.Sprintf("an engine is up %.5g %% of the time, and %s", 100*o.failures.ReplicaAvailability, domain))
	} else {
		as = append(as, "no engine fails: there are no spares (--availability asks for some)")
	}
	if len(out.Plans) > 0 {
		as = append(as, "step times are of "+out.Plans[0].Source, "prices: "+strings.Join(out.Plans[0].Prices, "; "))
	}
	if o.arrivals == nil && o.workload.Prefixes.Groups == 0 {
		as = append(as, "no prompt is like another: no KV is used twice")
	}
	return as
}

// shown is a variant as a page takes it.
func (w whatIf) shown() pages.CapacityVariant {
	v := pages.CapacityVariant{Name: w.Name, GPUs: w.GPUs, HourlyUSD: w.HourlyUSD, Saving: "–", Missed: "–"}
	if w.GPUs > 0 && !w.this {
		v.Saving = fmt.Sprintf("%.0f %%", math.Round(100*w.Saving))
	}
	if w.Risk != nil {
		v.Missed = riskWords(*w.Risk)
	}
	return v
}
