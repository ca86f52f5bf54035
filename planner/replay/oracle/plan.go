package oracle

import (
	"fmt"
	"slices"
)

// Planned is a schedule that somebody who knows all arrivals could have followed.
type Planned struct {
	Schedule Schedule
	Outcome  Outcome
	// Reaches says that the schedule reaches the attainment; otherwise it is the
	// largest one tried, and nothing that was tried does.
	Reaches bool
	// Settled says that no bin of any pool can be asked for one replica less without
	// the attainment being missed; otherwise there were too few simulations to tell.
	Settled     bool
	Simulations int // that it took
}

// DefaultSimulations is how many simulations Plan may take where nothing else is
// said.
const DefaultSimulations = 100

// Plan looks for a schedule that reaches the attainment with few GPU-hours, by so
// many simulations at most (0 = DefaultSimulations). Demand by prices, times the
// margin that reaches it, is where it begins; then it lowers windows, all bins
// first and single bins last, as many at once as do not touch each other, where
// that costs few requests for what it saves; and ends, where simulations
// are left for it, with what every single bin can do without. The same arguments give the same schedule.
func Plan(c Case, evaluate Evaluate, simulations int) (Planned, error) {
	tariffs, err := c.tariffs()
	if err != nil {
		return Planned{}, fmt.Errorf("planning: %w", err)
	}
	if simulations <= 0 {
		simulations = DefaultSimulations
	}
	p := &plan{
		Case: c, evaluate: evaluate, left: simulations,
		demand: c.demand(tariffs), may: len(c.Requests) - c.keep(),
	}
	if err := p.run(); err != nil {
		return Planned{}, fmt.Errorf("planning: %w", err)
	}
	return Planned{
		Schedule: p.best.schedule, Outcome: p.best.outcome, Reaches: p.reaches(p.best),
		Settled: p.settled, Simulations: simulations - p.left,
	}, nil
}

// plan is a plan so far.
type plan struct {
	Case
	evaluate Evaluate
	demand   [][]float64
	may      int // requests that may miss
	left     int // simulations
	best     trial
	price    float64 // misses that a GPU-hour is worth
	settled  bool
}

// trial is a schedule and what becomes of it.
type trial struct {
	schedule Schedule
	outcome  Outcome
	missed   []int // by bin
	misses   int
	guess    bool // put together from others, not simulated
}

// try simulates a schedule, and keeps it where it is the best so far.
func (p *plan) try(s Schedule) (trial, error) {
	p.left--
	o, err := p.evaluate(s)
	if err != nil {
		return trial{}, err
	}
	t := trial{schedule: s, outcome: o, missed: make([]int, p.Bins)}
	for _, pool := range o.Missed {
		for b, n := range pool {
			t.missed[b] += n
			t.misses += n
		}
	}
	if p.best.schedule == nil || p.better(t, p.best) {
		p.best = t
	}
	return t, nil
}

func (p *plan) reaches(t trial) bool { return t.outcome.Attainment >= p.Attainment }

func (p *plan) better(a, b trial) bool {
	if p.reaches(a) != p.reaches(b) {
		return p.reaches(a)
	}
	if !p.reaches(a) {
		return a.outcome.Attainment > b.outcome.Attainment
	}
	return a.outcome.GPUHours < b.outcome.GPUHours
}

func (p *plan) run() error {
	top, err := p.largest()
	if err != nil {
		return err
	}
	if !p.reaches(top) {
		if p.left < p.Bins*len(p.demand) {
			return nil
		}
		return p.settle() // fewer engines may share a cache better
	}
	start, err := p.begin(top)
	if err != nil {
		return err
	}
	for range dearer {
		if start, err = p.trim(start); err != nil {
			return err
		}
		p.price *= 4
	}
	if p.left < p.Bins*len(p.demand) {
		return nil
	}
	return p.settle()
}

// dearer is how often windows are tried again, each time for four times as many
// misses to a GPU-hour: what is cheap to save goes first.
const dearer = 3

// largest is the schedule of the most replicas, or where that misses too much, the
// one of the most that does not, of a few that are the same in all bins.
func (p *plan) largest() (trial, error) {
	const steps = 8
	var t trial
	for k := steps; k > 0; k-- {
		s := p.most(p.demand)
		for i := range s {
			for b := range s[i] {
				s[i][b] = (s[i][b]*k + steps - 1) / steps
			}
		}
		var err error
		if t, err = p.try(p.fit(s)); err != nil || p.reaches(t) || p.left == 0 {
			return t, err
		}
	}
	return p.best, nil
}

// spared is the share of the misses allowed that the first schedule leaves for
// windows where they save more.
const spared = 0.7

// begin finds the margin at which demand reaches the attainment with misses to
// spare, and what a GPU-hour is worth there.
func (p *plan) begin(top trial) (trial, error) {
	low, high, best := 1.0, 0.0, top
	worst := top // of those that missed too many
	for margin := 1.25; p.left > 0; {
		t, err := p.try(p.staffed(p.demand, margin))
		if err != nil {
			return trial{}, err
		}
		if float64(t.misses) <= (1-spared)*float64(p.may) {
			high, best = margin, t
		} else {
			low, worst = margin, t
		}
		if high == 0 && margin > 20 || high > 0 && high/low < 1.03 {
			break
		}
		margin = low * 1.3
		if high > 0 {
			margin = (low + high) / 2
		}
	}
	p.price = float64(p.may)/best.outcome.GPUHours + 1
	if cheaper := best.outcome.GPUHours - worst.outcome.GPUHours; cheaper > 0 {
		p.price = max(p.price, float64(worst.misses-best.misses)/cheaper)
	}
	return best, nil
}

// settle lowers single bins of the best schedule, one at a time, until none can be.
func (p *plan) settle() error {
	for p.left > 0 {
		before := p.best.outcome.GPUHours
		for i := range p.best.schedule {
			for b := range p.Bins {
				if p.best.schedule[i][b] <= p.Bounds[i].Min {
					continue
				}
				if p.left == 0 {
					return nil
				}
				s := p.best.schedule.Clone()
				s[i][b]--
				if _, err := p.try(s); err != nil {
					return err
				}
			}
		}
		if p.best.outcome.GPUHours == before {
			p.settled = true
			return nil
		}
	}
	return nil
}

// lowered is a schedule with a replica fewer where moves say so.
func lowered(s Schedule, moves []move) Schedule {
	out := s.Clone()
	for _, m := range moves {
		for b := m.from; b < m.to; b++ {
			out[m.pool][b] = max(m.least, out[m.pool][b]-m.by)
		}
	}
	return out
}

// byWorth sorts moves by misses for what they save.
func byWorth(moves []move) {
	slices.SortStableFunc(moves, func(a, b move) int {
		switch x, y := float64(a.misses)*b.saves, float64(b.misses)*a.saves; {
		case x < y:
			return -1
		case x > y:
			return 1
		}
		return 0
	})
}
