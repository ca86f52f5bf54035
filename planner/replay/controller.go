package replay

import (
	"fmt"
	"strings"
	"time"

	"plimsoll/engine"
	"plimsoll/engine/sim/fleet"
	"plimsoll/planner"
	"plimsoll/profile"
)

// controller is planner serve's loop in virtual time: it looks at the fleet every
// Scenario.Scrape, and decides when its cadence says so.
type controller struct {
	s       Scenario
	core    *planner.Core
	warmup  warmup
	cadence *planner.Cadence
	watch   planner.Watch
	source  *source
	tick    engine.Picoseconds

	decisions, unseen int
	heldBack          int               // decisions, by the budget
	warnings          []profile.Warning // the first of each code
}

func newController(s Scenario, core *planner.Core) *controller {
	return &controller{s: s, core: core, warmup: newWarmup(s), source: newSource(s)}
}

func (c *controller) next() engine.Picoseconds { return c.tick }

func (c *controller) tell(q fleet.Request) { c.warmup.add(q, c.core) }

// act takes one look, and decides where that is due.
func (c *controller) act(r *run) error {
	all, at := r.replicas(), r.fleet.Now()
	c.source.look(r.fleet, all, r.score.out.Refused)
	state, now, first := stateOf(c.s, all, r.asked), c.s.at(at), at == 0
	c.tick = at + engine.FromDuration(c.s.Scrape)
	if first {
		c.warmup.end(c.core)
		c.cadence = c.s.Pace.Begin(now)
	}
	c.watch.See(state)
	if wait, _ := c.cadence.See(state, now); wait {
		return nil
	}
	c.source.note(state)
	if first {
		o := (&planner.Watch{}).Complete(planner.Observation{}, state, now, now)
		if d := c.core.Bound(o, planner.Unshared()); d.Act {
			return c.carryOut(o, d, r)
		}
		return nil
	}
	if ready, _ := c.cadence.Ready(now); !ready {
		return nil
	}
	o := c.watch.Complete(c.source.observe(), state, c.cadence.Take(now), now)
	d := c.core.Step(o)
	c.cadence.Plan(now)
	c.note(d)
	return c.carryOut(o, d, r)
}

// carryOut asks for what was decided.
func (c *controller) carryOut(o planner.Observation, d planner.Decision, r *run) error {
	if c.s.On != nil {
		c.s.On(o, d)
	}
	if !d.Act {
		return nil
	}
	c.core.Asking(d.Want)
	if err := r.scale(d.Want); err != nil {
		return err
	}
	c.core.Asked(d.Want)
	c.cadence.Asked(d.At)
	return nil
}

// note counts a decision, and keeps what it warned of for the first time.
func (c *controller) note(d planner.Decision) {
	c.decisions++
	if len(d.Missing) > 0 {
		c.unseen++
	}
	if d.HeldBack() {
		c.heldBack++
	}
	for _, w := range d.Warnings {
		known := w.Code == "profile_stale" // the engines are the profile's
		for _, k := range c.warnings {
			known = known || k.Code == w.Code
		}
		if !known {
			w.Message = fmt.Sprintf("after %v: %s", d.At.Sub(c.s.Origin).Round(time.Second), w.Message)
			c.warnings = append(c.warnings, w)
		}
	}
}

// sumUp adds what was decided.
func (c *controller) sumUp(out *Result) {
	out.Decisions, out.Unseen, out.HeldBack = c.decisions, c.unseen, c.heldBack
	out.Warnings = append(out.Warnings, c.warnings...)
}

// stateOf is the fleet as a target says it.
func stateOf(s Scenario, all []fleet.Replica, asked planner.Replicas) planner.State {
	counts := make([]planner.PoolState, len(s.Fleet.Pools))
	var under []string
	for i, p := range s.Fleet.Pools {
		one := &counts[i]
		one.Role, one.Want, one.GPUs = p.Engine.Role, asked.Of(p.Engine.Role), p.GPUs
		for _, r := range all {
			if r.Role != p.Engine.Role {
				continue
			}
			switch r.State {
			case fleet.Starting:
				one.Starting++
			case fleet.Ready:
				one.Ready++
			case fleet.Draining:
				one.Draining++
			}
		}
		if one.Starting+one.Draining > 0 {
			under = append(under, fmt.Sprintf("%s: %d start, %d drain", one.Role, one.Starting, one.Draining))
		}
	}
	return planner.State{Pools: counts, Scaling: strings.Join(under, "; ")}
}
