package planner

import (
	"fmt"

	"plimsoll/engine"
	"plimsoll/profile"
)

const (
	// Formulas of pools are off by factors of 0.67 to 1.41 in replays of steady loads whose
	// engines are the profile; a correction further off is of the engines.
	staleLow  = 0.6
	staleHigh = 1.5
	staleFor  = 5 // intervals in a row
)

// drift counts for how many intervals in a row a correction was out of range.
type drift struct {
	Prefill int `json:"prefill"`
	Decode  int `json:"decode"`
}

func (d *drift) warnings(c Correction) []profile.Warning {
	var ws []profile.Warning
	for _, x := range []struct {
		role engine.Role
		n    *int
		f    Figure[float64]
	}{{engine.RolePrefill, &d.Prefill, c.Prefill}, {engine.RoleDecode, &d.Decode, c.Decode}} {
		if !x.f.Known {
			continue // says nothing either way
		}
		if x.f.Value >= staleLow && x.f.Value <= staleHigh {
			*x.n = 0
			continue
		}
		if *x.n++; *x.n >= staleFor {
			ws = append(ws, profile.Warnf("profile_stale", "profile stale: %s latency is %.2f× the profile's (allowed %v to %v) for %s. Profile the engine again", x.role, x.f.Value, staleLow, staleHigh, engine.Count(*x.n, "interval")))
		}
	}
	return ws
}

// add notes a rule for each pool that it changed; where it changed none, once.
func (d *Decision) add(dep Deployment, rule string, from, to Replicas, why string) {
	changed := false
	for _, p := range dep.Pools {
		if a, b := from.Of(p.Role), to.Of(p.Role); a != b {
			d.Steps = append(d.Steps, Step{rule, p.Role, a, b, why})
			changed = true
		}
	}
	if !changed {
		d.Steps = append(d.Steps, Step{Rule: rule, Why: fmt.Sprintf("%s: stays at %s", why, to)})
	}
}
