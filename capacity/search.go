package capacity

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"plimsoll/profile"
)

// search is a layout being sized, and the trials made so far.
type search struct {
	layout   Layout
	traffic  Traffic
	slo      SLO
	seed     uint64
	requests int  // in each trial
	decisive int  // in each that decides, at least
	deciding bool // those trials that last long
	looking  bool // for a rate that a longer trial will confirm
	rough    bool // none does
	limitUSD USD
	within   bool // why it holds at no size is not asked
	cells    int  // of which one is simulated
	done     map[[2]int]Trial
	trials   int
	atOnce   func(n int, do func(i int) error) error
}

// key is a fleet's size as a map takes it.
func key(replicas []int) [2]int {
	if len(replicas) == 1 {
		return [2]int{replicas[0]}
	}
	return [2]int{replicas[0], replicas[1]}
}

func (s *search) try(replicas []int) (Trial, error) {
	return s.tryAll([][]int{replicas})
}

// tryAll makes the trials of several sizes that are not made yet, side by side
// where the caller can, and is that of the first. The others are guesses at what
// is asked for next: they change nothing but the time that it takes.
func (s *search) tryAll(all [][]int) (Trial, error) {
	var open [][]int
	for _, replicas := range all {
		if _, done := s.done[key(replicas)]; done || slices.ContainsFunc(open, func(o []int) bool { return slices.Equal(o, replicas) }) {
			continue
		}
		if most := slices.Max(replicas); most > maxReplicas {
			return Trial{}, fmt.Errorf("%d engines in a pool, want at most %d: %w", most, maxReplicas, ErrTooLarge)
		}
		open = append(open, slices.Clone(replicas))
	}
	trials := make([]Trial, len(open))
	err := s.atOnce(len(open), func(i int) (err error) {
		trials[i], err = s.trial(open[i])
		return err
	})
	if err != nil {
		return Trial{}, err
	}
	for i, replicas := range open {
		s.done[key(replicas)] = trials[i]
	}
	s.trials += len(open)
	return s.done[key(all[0])], nil
}

// trial is one that stops where it is clear that the size misses the SLO. Those
// that decide go on until it does by far, so that their figures are worth
// something.
func (s *search) trial(replicas []int) (Trial, error) {
	enough := func(o *observer) bool { return o.missed(1) || o.ample() }
	if s.deciding || s.traffic.Requests > 0 {
		enough = func(o *observer) bool { return o.missed(clearly) }
	}
	t, err := s.layout.tryUntil(enough, replicas, s.traffic, s.slo, s.requests, s.seed)
	if longest := min(5*s.requests, 5*mostRequests); err == nil && s.deciding && !s.looking && s.requests < longest && t.Holds() && s.lucky(t) {
		return s.layout.tryUntil(enough, replicas, s.traffic, s.slo, longest, s.seed)
	}
	return t, err
}

// whole is the trial of a size to its end.
func (s *search) whole(replicas []int) (Trial, error) {
	t, err := s.try(replicas)
	if err != nil || !t.Stopped {
		return t, err
	}
	if t, err = s.layout.try(slices.Clone(replicas), s.traffic, s.slo, s.requests, s.seed); err == nil {
		s.done[key(replicas)] = t
	}
	return t, err
}

// clearly is how many times what is allowed misses where no more needs to be seen.
const clearly = 3

// lucky reports whether a trial may hold by luck: it is too short for its queues,
// and they are long enough to matter.
func (s *search) lucky(t Trial) bool {
	return s.traffic.Requests == 0 && t.Independent < manyIndependent && (t.TTFT.At.Duration() > s.slo.TTFT/4 || s.slo.E2EP99 > 0)
}

// manyIndependent requests have bounds that cover the truth about nine times in ten, by
// simulations of an M/D/1 queue that is 70 to 98 % busy, 200 each; the nominal
// bound is 95 %.
const manyIndependent = 1000

// decide makes the trials from here on long ones; those of a trace are as long
// as it is. What failed by far needs no other trial.
func (s *search) decide() {
	longer := max(s.decisive, min(longTrial*s.requests, mostRequests))
	if s.traffic.Requests > 0 || s.rough {
		return
	}
	s.requests, s.deciding = longer, true
	maps.DeleteFunc(s.done, func(_ [2]int, t Trial) bool { return t.worst().UsedAtLeast < 10 })
}

func (s *search) run() (Sized, error) {
	if !s.within {
		if why, err := s.alone(); err != nil || why != "" {
			return s.infeasible(why, err)
		}
	}
	replicas := s.layout.floor(s.traffic, s.slo)
	largest := s.ample
	if s.limitUSD > 0 {
		largest = s.affordable
	}
	ample, holds, err := largest()
	if err != nil || !holds {
		return s.none(err)
	}
	for i := range replicas { // each pool with the other one ample
		if err := s.least(replicas, ample, i); err != nil {
			return Sized{}, err
		}
	}
	if s.rough && s.limited(replicas) {
		return Sized{}, ErrDearer
	}
	if _, err = s.settle(replicas, ample); err != nil {
		return Sized{}, err
	}
	s.decide()
	if _, err = s.tryAll(append([][]int{replicas}, s.below(replicas)...)); err != nil {
		return Sized{}, err
	}
	for {
		if holds, err = s.settle(replicas, ample); err != nil {
			return Sized{}, err
		}
		if !holds {
			return s.none(nil)
		}
		if t, err := s.whole(replicas); err != nil || t.Holds() { // it may have been taken for ample
			return s.sized(replicas, err)
		}
	}
}

// none is what comes of a search that found no size.
func (s *search) none(err error) (Sized, error) {
	if err == nil && s.limitUSD > 0 {
		err = ErrDearer
	}
	return s.infeasible("", err)
}

// below are the sizes with fewer engines in one of the pools.
func (s *search) below(replicas []int) [][]int {
	var out [][]int
	for i, n := range replicas {
		if n > 1 {
			fewer := slices.Clone(replicas)
			fewer[i] -= more(n)
			out = append(out, fewer)
		}
	}
	return out
}

// ampleness is how many times the floor is taken for as many engines as help:
// utilisation is then about an eighth, or a 64th where prompts between the tokens
// of others are what misses the ITL, which takes more.
var ampleness = [...]int{8, 64}

// ample is so many engines that more hardly help, and whether they hold.
func (s *search) ample() (replicas []int, holds bool, err error) {
	for _, times := range ampleness {
		replicas = s.times(times)
		t, err := s.try(replicas)
		if err != nil || t.Holds() {
			return replicas, err == nil, err
		}
	}
	return replicas, false, nil
}

// times is the floor so many times over, but no more engines than help.
func (s *search) times(n int) []int {
	replicas := s.layout.floor(s.traffic, s.slo)
	for i := range replicas {
		replicas[i] = min(maxReplicas, replicas[i]*n, max(replicas[i]*ampleness[0], s.layout.Pools[i].idle(s.traffic)))
	}
	return replicas
}

// least sets pool i to the least size at which it holds, with the other pools at
// their place in others. It gallops up from the floor, then halves.
func (s *search) least(replicas, others []int, i int) error {
	at := slices.Clone(others)
	holds := func(n int) (bool, error) {
		at[i] = n
		t, err := s.try(at)
		return t.Holds(), err
	}
	low, high := replicas[i]-1, others[i] // low does not hold, high does
	for n, step := replicas[i], 1; n < high; n, step = n+step, 2*step {
		ok, err := holds(n)
		if err != nil {
			return err
		}
		if ok {
			high = n
			break
		}
		low = n
	}
	for high-low > 1 {
		n := low + (high-low)/2
		ok, err := holds(n)
		if err != nil {
			return err
		}
		if ok {
			high = n
		} else {
			low = n
		}
	}
	replicas[i] = high
	return nil
}

// settle makes the pools hold together: what each of them needed with the other
// one ample may be too little with both as small. It adds the engine that leaves
// the least missing per dollar, then takes away what is not needed.
func (s *search) settle(replicas, ample []int) (holds bool, err error) {
	for {
		t, err := s.try(replicas)
		if err != nil {
			return false, err
		}
		if t.Holds() {
			return true, s.shrink(replicas)
		}
		i, err := s.grow(replicas, ample, t)
		if err != nil || i < 0 {
			return false, err
		}
		replicas[i] += more(replicas[i])
	}
}

// more is how many engines a pool of so many is changed by at a time.
func more(n int) int { return max(1, n/20) }

// grow is the pool that gains most per dollar by more engines; -1 where all are
// ample. It looks at the shares themselves: the bounds of a trial that stopped
// early are wide.
func (s *search) grow(replicas, ample []int, now Trial) (best int, err error) {
	best = -1
	most := 0.0
	for i, n := range replicas {
		if n >= ample[i] {
			continue
		}
		larger := slices.Clone(replicas)
		larger[i] += more(n)
		t, err := s.try(larger)
		if err != nil {
			return -1, err
		}
		gain := (now.worst().Used - t.worst().Used) / float64(max(1e-9, s.layout.HourlyUSD(larger)-s.layout.HourlyUSD(replicas)))
		if best < 0 || gain > most {
			best, most = i, gain
		}
	}
	return best, nil
}

// shrink takes engines away, from the dearest pool first, while the SLO holds.
func (s *search) shrink(replicas []int) error {
	for again := true; again; {
		again = false
		for _, i := range s.dearestFirst() {
			for replicas[i] > 1 {
				fewer := slices.Clone(replicas)
				fewer[i]--
				t, err := s.try(fewer)
				if err != nil {
					return err
				}
				if !t.Holds() {
					break
				}
				replicas[i], again = fewer[i], true
			}
		}
	}
	return nil
}

// dearestFirst are the pools, those of the dearest engines first.
func (s *search) dearestFirst() []int {
	order := make([]int, len(s.layout.Pools))
	for i := range order {
		order[i] = i
	}
	usd := func(i int) USD { return USD(s.layout.Pools[i].GPUs) * s.layout.Pools[i].USDPerGPUHour }
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(usd(b), usd(a)) })
	return order
}

// nearSaturation warns of a trial that may hold by luck.
func (s *search) nearSaturation(t Trial) []profile.Warning {
	if !s.lucky(t) || t.Independent >= manyIndependent/2 {
		return nil
	}
	return []profile.Warning{profile.Warnf("near_saturation", "near saturation, %d simulated requests tell only as much as %.0f independent ones. One more engine may be needed", t.Requests, t.Independent)}
}

// sized tries what is below and reports.
func (s *search) sized(replicas []int, err error) (Sized, error) {
	out := Sized{Replicas: slices.Clone(replicas)}
	if err != nil {
		return out, err
	}
	below := s.below(replicas)
	if out.At, err = s.tryAll(append([][]int{replicas}, below...)); err != nil {
		return out, err
	}
	worst := -1.0
	for _, fewer := range below {
		t, pool := s.done[key(fewer)], 0
		if fewer[0] == replicas[0] {
			pool = 1
		}
		out.Below = append(out.Below, t)
		if m := t.worst().UsedAtMost; m > worst {
			worst, out.Binding = m, fmt.Sprintf("%s, by the %s pool", t.binding(), s.layout.Pools[pool].Engine.Role)
			if t.worst().UsedAtLeast <= 1 && !t.Stopped {
				out.Binding += fmt.Sprintf(" (not certain to hold: %.2g of what it allows is used, the upper bound is %.2g)", t.worst().Used, m)
			}
		}
	}
	out.Warnings = s.nearSaturation(out.At)
	if out.Binding == "" {
		out.Binding = OneEngine
	}
	return out, nil
}
