package capacity

import (
	"errors"
	"maps"
	"slices"
	"sort"
)

// ErrDearer is a layout of which no size within the limit holds.
var ErrDearer = errors.New("no size within the limit holds the SLO")

// hourlyUSD is what all cells cost.
func (s *search) hourlyUSD(replicas []int) USD {
	all := make([]int, len(replicas))
	for i, n := range replicas {
		all[i] = n * s.cells
	}
	return s.layout.HourlyUSD(all)
}

// limited reports whether a size costs more than it may.
func (s *search) limited(replicas []int) bool {
	return s.limitUSD > 0 && s.hourlyUSD(replicas) > s.limitUSD*(1+1e-9)
}

// most is the largest size that is worth a look: in each pool as many engines as
// the limit leaves beside the other pool's floor, or as are ample anyhow. No size
// within the limit has more in any pool. It is nil where the floor costs more.
func (s *search) most() []int {
	floor := s.layout.floor(s.traffic, s.slo)
	if s.limited(floor) {
		return nil
	}
	out := make([]int, len(floor))
	for i, n := range floor {
		at := slices.Clone(floor)
		ample := min(maxReplicas, ampleness[len(ampleness)-1]*n)
		out[i] = n - 1 + sort.Search(ample-n+1, func(k int) bool {
			at[i] = n + k
			return s.limited(at)
		})
	}
	return out
}

// affordable is what ample is under a limit: one trial, of the largest size
// within it, shows a layout to be dearer. Where trials are to decide, a long one does,
// unless no more than this is asked and the short one is certain to miss.
func (s *search) affordable() (replicas []int, holds bool, err error) {
	most := s.most()
	if most == nil {
		return nil, false, ErrDearer
	}
	t, err := s.try(most)
	if err == nil && !t.Holds() && !s.rough && (!s.within || !t.Stopped) {
		long := *s
		long.done = maps.Clone(s.done)
		long.decide()
		long.deciding = !s.within // else it may stop where the answer is clear
		t, err = long.try(most)
		s.trials = long.trials
	}
	if err == nil && !t.Holds() {
		err = ErrDearer
	}
	return most, err == nil, err
}
