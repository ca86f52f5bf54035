package main

import (
	"fmt"
	"strings"
	"time"

	"plimsoll/engine"
	"plimsoll/plots/pages"
)

// head says what was replayed, and how far to trust it.
func (c comparison) head(f replayFile) []string {
	o, d := c.options, c.options.deployment()
	var engines []string
	for i, p := range c.fleet.Pools {
		engines = append(engines, c.fleet.Labels[i]+roleWords(d, p.Engine.Role))
	}
	startUp := o.startUpWords()
	budget := "without a GPU budget"
	if d.Budget.Max >= 0 {
		budget = fmt.Sprintf("within a budget of %s", engine.Count(d.Budget.Max, "GPU"))
	}
	of := "of each request"
	if from := o.policies[0].settings.promise; from != "" {
		of += " (" + from + ")"
	}
	seeds := fmt.Sprintf("seed %d", f.Seeds[0])
	if n := len(f.Seeds); n > 1 {
		seeds = fmt.Sprintf("seeds %d to %d, the same for all policies; ± is the 95 %% interval of their mean", f.Seeds[0], f.Seeds[n-1])
	}
	lines := []string{
		"Load: " + c.facts.text(o.load.repeat),
		fmt.Sprintf("Fleet: %s of %s on %s; step times: %s; %s", strings.Join(engines, " + "), f.Fleet.Model, f.Fleet.GPU, f.Fleet.Source, startUp),
		fmt.Sprintf("SLA: TTFT %g ms and ITL %g ms %s; policies plan by the %s, %s", f.SLA.TTFT, f.SLA.ITL, of, d.SLA.Stat, budget),
		fmt.Sprintf("Replayed: %s, %s; metrics are %s old when a decision sees them", short(c.length()), seeds, short(o.delay)),
	}
	if o.chosen != "" {
		lines = append(lines, "Engines: "+o.chosen)
	}
	if c.fleet.TTFTError.Known() {
		lines = append(lines, "Model error of TTFT: "+c.fleet.TTFTError.Words())
	}
	if c.fleet.ITLError.Known() {
		lines = append(lines, "Model error of ITL: "+c.fleet.ITLError.Words())
	}
	return lines
}

func (c comparison) table(f replayFile) *table {
	head := []string{"policy", "attained", "TTFT", "ITL", "time under SLO", "goodput/s", "tokens/s", "GPU-hours", "scalings", "replicas"}
	if c.hindsight.plan {
		head = append(head, "/ plan")
	}
	t := newTable(head...)
	for i, p := range f.Policies {
		row := []string{
			p.Name, p.Both.share(), p.TTFT.share(), p.ITL.share(), p.UnderSLO.share(), p.GoodRequests.figure(), p.GoodTokens.figure(),
			p.GPUHours.figure(), p.Scalings.figure(), c.outcomes[i].between(),
		}
		if c.hindsight.plan {
			row = append(row, p.overPlan())
		}
		t.row(row...)
	}
	return t
}

// overPlan is a policy's GPU-hours over the plan's, where the plan attains its share.
func (p replayPolicyFile) overPlan() string {
	if p.OverPlan == nil {
		return "–"
	}
	return p.OverPlan.figure()
}

// between is the least and most replicas asked for with the first seed.
func (x outcomeOf) between() string {
	var parts []string
	for _, p := range x.results[0].Pools {
		parts = append(parts, fromTo(p.Least, p.Most))
	}
	return strings.Join(parts, " + ")
}

// share is a mean share in percent.
func (m seedMean) share() string {
	if m.Half == nil {
		return percent(m.Mean)
	}
	return fmt.Sprintf("%.2f ± %.2g %%", 100*m.Mean, 100**m.Half)
}

func (m seedMean) figure() string {
	s := fmt.Sprintf("%.4g", m.Mean)
	if m.Half != nil {
		s += fmt.Sprintf(" ± %.2g", *m.Half)
	}
	return s
}

// foot says what the columns and the policies are, and what is left out.
func (c comparison) foot(f replayFile) []string {
	var terms []string
	for _, t := range replayTerms() {
		terms = append(terms, t.Name+": "+t.Text)
	}
	lines := []string{terms[0], strings.Join(terms[1:], "; ")}
	for _, p := range f.Policies {
		lines = append(lines, p.Name+": "+p.begins())
	}
	for _, p := range f.Policies {
		if p.Against != nil && len(f.Seeds) > 1 {
			lines = append(lines, fmt.Sprintf("%s less %s, seed by seed: attained %+.2f ± %.2g points, GPU-hours %+.4g ± %.2g", p.Name, p.Against.Policy,
				100*p.Against.Both.Mean, 100**p.Against.Both.Half, p.Against.GPUHours.Mean, *p.Against.GPUHours.Half))
		}
	}
	return append(lines, "Not modelled: "+strings.Join(f.NotModelled, "; "), "Again: "+f.Command)
}

// replayTerms are the columns' words, and what they count.
func replayTerms() []pages.Fact {
	return []pages.Fact{
		{Name: "attained", Text: "requests that met both promises, of all that came; what was refused or not finished missed them"},
		{Name: "time under SLO", Text: "minutes with requests in which 99 % or more met both"},
		{Name: "GPU-hours", Text: "from the decision to start a replica until its process is gone"},
	}
}

// begins says what a policy is, and what it began with.
func (p replayPolicyFile) begins() string {
	s := fmt.Sprintf("%s; every %s, from %s", p.About, short(time.Duration(p.Interval*float64(time.Second))), p.Start)
	if p.HeldBack.Mean > 0 {
		s += "; the budget held it back in " + p.HeldBack.share() + " of decisions"
	}
	return s
}
