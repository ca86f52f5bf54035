package replay

import (
	"cmp"
	"slices"

	"plimsoll/planner"
)

// move lowers a pool over a window of bins.
type move struct {
	from, to int
	saves    float64 // GPU-hours
	misses   int64   // more than before, as its trial showed
}

// trim lowers windows of a schedule, from all bins down to single ones, as long as
// what that saves is worth the misses. It returns what it left.
func (x *search) trim(t trial) (trial, error) {
	for size := len(t.want); size > 0 && x.left > 1; size /= 2 {
		var err error
		if t, err = x.pass(t, size); err != nil {
			return trial{}, err
		}
	}
	return t, nil
}

// pass tries every window of a size of each pool, and checks what it took. It
// returns the schedule that it left, which reaches the share.
func (x *search) pass(t trial, size int) (trial, error) {
	start := t
	stride := (size + x.before + x.after + size - 1) / size // windows from one that is tried to the next
	for _, pool := range x.s.Deployment.Pools {
		for offset := range min(stride, (len(t.want)+size-1)/size) {
			if x.left <= 1 {
				break
			}
			want, moves := x.windows(t, pool.Role, size, offset, stride)
			if len(moves) == 0 {
				continue
			}
			u, err := x.try(want)
			if err != nil {
				return trial{}, err
			}
			t = x.accept(t, u, moves)
		}
	}
	return x.check(start, t)
}

// windows are the moves of one trial, and its schedule.
func (x *search) windows(t trial, role planner.Role, size, offset, stride int) (want []planner.Replicas, moves []move) {
	want = t.want
	for from := offset * size; from < len(want); from += stride * size {
		m, by := move{from: from, to: min(from+size, len(want))}, 1
		if size >= coarse {
			level := 0
			for _, w := range want[m.from:m.to] {
				level += w.Of(role)
			}
			by = max(1, level/(m.to-m.from)/coarse)
		}
		lower, saves := x.lowered(want, role, m.from, m.to, by)
		if m.saves = saves; saves > 0 {
			want, moves = lower, append(moves, m)
		}
	}
	return want, moves
}

// coarse is the size, in bins, from which windows of large fleets are lowered by
// more than one replica: by one in so many.
const coarse = 16

// accept takes those of a trial's moves whose misses are worth it, the best first,
// as long as misses are left. What the result misses is put together from both
// trials, move by move.
func (x *search) accept(t, u trial, moves []move) trial {
	reach := func(m move) (from, to int) { return max(0, m.from-x.before), min(len(t.want), m.to+x.after) }
	for i := range moves {
		from, to := reach(moves[i])
		for b := from; b < to; b++ {
			moves[i].misses += u.missed[b] - t.missed[b]
		}
	}
	slices.SortStableFunc(moves, func(a, b move) int {
		return cmp.Compare(float64(a.misses)*b.saves, float64(b.misses)*a.saves)
	})
	taken := trial{want: slices.Clone(t.want), hours: t.hours, missed: slices.Clone(t.missed), misses: t.misses, guess: true}
	n := 0
	for _, m := range moves {
		if taken.misses+m.misses > x.may || float64(m.misses) > x.price*m.saves {
			continue
		}
		n++
		taken.misses, taken.hours = taken.misses+m.misses, taken.hours-m.saves
		copy(taken.want[m.from:m.to], u.want[m.from:m.to])
		from, to := reach(m)
		copy(taken.missed[from:to], u.missed[from:to])
	}
	switch {
	case n == 0:
		return t
	case n == len(moves) && x.reaches(u):
		return u
	}
	return taken
}

// check simulates what a pass put together. Where it misses too much, windows did
// touch each other, and the worst of it is taken back.
func (x *search) check(start, t trial) (trial, error) {
	for t.guess && x.left > 0 {
		u, err := x.try(t.want)
		if err != nil || x.reaches(u) {
			return u, err
		}
		if t.want = x.mended(start, u); slices.Equal(t.want, start.want) {
			return start, nil
		}
	}
	if t.guess {
		return x.best, nil
	}
	return t, nil
}

// mended is a trial's schedule with what it took from an earlier one given back
// around the bins in which it misses the most more than that, as many as it misses
// too many.
func (x *search) mended(start, t trial) []planner.Replicas {
	want, more := slices.Clone(t.want), make([]int64, len(t.want))
	for b := range more {
		more[b] = t.missed[b] - start.missed[b]
	}
	for left := t.misses - x.may; left > 0; {
		most := slices.Max(more)
		if most <= 0 {
			return start.want
		}
		worst := slices.Index(more, most)
		from, to := max(0, worst-x.after), min(len(want), worst+x.before+1)
		copy(want[from:to], start.want[from:to])
		left, more[worst] = left-most, 0
	}
	return want
}
