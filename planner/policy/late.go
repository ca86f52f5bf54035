package policy

import (
	"errors"
	"slices"
	"time"

	"plimsoll/engine"
	"plimsoll/planner"
	"plimsoll/profile"
)

// starting is replicas of a pool that do not serve yet, since an instant.
type starting struct {
	Role  planner.Role `json:"role"`
	Since time.Time    `json:"since"`
	N     int          `json:"n"`
}

// lateAfter is how many times Ahead, or an interval where that is longer, a replica may
// start before it is no help on the way any more: it crashes again and again, or finds
// no place. A node that is made for it takes about as long as the replica itself.
const lateAfter = 3

// age follows the replicas that start. A source counts them and does not tell them
// apart: those that serve now are taken for the oldest, after those that are late.
func (p *Default) age(s planner.Situation, d *planner.Decision) {
	for i := range p.m.Starts { // a clock that was set back
		if p.m.Starts[i].Since.After(s.End()) {
			p.m.Starts[i].Since = s.End()
		}
	}
	for _, pool := range s.Pools {
		came := max(0, pool.Ready-p.m.Ready.Of(pool.Role))
		p.started(s, pool.Role, came)
		if n := pool.Starting - p.startingOf(pool.Role); n > 0 {
			p.m.Starts = append(p.m.Starts, starting{pool.Role, s.End(), n})
		} else {
			p.started(s, pool.Role, -n)
		}
		if n := p.late(s, pool.Role); n > 0 {
			d.Warnings = append(d.Warnings, profile.Warnf("replicas_late", "%d %s replicas have been starting for more than %v, and %d have no GPU. The planner counts only on the %d that serve; check the others, or set a longer start-up time", n, pool.Role, p.lateAge(s), pool.Pending, pool.Ready))
		}
	}
}

// started forgets n replicas of a pool that started, or were given up.
func (p *Default) started(s planner.Situation, role planner.Role, n int) {
	for _, late := range []bool{false, true} {
		for i := range p.m.Starts {
			if a := &p.m.Starts[i]; a.Role == role && p.isLate(s, *a) == late {
				take := min(n, a.N)
				a.N -= take
				n -= take
			}
		}
	}
	p.m.Starts = slices.DeleteFunc(p.m.Starts, func(a starting) bool { return a.N == 0 })
}

func (p *Default) lateAge(s planner.Situation) time.Duration {
	return lateAfter * max(p.o.Ahead, s.Length)
}

func (p *Default) isLate(s planner.Situation, a starting) bool {
	return s.End().Sub(a.Since) > p.lateAge(s)
}

// late is the replicas of a pool that have been starting for too long.
func (p *Default) late(s planner.Situation, role planner.Role) (n int) {
	for _, a := range p.m.Starts {
		if a.Role == role && p.isLate(s, a) {
			n += a.N
		}
	}
	return n
}

// startingOf is the replicas of a pool that were starting when it was last looked at.
func (p *Default) startingOf(role planner.Role) (n int) {
	for _, a := range p.m.Starts {
		if a.Role == role {
			n += a.N
		}
	}
	return n
}

// coming reports whether replicas of a pool are on their way.
func (p *Default) coming(s planner.Situation, pool planner.PoolObservation) bool {
	return pool.Starting > p.late(s, pool.Role)
}

// checkStarts refuses what age cannot have left.
func checkStarts(starts []starting) error {
	for _, a := range starts {
		known := a.Role == engine.RolePrefill || a.Role == engine.RoleDecode || a.Role == engine.RoleAggregated
		if a.N < 1 || !known {
			return errors.New("of the replicas that start it has other than one or more of a known pool")
		}
	}
	return nil
}
