package pages

import (
	"errors"
	"fmt"
)

// Replay is policies beside each other on one load.
type Replay struct {
	Origin

	Seeds       int     // runs of each policy
	Target      float64 // share of requests that is asked for, from 0 to 1
	Policies    []Policy
	Terms       []Fact // what the columns count, in words
	NotModelled []string
}

// Policy is what became of a policy. Shares are from 0 to 1.
type Policy struct {
	Name        string
	About       string
	Clairvoyant bool // it knew all arrivals
	Replicas    string

	Both         Figure // requests that met TTFT and ITL, of all that came
	TTFT         Figure
	ITL          Figure
	UnderSLO     Figure // of windows of time
	GoodRequests Figure // per second
	GoodTokens   Figure // per second
	GPUHours     Figure
	Scalings     Figure
	OverPlan     *Figure // GPU-hours over those of the plan; nil without one

	Against  *Difference // nil without seeds to pair
	Timeline Timeline    // of the first seed
}

// Difference is a policy's figures less another's, paired by seed.
type Difference struct {
	Policy   string
	Both     Figure // of shares
	GPUHours Figure
}

// HTML is the page.
func (r Replay) HTML() ([]byte, error) {
	if err := r.check(); err != nil {
		return nil, fmt.Errorf("page %q: %w", r.Title, err)
	}
	p := page{template: "replay.html", scripts: []string{"format.js", "svg.js", "table.js", "scatter.js", "timeline.js", "timelines.js", "replay.js"}}
	return p.html(r.Origin, r.data(), r.body())
}

func (r Replay) check() error {
	if len(r.Policies) == 0 {
		return errors.New("no policies: want one or more")
	}
	if r.Target <= 0 || r.Target >= 1 {
		return fmt.Errorf("a target of %v: want a share above 0 and below 1", r.Target)
	}
	var errs []error
	for _, p := range r.Policies {
		errs = append(errs, p.Timeline.check(p.Name))
		for _, c := range columns() {
			if f := c.of(p); f != nil {
				errs = append(errs, f.check(p.Name+": "+c.name))
			}
		}
		if d := p.Against; d != nil {
			errs = append(errs, d.Both.check(p.Name+" less "+d.Policy), d.GPUHours.check(p.Name+" less "+d.Policy))
		}
	}
	return errors.Join(errs...)
}

// summary is the answer in one sentence: the cheapest policy that did what was
// asked for, or the one that came closest.
func (r Replay) summary() string {
	best, ok := r.best()
	if !ok {
		return ""
	}
	online, held := r.online()
	target := number(100*r.Target) + " % of the requests"
	if held == 0 {
		return fmt.Sprintf("No policy here meets both promises of %s: %s comes closest, with %s %% and %s GPU-hours.", target, best.Name, best.Both.times(100).fixed(2), best.GPUHours.text())
	}
	names, take := best.Name, "takes"
	for _, p := range r.Policies {
		if p.Name != best.Name && !p.Clairvoyant && p.Both.Mean >= r.Target && p.GPUHours.text() == best.GPUHours.text() {
			names, take = names+" and "+p.Name, "take"
		}
	}
	s := fmt.Sprintf("Both promises of %s: met by %d of %d policies. %s %s the least GPU-hours of those that meet them, %s", target, held, online, names, take, best.GPUHours.text())
	if best.OverPlan != nil {
		s += ", " + best.OverPlan.text() + " times the plan's"
	}
	return s + "."
}

// best is the online policy with the least GPU-hours of those that reach the
// target; where none does, the one that comes closest.
func (r Replay) best() (best Policy, ok bool) {
	for _, p := range r.Policies {
		if p.Clairvoyant {
			continue
		}
		better := p.Both.Mean > best.Both.Mean
		if best.Both.Mean >= r.Target {
			better = p.Both.Mean >= r.Target && p.GPUHours.Mean < best.GPUHours.Mean
		}
		if !ok || better {
			best, ok = p, true
		}
	}
	return best, ok
}

// online counts the policies that could be run, and those that reach the target.
func (r Replay) online() (all, held int) {
	for _, p := range r.Policies {
		if !p.Clairvoyant {
			all++
			if p.Both.Mean >= r.Target {
				held++
			}
		}
	}
	return all, held
}
