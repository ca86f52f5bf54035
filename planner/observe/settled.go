package observe

import (
	"math"
	"slices"
	"time"

	"plimsoll/engine"
	"plimsoll/planner"
)

// settled knows how many engines of a role have been ready for so long that metrics
// have them, whatever finds and scrapes them.
type settled struct {
	least map[planner.Role]int // ready at a sample since the last interval's end
	past  []leastReady         // oldest first, as far back as settling takes
}

// leastReady are the fewest that were ready at a sample of an interval.
type leastReady struct {
	start, end time.Time
	of         map[planner.Role]int
}

// settling is how long it may take until a new engine is found and scraped: both once
// a minute, and a minute to spare.
const settling = 3 * time.Minute

// note takes in what a target says.
func (s *settled) note(state planner.State) {
	if s.least == nil {
		s.least = map[planner.Role]int{}
	}
	for _, p := range state.Pools {
		n, ok := s.least[p.Role]
		if !ok || p.Ready < n {
			s.least[p.Role] = p.Ready
		}
	}
}

// next ends an interval.
func (s *settled) next(start, end time.Time) {
	s.past = append(s.past, leastReady{start, end, s.least})
	s.least = nil
	s.past = slices.DeleteFunc(s.past, func(l leastReady) bool { return !l.end.After(end.Add(-settling)) })
}

// engines are those of a role that were ready all the time for as long as settling
// takes; 0 where that was not watched.
func (s *settled) engines(role planner.Role) int {
	if len(s.past) == 0 || s.past[len(s.past)-1].end.Sub(s.past[0].start) < settling {
		return 0
	}
	least := math.MaxInt
	for _, l := range s.past {
		least = min(least, l.of[role]) // 0 where it was not watched
	}
	return least
}

// partly takes for missing what is summed over engines of which only some are seen: the
// others serve too, and a sum without them looks like a load that fell. Of frontends
// requests are known all the same.
func (i *interval) partly(role planner.Role, seen, ready int, frontends bool) {
	if seen >= ready {
		return
	}
	of := string(role) + " "
	if role == engine.RoleAggregated {
		of = ""
	}
	why := lacking("%d of %d ready %sengines are seen", seen, ready, of)
	i.running, i.waiting = why, why
	if !frontends {
		i.lose(why)
	}
	for k := range i.pools {
		if p := &i.pools[k]; p.role == role {
			for _, n := range p.gauges() {
				*n = why
			}
		}
	}
}
