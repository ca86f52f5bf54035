package policy

import (
	"errors"
	"fmt"
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
	Waits bool         `json:"waits,omitempty"` // some of the pool had no GPU meanwhile
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
		if came > 0 {
			p.learnStart(s, pool.Role)
		}
		p.started(s, pool.Role, came)
		if n := pool.Starting - p.startingOf(pool.Role); n > 0 {
			p.m.Starts = append(p.m.Starts, starting{Role: pool.Role, Since: s.End(), N: n})
		} else {
			p.started(s, pool.Role, -n)
		}
		for i := range p.m.Starts {
			a := &p.m.Starts[i]
			a.Waits = a.Waits || a.Role == pool.Role && pool.Pending > 0
		}
		if n := p.late(s, pool.Role); n > 0 {
			d.Warnings = append(d.Warnings, profile.Warnf("replicas_late", "%d %s replicas have been starting for more than %v, and %d have no GPU. The planner counts only on the %d that serve; check the others, or set a longer start-up time", n, pool.Role, p.lateAge(s, pool.Role), pool.Pending, pool.Ready))
		}
	}
}

// learnStart learns from replicas that came how long the oldest of them took to start: from
// the decision before it was first seen starting, and no longer than it is waited for. One
// that never was came since the last decision, if that asked for it. Of one that waited for a
// GPU it is not known.
func (p *Default) learnStart(s planner.Situation, role planner.Role) {
	took, starts := time.Duration(0), false
	for _, a := range p.m.Starts {
		if starts = starts || a.Role == role; a.Role == role && !a.Waits {
			took = max(took, min(s.End().Sub(a.Since)+s.Length, p.lateAge(s, role)))
		}
	}
	if asked := s.End().Sub(p.m.AskedAt); !starts && p.m.Asked.Of(role) > p.m.From.Of(role) && asked > 0 {
		took = asked
	}
	if took == 0 {
		return
	}
	if p.m.Took == nil {
		p.m.Took = map[planner.Role]time.Duration{}
	}
	p.m.Took[role] = min(max(took, time.Duration(slowerStart*float64(p.m.Took[role]))), mostStart)
}

const (
	// slowerStart is how much of the slowest start counts beside a newer one.
	slowerStart = 0.8
	mostStart   = 24 * time.Hour
)

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

func (p *Default) lateAge(s planner.Situation, role planner.Role) time.Duration {
	return lateAfter * max(p.o.Ahead, p.m.Took[role], s.Length)
}

// ahead is how long a replica of the slowest pool takes to serve: as it was said, else as
// it was seen, else as it is guessed.
func (p *Default) ahead(s planner.Situation) (longest time.Duration) {
	for _, pool := range s.Deployment.Pools {
		took := p.m.Took[pool.Role]
		if took == 0 || p.o.AheadSaid {
			took = p.o.Ahead
		}
		longest = max(longest, took)
	}
	return longest
}

func (p *Default) isLate(s planner.Situation, a starting) bool {
	return s.End().Sub(a.Since) > p.lateAge(s, a.Role)
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
func (m defaultMemory) checkStarts() error {
	for _, a := range m.Starts {
		if a.N < 1 || !slices.Contains(engine.Roles(), a.Role) {
			return errors.New("of the replicas that start it has other than one or more of a known pool")
		}
	}
	for role, took := range m.Took {
		if !slices.Contains(engine.Roles(), role) || took <= 0 || took > mostStart {
			return fmt.Errorf("a replica of %s took %v to start: want above 0 to %v, of a known pool", role, took, mostStart)
		}
	}
	return nil
}
