package oracle

import (
	"slices"

	"plimsoll/engine"
)

// move lowers a pool over a window of bins.
type move struct {
	pool, from, to int
	by, least      int
	saves          float64 // GPU-hours
	misses         int     // more than before, as its trial showed
}

// trim lowers windows of a schedule, from all bins down to single ones, as long as
// what that saves is worth the misses. It returns what it left.
func (p *plan) trim(t trial) (trial, error) {
	for size := p.Bins; size > 0 && p.left > 1; size /= 2 {
		for again := true; again; {
			before := t.outcome.GPUHours
			var err error
			if t, err = p.pass(t, size); err != nil {
				return trial{}, err
			}
			again = p.left > p.Bins/size && t.outcome.GPUHours < before*(1-worthwhile)
		}
	}
	return t, nil
}

// worthwhile is the share of GPU-hours that a pass over all windows must save to be
// done again at the same size.
const worthwhile = 0.005

// pass tries every window of a size of each pool, and checks what it took. It
// returns the schedule that it left, which reaches the attainment.
func (p *plan) pass(t trial, size int) (trial, error) {
	start := t
	before, after := p.reach()
	stride := (size + before + after + size - 1) / size // windows from one that is tried to the next
	for pool := range t.schedule {
		for offset := range min(stride, (p.Bins+size-1)/size) {
			if p.left <= 1 {
				break
			}
			moves := p.windows(t, pool, size, offset, stride)
			if len(moves) == 0 {
				continue
			}
			u, err := p.try(lowered(t.schedule, moves))
			if err != nil {
				return trial{}, err
			}
			t = p.accept(t, u, moves)
		}
	}
	return p.check(start, t)
}

// reach is how many bins before and after a window feel it.
func (p *plan) reach() (before, after int) {
	startUp := engine.Picoseconds(0)
	for _, pool := range p.Fleet.Pools {
		startUp = max(startUp, pool.StartUp)
	}
	osl := 0
	for _, r := range p.Requests {
		osl += r.OSL
	}
	stay := engine.FromDuration(p.Fleet.SLA.TTFT) + p.decodes(osl/len(p.Requests))
	return int(stay/p.Every) + 1, int((startUp+2*stay)/p.Every) + 1
}

// windows are the moves of one trial.
func (p *plan) windows(t trial, pool, size, offset, stride int) []move {
	var moves []move
	for from := offset * size; from < p.Bins; from += stride * size {
		m := move{pool: pool, from: from, to: min(from+size, p.Bins), by: 1, least: p.Bounds[pool].Min}
		level := 0
		for _, n := range t.schedule[pool][m.from:m.to] {
			level += n
		}
		if size >= coarse {
			m.by = max(1, level/(m.to-m.from)/coarse)
		}
		for _, n := range t.schedule[pool][m.from:m.to] {
			m.saves += float64(n - max(m.least, n-m.by))
		}
		if m.saves *= p.Every.Seconds() / 3600 * float64(p.gpus(pool)); m.saves > 0 {
			moves = append(moves, m)
		}
	}
	return moves
}

// coarse is the size, in bins, from which windows of large fleets are lowered by
// more than one replica: by one in so many.
const coarse = 16

// accept takes those of a trial's moves whose misses are worth it, the best first,
// as long as misses are left. What the result misses is put together from both
// trials, move by move.
func (p *plan) accept(t, u trial, moves []move) trial {
	before, after := p.reach()
	for i := range moves {
		from, to := max(0, moves[i].from-before), min(p.Bins, moves[i].to+after)
		for b := from; b < to; b++ {
			moves[i].misses += u.missed[b] - t.missed[b]
		}
	}
	byWorth(moves)
	taken := trial{schedule: t.schedule, outcome: t.outcome, missed: slices.Clone(t.missed), misses: t.misses, guess: true}
	var good []move
	for _, m := range moves {
		if taken.misses+m.misses > p.may || float64(m.misses) > p.price*m.saves {
			continue
		}
		good = append(good, m)
		taken.misses += m.misses
		taken.outcome.GPUHours -= m.saves
		for b := max(0, m.from-before); b < min(p.Bins, m.to+after); b++ {
			taken.missed[b] = u.missed[b]
		}
	}
	switch {
	case len(good) == 0:
		return t
	case len(good) == len(moves) && u.misses <= p.may:
		return u
	}
	taken.schedule = lowered(t.schedule, good)
	return taken
}

// check simulates what a pass put together. Where it misses too much, windows did
// touch each other, and the worst of it is taken back.
func (p *plan) check(start, t trial) (trial, error) {
	if !t.guess {
		return t, nil
	}
	for p.left > 0 {
		u, err := p.try(t.schedule)
		if err != nil {
			return trial{}, err
		}
		if p.reaches(u) {
			return u, nil
		}
		t = trial{schedule: p.mended(start, u)}
	}
	return p.best, nil
}

// mended is a trial's schedule with what it took from an earlier one given back
// around the bins in which it misses the most more than that, as many as it misses
// too many.
func (p *plan) mended(start, t trial) Schedule {
	before, after := p.reach()
	s := t.schedule.Clone()
	left := t.misses - p.may
	more := make([]int, p.Bins)
	for b := range more {
		more[b] = t.missed[b] - start.missed[b]
	}
	for left > 0 {
		worst := 0
		for b := range more {
			if more[b] > more[worst] {
				worst = b
			}
		}
		if more[worst] <= 0 {
			return start.schedule
		}
		for b := max(0, worst-after); b < min(p.Bins, worst+before+1); b++ {
			for i := range s {
				s[i][b] = max(s[i][b], start.schedule[i][b])
			}
		}
		left -= more[worst]
		more[worst] = 0
	}
	return s
}
