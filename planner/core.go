package planner

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"plimsoll/engine"
	"plimsoll/profile"
)

// Options make a Core.
type Options struct {
	Deployment Deployment
	Policy     Policy
	OnLoss     OnLoss
	Static     Replicas           // for HoldIfHigher
	Provenance profile.Provenance // of the profile that the policy decides by
	Caveats    []profile.Warning  // of that profile; every decision has them
}

// OnLoss is what is done when the policy lacks figures. The words are KEDA's.
type OnLoss string

// What may be done without metrics.
const (
	Hold         OnLoss = "hold"           // nothing
	HoldIfHigher OnLoss = "hold-if-higher" // Options.Static, or what there is where that is more
)

// Core decides for one deployment. It is not safe for concurrent use.
type Core struct {
	o      Options
	asked  *Replicas // by the last Decision that was carried out
	asking *Replicas // by one that was begun, and may have been carried out
	drift  drift
	record *Replicas // what the target's record said when it was last seen
	forgot bool      // there was such a record, and this planner lost it
}

// New makes a core; the error names what is wrong with the options.
func New(o Options) (*Core, error) {
	if err := o.Deployment.Check(); err != nil {
		return nil, err
	}
	if !slices.Contains([]OnLoss{Hold, HoldIfHigher}, o.OnLoss) {
		return nil, fmt.Errorf("on-metrics-loss is %q: want hold or hold-if-higher", o.OnLoss)
	}
	if o.OnLoss == HoldIfHigher {
		if kept := o.Deployment.Within(o.Static); kept != o.Static {
			return nil, fmt.Errorf("the static replicas %s break the bounds, the ratio or the budget. The nearest allowed are %s", o.Static, kept)
		}
	}
	return &Core{o: o}, nil
}

// Deployment is what the core plans for now.
func (c *Core) Deployment() Deployment { return c.o.Deployment }

// SetDeployment changes bounds, budget or SLA; the pools' roles and GPUs stay.
func (c *Core) SetDeployment(d Deployment) error {
	if err := d.Check(); err != nil {
		return err
	}
	same := func(a, b Pool) bool { return a.Role == b.Role && a.GPUs == b.GPUs }
	if !slices.EqualFunc(d.Pools, c.o.Deployment.Pools, same) {
		return fmt.Errorf("pools and their GPUs cannot change while the planner runs (%v became %v). Restart it", c.o.Deployment.Pools, d.Pools)
	}
	c.o.Deployment = d
	return nil
}

// Step decides after an interval.
func (c *Core) Step(o Observation) Decision { return c.StepWithin(o, Unshared()) }

// StepWithin decides after an interval what a share of a budget allows.
func (c *Core) StepWithin(o Observation, share Share) Decision {
	dep := share.of(c.o.Deployment)
	have, absent, lost := c.have(o, dep)
	var d Decision
	if len(absent) > 0 {
		d.Missing = absent
	} else {
		d = c.o.Policy.Propose(Situation{Observation: o, Deployment: dep, Have: have})
	}
	d.At, d.From, d.Provenance = o.End(), have, profile.Weakest(d.Provenance, c.o.Provenance)
	if len(absent) == 0 && c.edited(dep, have) {
		d.Warnings = append(d.Warnings, profile.Warnf("edited", "somebody else changed the replicas: %s are requested, but the planner's last decision was %s. Let only one of them scale", have, *c.asked))
	}
	if len(d.Missing) > 0 {
		d.Want = c.withoutMetrics(have, len(absent) > 0)
		d.add(dep, "metrics-loss", have, d.Want, fmt.Sprintf("missing: %s; on metrics loss: %s", strings.Join(d.Missing, ", "), c.o.OnLoss))
	}
	d.Proposed = d.Want
	if len(absent) == 0 {
		d.keep(dep, o, share.Free)
	}
	d.Act, d.GPUs = d.Want != have || len(absent) == 0 && lost != nil, dep.GPUs(d.Want)
	d.Warnings = slices.Concat(c.o.Caveats, d.Warnings, lost, c.drift.warnings(d.Correction))
	return d
}

// Bound is the decision that bounds and budget alone make, before an interval has
// passed: a deployment may begin with none of the replicas that it must have.
func (c *Core) Bound(o Observation, share Share) Decision {
	dep := share.of(c.o.Deployment)
	have, absent, lost := c.have(o, dep)
	d := Decision{At: o.End(), From: have, Want: have, Proposed: have, Missing: absent, Provenance: c.o.Provenance, Warnings: slices.Concat(c.o.Caveats, lost)}
	if len(absent) == 0 {
		d.keep(dep, o, share.Free)
	}
	d.Act, d.GPUs = d.Want != have || len(absent) == 0 && lost != nil, dep.GPUs(d.Want)
	return d
}

// Asking tells the core that a decision is about to be carried out. Whoever is
// killed before Asked, or gets no answer, does not know whether it was: neither
// outcome is somebody else's edit.
func (c *Core) Asking(r Replicas) { c.asking = &r }

// Asked tells the core that a decision was carried out; without it (advice
// only, or a target that failed) nobody is blamed for replicas that stay.
func (c *Core) Asked(r Replicas) { c.asked, c.asking, c.record = &r, nil, &r }

// Forgot tells the core that what it had saved is lost: its last decision is not known.
// Until the target's own record is seen, a pool without one holds.
func (c *Core) Forgot() { c.forgot = true }

// edited reports whether somebody else changed the replicas.
func (c *Core) edited(d Deployment, have Replicas) bool {
	if c.asking != nil && have == *c.asking {
		c.Asked(have)
	}
	if c.asked == nil {
		return false
	}
	for _, p := range d.Pools { // of two pools the first alone may have been written
		n := have.Of(p.Role)
		if n != c.asked.Of(p.Role) && (c.asking == nil || n != c.asking.Of(p.Role)) {
			return true
		}
	}
	return false
}

// withoutMetrics is the replicas where figures are missing. Where a pool itself
// could not be seen nothing can be asked for.
func (c *Core) withoutMetrics(have Replicas, blind bool) Replicas {
	want := have
	if blind || c.o.OnLoss == Hold {
		return want
	}
	for _, p := range c.o.Deployment.Pools {
		want = want.With(p.Role, max(c.o.Static.Of(p.Role), have.Of(p.Role)))
	}
	return want
}

// have are the replicas asked for until now, and the pools of which that is not known:
// those that nobody saw, or whose target and planner both lost what was asked for. What the
// target alone lost is asked for again, and warned of.
func (c *Core) have(o Observation, d Deployment) (have Replicas, absent []string, lost []profile.Warning) {
	recorded, unknown := true, false
	for _, p := range d.Pools {
		seen, ok := o.Pool(p.Role)
		if !ok {
			absent = append(absent, fmt.Sprintf("the %s pool", p.Role))
			continue
		}
		n := seen.Want
		if seen.NoRecord && c.record != nil {
			n = c.record.Of(p.Role)
		}
		switch {
		case seen.NoRecord && n >= 0:
			lost = append(lost, profile.Warnf("record_lost", "the target lost the last decision, %s of %s. It has to be asked for again", engine.Count(n, "replica"), p.Role))
		case seen.NoRecord && (seen.Lost || c.forgot):
			absent = append(absent, fmt.Sprintf("the %s pool: target and planner both lost the last decision", p.Role))
			n, unknown = 0, true
		case n < 0: // a target that was never asked: what it runs
			n, recorded = seen.Ready+seen.Starting, recorded && !seen.NoRecord
		}
		have = have.With(p.Role, n)
	}
	if unknown {
		lost = append(lost, profile.Warnf("record_unknown", "the last decision is lost, so nothing is asked for. Restore it, or start over: remove the planner's state file, and the target's acknowledgement of the decision"))
	}
	if len(absent) == 0 && recorded {
		c.record = &have
	}
	return have, absent, lost
}

// Tell lets the policy take in an interval, of a trace or one that nobody
// watched; what it makes of it is not asked.
func (c *Core) Tell(o Observation) {
	c.o.Policy.Propose(Situation{Observation: o, Deployment: c.o.Deployment})
}

// saved is what survives a restart.
type saved struct {
	Asked  *Replicas       `json:"asked,omitempty"`
	Asking *Replicas       `json:"asking,omitempty"`
	Record *Replicas       `json:"record,omitempty"`
	Forgot bool            `json:"forgot,omitempty"`
	Drift  drift           `json:"drift"`
	Policy json.RawMessage `json:"policy,omitempty"`
}

// Save gives what the core and its policy remember.
func (c *Core) Save() (json.RawMessage, error) {
	var p json.RawMessage
	if s, ok := c.o.Policy.(Stateful); ok {
		var err error
		if p, err = s.Save(); err != nil {
			return nil, fmt.Errorf("saving the policy's state: %w", err)
		}
	}
	return json.Marshal(saved{c.asked, c.asking, c.record, c.forgot, c.drift, p})
}

// ErrPolicyState is wrapped by Restore where the core's own state is well and its
// policy refuses its part: it is of another policy, or of other options.
var ErrPolicyState = errors.New("the policy's saved state does not fit")

// Restore takes back what Save gave. After ErrPolicyState it has the target's record
// alone, after another error nothing.
func (c *Core) Restore(b json.RawMessage) error {
	s, err := c.restoreRecord(b)
	if err != nil {
		return err
	}
	if p, ok := c.o.Policy.(Stateful); ok {
		if err := p.Restore(s.Policy); err != nil {
			return fmt.Errorf("%w: %w", ErrPolicyState, err)
		}
	}
	c.asked, c.asking, c.drift = s.Asked, s.Asking, s.Drift
	return nil
}

// RestoreRecord takes back only what the target's record said: that is true of every
// policy and interval.
func (c *Core) RestoreRecord(b json.RawMessage) error {
	_, err := c.restoreRecord(b)
	return err
}

func (c *Core) restoreRecord(b json.RawMessage) (s saved, err error) {
	if err := json.Unmarshal(b, &s); err != nil {
		return s, fmt.Errorf("the saved state is not the planner's: %w", err)
	}
	c.record, c.forgot = cmp.Or(s.Record, s.Asked), s.Forgot // an older file has no record
	return s, nil
}
