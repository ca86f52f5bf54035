package main

import (
	"bytes"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"plimsoll/planner/replay"
	"plimsoll/profile"
)

// card is the comparison at a glance: what the planner would have done, and how others
// compare.
func (f replayFile) card(o replayOptions) card {
	l := f.Load
	c := card{
		head: []string{
			strings.ToUpper(f.Provenance.String()) + " in virtual time, not measured on a GPU", shortModel(f.Fleet.Model) + " on " + starred(f.Fleet.GPU, fromDataSheet(f.all())),
			fmt.Sprintf("%s: %d requests, %.4g/s, ISL %.0f, OSL %.0f", l.Words, l.Requests, l.Rate, l.ISL, l.OSL),
		},
		facts: f.facts(), table: f.cardTable(), below: append(append(f.scaledNothing(), f.claims()...), starredBelow(f.all(), f.Fleet.TTFTError, f.Fleet.ITLError)...), warnings: f.all(), next: f.nextCommand(o),
	}
	if o.dir != "" {
		c.page = filepath.Join(o.dir, reportFileName)
	}
	return c
}

// planned is the policy that planner serve has by default, or the first.
func (f replayFile) planned() replayPolicyFile {
	if i := slices.IndexFunc(f.Policies, func(p replayPolicyFile) bool { return p.Name == "default" }); i >= 0 {
		return f.Policies[i]
	}
	return f.Policies[0]
}

// facts are what the planner's policy attained, and others beside it.
func (f replayFile) facts() []detail {
	p := f.planned()
	answer := fmt.Sprintf("%s keeps %s of requests within TTFT ≤ %g ms and ITL ≤ %g ms, on %s GPU-hours", p.Name, p.Both.share(), f.SLA.TTFT, f.SLA.ITL, p.GPUHours.figure())
	if p.HeldBack.Mean > 0 {
		answer += "; the budget held it back in " + p.HeldBack.share() + " of decisions"
	}
	out := []detail{{"Answer", answer}}
	var others []string
	for _, other := range f.Policies {
		if other.Name != p.Name {
			others = append(others, fmt.Sprintf("%s %s, on %s", other.Name, other.Both.share(), moreGPUs(other.GPUHours.Mean, p.GPUHours.Mean)))
		}
	}
	if n := len(others); n > mostLosers {
		others = append(others[:mostLosers], fmt.Sprintf("and %d more", n-mostLosers))
	}
	if len(others) > 0 {
		out = append(out, detail{"Others", strings.Join(others, "; ")})
	}
	engines := f.Fleet.Chosen
	if engines == "" {
		var pools []string
		for _, pool := range f.Fleet.Pools {
			pools = append(pools, strings.TrimSpace(pool.Label+" "+string(pool.Role)))
		}
		engines = strings.Join(pools, " + ") + "; step times: " + f.Fleet.Source
	}
	out = append(out, detail{"Engines", engines})
	if trust := errorWords(f.Fleet.TTFTError, f.Fleet.ITLError); trust != "" {
		out = append(out, detail{"Trust", trust})
	}
	return out
}

// moreGPUs compares GPU-hours.
func moreGPUs(of, with float64) string {
	switch share := 100 * (of/with - 1); {
	case !(with > 0) || math.IsInf(share, 0):
		return fmt.Sprintf("%.4g GPU-hours", of)
	case math.Abs(share) < 0.5:
		return "as many GPU-hours"
	case share < 0:
		return fmt.Sprintf("%.0f %% fewer GPU-hours", -share)
	default:
		return fmt.Sprintf("%.0f %% more GPU-hours", share)
	}
}

// errorWords are how far off a latency model was; empty where that is not known.
func errorWords(ttft, itl profile.ModelError) string {
	if !ttft.Known() || !itl.Known() {
		return ""
	}
	worst := ""
	if itl.Worst > 0 {
		worst = fmt.Sprintf("; in the worst group %.2g %%", 100*itl.Worst)
	}
	return fmt.Sprintf("half of all comparisons within %.2g %% (TTFT), %.2g %% (ITL%s), nine of ten within a factor of %.2g (TTFT), %.2g (ITL)", 100*ttft.Median, 100*itl.Median, worst, ttft.Factor90, itl.Factor90)
}

// cardTable has every policy.
func (f replayFile) cardTable() *table {
	t := newTable("policy", "attained", "TTFT", "ITL", "TTFT p99 ms", "ITL p99 ms", "time under SLO", "GPU-hours", "scalings")
	for _, p := range f.Policies {
		t.row(p.Name, p.Both.share(), p.TTFT.share(), p.ITL.share(), p.p99(func(r replayRunFile) replayLatencies { return r.TTFT }), p.p99(func(r replayRunFile) replayLatencies { return r.TPOT }),
			p.UnderSLO.share(), p.GPUHours.figure(), p.Scalings.figure())
	}
	return t
}

// p99 is the mean over the seeds of a latency's p99; "–" where a run has none.
func (p replayPolicyFile) p99(of func(replayRunFile) replayLatencies) string {
	var ms []float64
	for _, r := range p.Runs {
		if of(r).N == 0 {
			return "–"
		}
		ms = append(ms, of(r).P99)
	}
	m := meanOf(ms)
	switch {
	case m.Mean < 1e4:
		return m.figure()
	case m.Half == nil:
		return thousands(m.Mean)
	}
	return thousands(m.Mean) + " ± " + thousands(*m.Half)
}

// scaledNothing says that one engine of each pool held the SLO all the time; empty where
// that is not so.
func (f replayFile) scaledNothing() []string {
	p := f.planned()
	for _, r := range p.Runs {
		if r.Outcome.Scales > 0 || r.Outcome.UnderSLO < 1 || slices.ContainsFunc(r.Outcome.Pools, func(p replay.PoolResult) bool { return p.Most != 1 }) {
			return nil
		}
	}
	engines := "one engine is enough"
	if len(f.Fleet.Pools) > 1 {
		engines = "one engine of each pool is enough"
	}
	return []string{fmt.Sprintf("%s for the whole load (%s): nothing scales", engines, short(time.Duration(f.Seconds*float64(time.Second)).Round(time.Second)))}
}

// claims are what policies' sources claim, beside what they took.
func (f replayFile) claims() (lines []string) {
	static := slices.IndexFunc(f.Policies, func(p replayPolicyFile) bool { return p.Name == staticPeak })
	for _, p := range f.Policies {
		var took []string
		if static >= 0 {
			took = append(took, moreGPUs(p.GPUHours.Mean, f.Policies[static].GPUHours.Mean))
		}
		if p.Claim != "" {
			lines = append(lines, claimed(p.Name, p.Claim, took...))
		}
	}
	return lines
}

// nextCommand runs the planner beside the fleet that there is, or measures one.
func (f replayFile) nextCommand(o replayOptions) string {
	if o.fleet.Profile != "" {
		return fmt.Sprintf("plimsoll planner serve --profile %s --no-operation", o.fleet.Profile)
	}
	return fmt.Sprintf("plimsoll profile-sla --model %s --gpu %s --isl %.0f --osl %.0f --ttft %g --itl %g --sla-stat %s",
		o.fleet.Model, strings.ToLower(f.Fleet.GPU), f.Load.ISL, f.Load.OSL, f.SLA.TTFT, f.SLA.ITL, f.SLA.Planned)
}

// detailed is what --details prints.
func (c comparison) detailed(f replayFile) string {
	var b bytes.Buffer
	for _, line := range c.head(f) {
		fmt.Fprintln(&b, line)
	}
	b.WriteString("\n" + c.table(f).text("") + "\n")
	for _, line := range c.foot(f) {
		fmt.Fprintln(&b, line)
	}
	return b.String()
}
