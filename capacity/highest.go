package capacity

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	"plimsoll/engine"
)

// ErrFewGPUs is a layout of which one engine in each pool takes more GPUs.
var ErrFewGPUs = errors.New("too few GPUs for one engine in each pool")

// ErrLess is a layout that holds no higher rate than it has to.
var ErrLess = errors.New("no higher rate holds the SLO")

// allotment is a variant with so many engines, and the rate above which no schedule
// keeps up.
type allotment struct {
	at       int
	replicas []int
	most     float64
	rate     float64            // the highest that it holds in short trials
	gap      engine.Picoseconds // the p99 gap between tokens there
}

// allotments are the ways to use so many GPUs, those of the highest conceivable rate
// first; of equals the first variant.
func (v Variants) allotments(gpus int, t Traffic, slo SLO) []allotment {
	var out []allotment
	for at, l := range v {
		work := l.work(t, slo)
		for _, replicas := range l.splits(gpus) {
			a := allotment{at: at, replicas: replicas, most: math.Inf(1)}
			for i, n := range replicas {
				a.most = min(a.most, t.Rate*float64(n)/work[i])
			}
			out = append(out, a)
		}
	}
	slices.SortStableFunc(out, func(a, b allotment) int { return -cmp.Compare(a.most, b.most) })
	return out
}

// splits are the engines that fit so many GPUs, as many as do beside each number of
// prefill engines.
func (l Layout) splits(gpus int) [][]int {
	last := l.Pools[len(l.Pools)-1].GPUs
	if len(l.Pools) == 1 {
		if gpus < last {
			return nil
		}
		return [][]int{{gpus / last}}
	}
	var out [][]int
	for n := 1; n*l.Pools[0].GPUs+last <= gpus; n++ {
		out = append(out, []int{n, (gpus - n*l.Pools[0].GPUs) / last})
	}
	return out
}

// Highest is the variant that holds the highest rate on so many GPUs, to
// decidedTolerance: Rate of it is simulated as Size simulates the size that it
// reports. Traffic's own rate does not matter. A layout that holds no more than least
// requests/s is ErrLess: of a search that is not rough, by one trial of each variant just
// above it.
func (v Variants) Highest(gpus int, least float64, t Traffic, slo SLO, o SizeOptions) (Sized, error) {
	o.Requests = cmp.Or(o.Requests, DefaultTrialRequests)
	if err := errors.Join(v[0].Check(), slo.Check(), within("gpus", float64(gpus), 1, maxEngineGPUs), within("requests", float64(o.Requests), leastRequests, mostRequests)); err != nil {
		return Sized{}, fmt.Errorf("the highest rate: %w", err)
	}
	all := v.allotments(gpus, t, slo)
	if len(all) == 0 {
		return Sized{}, ErrFewGPUs
	}
	best := 0.0
	var found []allotment
	for _, a := range all {
		var err error
		if a.rate, a.gap, err = v[a.at].highestRate(a.replicas, max(least*(1+rateTolerance), nearRate*best), a.most, t, slo, o.Seed); err != nil {
			return Sized{}, err
		}
		if a.rate > 0 {
			best, found = max(best, a.rate), append(found, a)
		}
	}
	switch {
	case len(found) == 0 && least > 0:
		return Sized{}, ErrLess
	case len(found) == 0 && o.Rough:
		return v[all[0].at].unheld(all[0], t, slo, o)
	case len(found) == 0: // a few requests may miss more than many do
		all[0].rate = all[0].most / 2
		found = all[:1]
	}
	slices.SortStableFunc(found, func(a, b allotment) int { return -cmp.Compare(a.rate, b.rate) })
	return v.best(found, least, t, slo, o)
}

// best decides among the fastest few by long trials, because short ones hardly tell them
// apart: one that does not hold a rate just above the best so far needs no search of its
// own. Within nearRate of the best it prefers smaller gaps between tokens.
func (v Variants) best(found []allotment, least float64, t Traffic, slo SLO, o SizeOptions) (Sized, error) {
	fast, smooth := found[:min(contend+1, len(found))], []allotment(nil)
	if o.Rough {
		fast = fast[:1]
	}
	if len(v[0].Pools) == 1 {
		smooth = slices.DeleteFunc(slices.Clone(found), func(a allotment) bool { return a.rate < nearRate*found[0].rate || a.gap >= found[0].gap })
		slices.SortStableFunc(smooth, func(a, b allotment) int { return cmp.Compare(a.gap, b.gap) })
	}
	var best Sized
	holds := func(a allotment, rate float64) (bool, error) {
		if o.Rough || rate == 0 {
			return true, nil
		}
		s := v[a.at].searchAt(rate, t, slo, o)
		s.looking = true
		trial, err := s.try(a.replicas)
		best.Trials++
		return trial.Holds(), err
	}
	decided := false
	for _, a := range fast {
		if ok, err := holds(a, max(least, best.Rate)*(1+decidedTolerance)); err != nil {
			return best, err
		} else if !ok {
			continue
		}
		s, err := v.decided(a, t, slo, o)
		if err != nil {
			return s, err
		}
		if !decided || s.Infeasible == nil && (best.Infeasible != nil || s.Rate > best.Rate) {
			best, decided = s, true
		}
	}
	if !decided {
		return best, ErrLess
	}
	for _, a := range smooth {
		if ok, err := holds(a, nearRate*best.Rate); err != nil {
			return best, err
		} else if !ok {
			continue
		}
		s, err := v.decided(a, t, slo, o)
		if err != nil {
			return s, err
		}
		if s.Infeasible == nil && s.Rate >= nearRate*best.Rate && s.At.Gaps.P99 < best.At.Gaps.P99 {
			return s, nil
		}
	}
	return best, nil
}

// unheld says why a layout holds no rate at all, and what it does at the lowest.
func (l Layout) unheld(a allotment, t Traffic, slo SLO, o SizeOptions) (Sized, error) {
	s := l.searchAt(a.most*leastShare, t, slo, o)
	why, err := s.alone()
	if err != nil {
		return Sized{}, err
	}
	trial, err := s.whole(a.replicas)
	if why == "" {
		why = "no rate found that holds on " + engine.Count(l.GPUs(a.replicas), "GPU")
	}
	return Sized{
		Layout: l, Replicas: a.replicas, GPUs: l.GPUs(a.replicas), HourlyUSD: l.HourlyUSD(a.replicas), Cells: 1,
		At: trial, Infeasible: &Infeasible{Why: why},
	}, err
}

// decidedTolerance is how near the highest rate is found in the end, by trials as
// long as those that decide on a size.
const decidedTolerance = 0.01

// decided is the highest rate near one of short trials; of a rough search the highest up to
// it that the trial holds whose figures are reported.
func (v Variants) decided(a allotment, t Traffic, slo SLO, o SizeOptions) (Sized, error) {
	l, rate, step := v[a.at], a.rate, 1-decidedTolerance
	out := Sized{Layout: l, Replicas: a.replicas, GPUs: l.GPUs(a.replicas), HourlyUSD: l.HourlyUSD(a.replicas), Cells: 1}
	if len(v) > 1 {
		out.Variation = &Variation{At: a.at}
	}
	at := func(rate float64, whole bool) (Trial, *search, error) {
		s := l.searchAt(rate, t, slo, o)
		out.Trials++
		s.looking = !whole
		trial, err := s.try(a.replicas)
		if err == nil && whole && o.holds(trial) { // else a shorter one might hold by luck
			trial, err = s.whole(a.replicas)
		}
		return trial, s, err
	}
	if o.Rough {
		step = 1 - rateTolerance
	} else {
		better, err := around(rate, a.most, decidedTolerance, func(rate float64) (bool, error) {
			trial, _, err := at(rate, false)
			return trial.Holds(), err
		})
		if err != nil {
			return out, err
		}
		if better == 0 {
			return l.unheld(a, t, slo, o)
		}
		rate = better
	}
	var missed Trial
	above := 0.0
	for out.Rate = threeDigits(rate); out.At.Pools == nil; {
		trial, s, err := at(out.Rate, true)
		switch {
		case err != nil:
			return out, err
		case o.holds(trial):
			out.At, out.Warnings = trial, s.nearSaturation(trial)
		case out.Rate < rate/2:
			return l.unheld(a, t, slo, o)
		default:
			missed, above, out.Rate = trial, out.Rate, threeDigits(out.Rate*step)
		}
	}
	for next := out.Rate * (1 + 3*decidedTolerance); above == 0 && next <= a.most*(1+3*decidedTolerance); next *= 1 + 3*decidedTolerance {
		trial, _, err := at(next, false)
		if err != nil {
			return out, err
		}
		if !trial.Holds() {
			missed, above = trial, next
		}
	}
	if above > 0 {
		out.Binding = fmt.Sprintf("%s, at %.4g requests/s", missed.binding(), above)
	}
	return out, nil
}

// UpTo finds, by short trials, the highest rate that the fleet holds, but no more than rate.
func (s Sized) UpTo(rate float64, t Traffic, slo SLO, o SizeOptions) (Sized, error) {
	o.Rough, o.Requests = true, cmp.Or(o.Requests, DefaultTrialRequests)
	return Variants{s.Layout}.decided(allotment{replicas: s.Replicas, most: rate, rate: rate}, t, slo, o)
}

// around is the highest rate that holds, to a share tol of it, begun at a guess that may
// be far off: by growing steps until one rate holds and a higher one does not. It is
// most where that holds, and 0 where nothing down to leastShare of it does.
func around(guess, most, tol float64, holds func(rate float64) (bool, error)) (float64, error) {
	low, high := 0.0, math.Inf(1)
	for rate, step := guess, 1+10*tol; low == 0 || math.IsInf(high, 1); step = min(step*step, 2) {
		if rate < most*leastShare {
			return 0, nil
		}
		ok, err := holds(rate)
		switch {
		case err != nil:
			return 0, err
		case ok && rate >= most:
			return most, nil
		case ok:
			low, rate = rate, min(step*rate, most)
		default:
			high, rate = rate, rate/step
		}
	}
	return bisect(low, high, tol, holds)
}

// bisect is the highest rate that holds between one that does and one that does not.
func bisect(low, high, tol float64, holds func(rate float64) (bool, error)) (float64, error) {
	for high > (1+tol)*low {
		rate := math.Sqrt(low * high)
		ok, err := holds(rate)
		if err != nil {
			return 0, err
		}
		if ok {
			low = rate
		} else {
			high = rate
		}
	}
	return low, nil
}

// searchAt is the search whose trials decide whether a size holds a rate.
func (l Layout) searchAt(rate float64, t Traffic, slo SLO, o SizeOptions) *search {
	s := search{layout: l, traffic: t.Scaled(rate / t.Rate), slo: slo, seed: o.Seed, requests: o.Requests, cells: 1, atOnce: oneByOne, done: map[[2]int]Trial{}}
	if t.Requests == 0 {
		s.decisive = l.lasting(s.traffic, slo, o.Requests)
		s.requests = max(s.requests, s.decisive/2)
	}
	if !o.Rough {
		s.decide()
	}
	return &s
}

// threeDigits rounds down.
func threeDigits(x float64) float64 {
	units := math.Pow(10, 2-math.Floor(math.Log10(x)))
	return math.Floor(x*units*(1+1e-12)) / units
}

// MostRate is the rate that no schedule exceeds on so many GPUs, in requests/s; 0 =
// they are too few.
func (v Variants) MostRate(gpus int, t Traffic, slo SLO) float64 {
	all := v.allotments(gpus, t, slo)
	if len(all) == 0 {
		return 0
	}
	return all[0].most
}
