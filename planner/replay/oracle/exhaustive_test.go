package oracle

import "pgregory.net/rapid"

// exhaustive is the schedule of the fewest GPU-hours of all those that bounds and
// budget allow, by trying all of them. Where none reaches the attainment, Reaches is
// false, and the schedule is the one that comes closest.
func exhaustive(t *rapid.T, c Case) Planned {
	s := make(Schedule, len(c.Bounds))
	for i, b := range c.Bounds {
		s[i] = make([]int, c.Bins)
		for k := range s[i] {
			s[i][k] = b.Min
		}
	}
	p := &plan{Case: c, evaluate: c.Simulate}
	for more := true; more; more = c.next(s) {
		if !c.allows(s) {
			continue
		}
		if _, err := p.try(s.Clone()); err != nil {
			t.Fatal(err)
		}
	}
	return Planned{Schedule: p.best.schedule, Outcome: p.best.outcome, Reaches: p.reaches(p.best)}
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

// allows reports whether a schedule keeps bounds and budget.
func (c Case) allows(s Schedule) bool {
	for b := range c.Bins {
		gpus := 0
		for i, n := range s {
			if n[b] < c.Bounds[i].Min || n[b] > c.Bounds[i].Max {
				return false
			}
			gpus += n[b] * c.gpus(i)
		}
		if c.Budget > 0 && gpus > c.Budget {
			return false
		}
	}
	return true
}
