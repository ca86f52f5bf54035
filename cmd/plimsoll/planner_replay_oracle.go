package main

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"plimsoll/engine/field"
	"plimsoll/planner"
	"plimsoll/planner/replay"
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
		p.fail(field.Errorf("--oracle %s excludes --noise, as it must know all that happens", which).Hint("--oracle none, or no --noise"))
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
	all := make([]replay.Hindsight, o.seeds)
	err := atOnce(o.seeds, func(i int) (err error) {
		all[i], err = c.planned(plan, o.seed+uint64(i)) //nolint:gosec // a seed's number is not negative
		return err
	})
	if err != nil {
		return err
	}
	c.hindsight.plan = true
	for i, h := range all {
		plan.results[i], plan.policy.settings.pulse = h.Result, h.Every
		c.hindsight.short = c.hindsight.short || !h.Reaches
	}
	c.outcomes = append([]outcomeOf{plan}, c.outcomes...)
	return nil
}

// planned is the oracle's plan with a seed.
func (c comparison) planned(plan outcomeOf, seed uint64) (replay.Hindsight, error) {
	settings, p99 := plan.policy.settings, c.facts.p99()
	size := func(requests, isl, osl float64) (planner.Replicas, error) {
		d, err := settings.sized(minute{requests, isl, osl}, p99)
		return d.Want, err
	}
	var fail error
	requests := slices.Collect(c.options.load.requests(seed, c.span, &fail))
	if fail != nil {
		return replay.Hindsight{}, fail
	}
	h, err := replay.LookBack(requests, c.scenario(plan, seed), size, replay.DefaultTarget, c.options.simulations)
	switch {
	case err != nil:
		return h, err
	case !h.Reaches:
		h.Result.Warnings = append(h.Result.Warnings, profile.Warnf("plan_short", "no tried schedule meets TTFT and ITL for %g %% of the requests. This one comes closest", 100*replay.DefaultTarget))
	case !h.Settled:
		h.Result.Warnings = append(h.Result.Warnings, profile.Warnf("plan_unsettled", "--oracle-simulations %d were too few to prove that every replica is needed. Raise it", cmp.Or(c.options.simulations, replay.DefaultSimulations)))
	}
	return h, nil
}
