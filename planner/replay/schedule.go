package replay

import (
	"errors"
	"fmt"
	"time"

	"plimsoll/engine"
	"plimsoll/planner"
)

// Schedule is replicas decided beforehand, in order of time.
type Schedule []Change

// Change is a decision: from an instant on these replicas are asked for.
type Change struct {
	At   time.Duration // since virtual time 0, below Scenario.Length
	Want planner.Replicas
}

// Check says what is wrong with a schedule in a scenario.
func (p Schedule) Check(s Scenario) error {
	var errs []error
	for i, c := range p {
		if c.At < 0 || c.At >= s.Length || i > 0 && c.At <= p[i-1].At {
			errs = append(errs, fmt.Errorf("change %d is at %v: want 0 to below %v, in order of time", i+1, c.At, s.Length))
		}
		for _, pool := range s.Deployment.Pools {
			if n := c.Want.Of(pool.Role); n < 0 {
				errs = append(errs, fmt.Errorf("change %d wants %d %s replicas: want 0 or more", i+1, n, pool.Role))
			}
		}
	}
	return errors.Join(errs...)
}

// scheduled scales by a schedule.
type scheduled struct{ left Schedule }

func (p *scheduled) next() engine.Picoseconds {
	if len(p.left) == 0 {
		return never
	}
	return engine.FromDuration(p.left[0].At)
}

func (p *scheduled) act(r *run) error {
	want := p.left[0].Want
	p.left = p.left[1:]
	return r.scale(want)
}
