package main

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"plimsoll/engine"
	"plimsoll/engine/field"
	"plimsoll/planner"
	"plimsoll/planner/replay"
	"plimsoll/planner/replay/oracle"
	"plimsoll/profile"
)

// hindsight is what somebody who knew all arrivals could have done.
type hindsight struct {
	plan  bool // the first of the outcomes is the plan's
	short bool // with some seed no schedule that was tried attains the share
}

// oracleBin is how often a plan may change its mind.
const oracleBin = time.Minute

// parseOracle refuses what an oracle cannot know.
func (p *parser) parseOracle(o replayOptions) string {
	which := p.choice("oracle", "none", "plan")
	if which == "none" {
		p.needs(false, "with --oracle plan", "oracle-simulations")
		return which
	}
	if o.fleet.Noise > 0 {
		p.fail(field.Errorf("--oracle %s knows all that comes, which --noise leaves to chance", which).Hint("--oracle none, or no --noise"))
	}
	return which
}

// lookBack asks the oracle, for each seed.
func (c *comparison) lookBack(say func(string)) error {
	o := c.options
	if o.oracle == "none" {
		return nil
	}
	say("looking back: what could have been done")
	plan := outcomeOf{
		policy: replayPolicy{chosenPolicy{name: "plan", policy: "plan"}, o.policies[0].settings}, start: c.start,
		about: fmt.Sprintf("what somebody who knew all arrivals could have done for %g %%", 100*replay.DefaultTarget), results: make([]replay.Result, o.seeds),
	}
	plan.policy.settings.pulse = oracleBin
	reaches := make([]bool, o.seeds)
	err := atOnce(o.seeds, func(i int) error {
		seed := o.seed + uint64(i) //nolint:gosec // a seed's number is not negative
		s := c.scenario(plan, seed)
		all, err := c.oracleCase(s, seed)
		if err != nil {
			return err
		}
		plan.results[i], reaches[i], err = c.planned(all, s, seed)
		return err
	})
	if err == nil {
		c.outcomes = append([]outcomeOf{plan}, c.outcomes...)
		c.hindsight = hindsight{plan: true, short: slices.Contains(reaches, false)}
	}
	return err
}

// oracleCase is a scenario as an oracle takes it.
func (c comparison) oracleCase(s replay.Scenario, seed uint64) (oracle.Case, error) {
	bins := int((s.Length + oracleBin - 1) / oracleBin)
	out := oracle.Case{
		Fleet: s.Simulated(), Every: engine.FromDuration(s.Length) / engine.Picoseconds(bins), Bins: bins,
		Drain: engine.FromDuration(s.Drain), Attainment: replay.DefaultTarget, Budget: max(0, s.Deployment.Budget.Max),
	}
	for _, p := range out.Fleet.Pools {
		pool := s.Deployment.Pool(p.Engine.Role)
		most := pool.Max
		if most == 0 {
			most = maxReplicas
		}
		if s.Deployment.Budget.Max >= 0 {
			most = min(most, s.Deployment.Budget.Max/pool.GPUs)
		}
		out.Bounds = append(out.Bounds, oracle.Bounds{Min: pool.Min, Max: most})
	}
	var fail error
	before, end := engine.FromDuration(s.Warmup), out.Every*engine.Picoseconds(bins)
	for q := range c.options.load.requests(seed, c.span, &fail) {
		if q.At -= before; q.At >= 0 && q.At < end {
			out.Requests = append(out.Requests, q)
		}
	}
	return out, fail
}

// planned is what becomes of the oracle's plan in a replay, and whether it attains
// the share.
func (c comparison) planned(all oracle.Case, s replay.Scenario, seed uint64) (r replay.Result, reaches bool, err error) {
	plan, err := oracle.Plan(all, all.Simulate, c.options.simulations)
	if err != nil {
		return r, false, fmt.Errorf("the oracle: %w", err)
	}
	var schedule replay.Schedule
	for bin := range all.Bins {
		var want planner.Replicas
		for i, p := range s.Fleet.Pools {
			want = want.With(p.Engine.Role, plan.Schedule[i][bin])
		}
		if bin == 0 || want != schedule[len(schedule)-1].Want {
			schedule = append(schedule, replay.Change{At: (all.Every * engine.Picoseconds(bin)).Duration(), Want: want})
		}
	}
	var fail error
	r, err = replay.RunSchedule(c.options.load.requests(seed, c.span, &fail), s, schedule)
	if err = errors.Join(fail, err); err != nil {
		return r, false, err
	}
	switch {
	case !plan.Reaches:
		r.Warnings = append(r.Warnings, profile.Warnf("plan_short", "no schedule that was tried meets both promises of %g %% of the requests: this is the largest", 100*all.Attainment))
	case !plan.Settled:
		r.Warnings = append(r.Warnings, profile.Warnf("plan_unsettled", "%d simulations were too few to know that no replica can be spared: --oracle-simulations", plan.Simulations))
	}
	return r, plan.Reaches, nil
}
