package oracle

import (
	"fmt"
	"math"
)

// mostSchedules bounds what Exhaustive tries.
const mostSchedules = 1 << 20

// Exhaustive is the schedule of the fewest GPU-hours of all those that bounds and
// budget allow, by trying all of them: replicas of each pool in each bin. It
// refuses cases of more than a million schedules. Where none reaches the
// attainment, Reaches is false, and the schedule is the one that comes closest.
func Exhaustive(c Case, evaluate Evaluate) (Planned, error) {
	if err := c.Check(); err != nil {
		return Planned{}, fmt.Errorf("trying all schedules: %w", err)
	}
	all := 1.0
	s := make(Schedule, len(c.Bounds))
	for i, b := range c.Bounds {
		all *= math.Pow(float64(b.Max-b.Min+1), float64(c.Bins))
		s[i] = make([]int, c.Bins)
		for k := range s[i] {
			s[i][k] = b.Min
		}
	}
	if all > mostSchedules {
		return Planned{}, fmt.Errorf("trying all schedules: there are %.3g of them, want a million at most: fewer bins or replicas", all)
	}
	p := &plan{Case: c, evaluate: evaluate}
	for more := true; more; more = c.next(s) {
		if !c.allows(s) {
			continue
		}
		if _, err := p.try(s.Clone()); err != nil {
			return Planned{}, fmt.Errorf("trying all schedules: %w", err)
		}
	}
	if p.best.schedule == nil {
		return Planned{}, fmt.Errorf("trying all schedules: none keeps the budget of %d GPUs and the bounds %v", c.Budget, c.Bounds)
	}
	return Planned{
		Schedule: p.best.schedule, Outcome: p.best.outcome, Reaches: p.reaches(p.best),
		Settled: true, Simulations: -p.left,
	}, nil
}

// next counts a schedule on; false after the last one.
func (c Case) next(s Schedule) bool {
	for i := range s {
		for b := range s[i] {
			if s[i][b]++; s[i][b] <= c.Bounds[i].Max {
				return true
			}
			s[i][b] = c.Bounds[i].Min
		}
	}
	return false
}
