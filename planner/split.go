package planner

import (
	"fmt"
	"math"

	"plimsoll/engine"
)

// Ratio bounds prefill replicas per decode replica; 0: no bound. It binds where there are
// replicas of both.
type Ratio struct{ Least, Most float64 }

// String is both bounds in words.
func (r Ratio) String() string {
	switch {
	case r.Most == 0:
		return fmt.Sprintf("at least %v", r.Least)
	case r.Least == 0:
		return fmt.Sprintf("at most %v", r.Most)
	}
	return fmt.Sprintf("%v to %v", r.Least, r.Most)
}

// Grow adds to the pool that is too small. Of bounds between which there are no whole
// numbers it keeps Least, by as few replicas as that takes.
func (r Ratio) Grow(to Replicas) Replicas {
	if to.Prefill == 0 || to.Decode == 0 {
		return to
	}
	least := func() int { return whole(r.Least * float64(to.Decode)) }
	if r.Most > 0 && to.Prefill > least() {
		to.Decode = max(to.Decode, whole(float64(to.Prefill)/r.Most))
	}
	to.Prefill = max(to.Prefill, least())
	return to
}

func (r Ratio) holds(to Replicas) bool { return r.Grow(to) == to }

// whole is replicas rounded up, but for what arithmetic makes of a whole number of them.
func whole(replicas float64) int { return int(math.Ceil(replicas - 1e-9)) }

// moveFor is how much more another split has to carry, as a share, for replicas to move
// from one pool to the other where the one that there is carries less than the forecast:
// those that move serve nobody while they stop and start, and what a profile says is not
// exact to a few per cent.
const moveFor = 0.1

// split is what the budget of a deployment is divided by.
type split struct {
	Deployment
	have     Replicas                             // asked for until now
	starting bool                                 // replicas of some pool start
	sized    func(load, reserve float64) Replicas // Decision.Sized
}

// fit is what a budget holds of want: the split that carries most of the forecast load,
// then as much as it can of the reserve (see Decision.Sized). The split that there is
// stays, and grows, unless it carries less than the forecast, another carries more by
// moveFor, and no replica starts; where a policy does not say what replicas carry it stays
// wherever it fits. Every pool keeps its least, which Check made sure that the budget
// allows, and one replica where it is wanted; where the budget does not hold one of both
// pools there is none of either. It also gives the reason.
func (x split) fit(want Replicas) (to Replicas, why string) {
	budget := x.Budget.Max
	if budget < 0 || x.GPUs(want) <= budget {
		return want, ""
	}
	if x.Aggregated() {
		return Replicas{Aggregated: budget / x.Pools[0].GPUs}, ""
	}
	least := x.Least()
	if want.Prefill > 0 && want.Decode > 0 {
		one := Replicas{Prefill: max(1, least.Prefill), Decode: max(1, least.Decode)}
		if x.GPUs(one) <= budget {
			least = one
		} else if least == (Replicas{}) {
			return least, fmt.Sprintf(", which is too small for one replica of each pool (%s). Fewer replicas serve nobody", engine.Count(x.GPUs(x.Pair()), "GPU"))
		}
	}
	kept := least
	for _, p := range x.Pools {
		kept = kept.With(p.Role, max(kept.Of(p.Role), min(x.have.Of(p.Role), want.Of(p.Role))))
	}
	if x.GPUs(x.part(0, want, least)) > budget || x.starting && x.GPUs(x.part(0, want, kept)) > budget {
		x.Ratio = Ratio{} // it cannot hold, or not yet
	}
	if x.GPUs(x.part(0, want, least)) > budget {
		return least, ""
	}
	best := x.most(want, least)
	if x.GPUs(x.part(0, want, kept)) > budget {
		return best, x.words(best)
	}
	stay := x.most(want, kept)
	if x.starting || x.sized == nil {
		return stay, x.words(stay)
	}
	if now := x.carried(stay); now >= 1 || x.carried(best) <= (1+moveFor)*now {
		return stay, x.words(stay)
	}
	return best, x.words(best) + x.words(stay)
}

// words are the part of the forecast load that replicas carry; empty where it is not known.
func (x split) words(r Replicas) string {
	if x.sized == nil {
		return ""
	}
	return fmt.Sprintf("; %s carries %.0f %% of the forecast load", r, 100*min(1, x.carried(r)))
}

// part is the replicas for a part of what is wanted, least or more of each pool: of the
// forecast load from 0 to 1, and of the reserve from 1 to 2.
func (x split) part(part float64, want, least Replicas) (to Replicas) {
	if x.sized != nil {
		to = x.sized(min(1, part), max(0, part-1))
	} else {
		for _, p := range x.Pools {
			to = to.With(p.Role, whole(part/2*float64(want.Of(p.Role))))
		}
	}
	within := func(to Replicas) Replicas {
		for _, p := range x.Pools {
			to = to.With(p.Role, min(max(to.Of(p.Role), least.Of(p.Role)), want.Of(p.Role)))
		}
		return to
	}
	return within(x.Ratio.Grow(within(to)))
}

// most is the replicas within the budget that carry most, least or more of each pool, and
// with what is left of it as many as are wanted.
func (x split) most(want, least Replicas) Replicas {
	to := x.part(largest(2, func(part float64) bool { return x.GPUs(x.part(part, want, least)) <= x.Budget.Max }), want, least)
	x.Budget.Min = x.Budget.Max
	return x.filled(to, want, want)
}

// carried is how many times the forecast load replicas carry, up to 2.
func (x split) carried(r Replicas) float64 {
	return largest(2, func(load float64) bool {
		need := x.sized(load, 0)
		return need.Prefill <= r.Prefill && need.Decode <= r.Decode
	})
}

// largest is the largest number up to most, to a ten-thousandth, that is ok, as are all
// below it.
func largest(most float64, ok func(float64) bool) float64 {
	if ok(most) {
		return most
	}
	low := 0.0
	for high := most; high-low > 1e-4; {
		if mid := (low + high) / 2; ok(mid) {
			low = mid
		} else {
			high = mid
		}
	}
	return low
}
