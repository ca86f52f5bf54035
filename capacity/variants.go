package capacity

import (
	"cmp"
	"errors"
	"slices"

	"plimsoll/engine"
	"plimsoll/profile"
)

// Chunks are the tokens of one step that are tried for aggregated engines beside
// their own default. What they cost is not monotone: small chunks give prompts more
// steps, large ones hold up the tokens of others.
func Chunks() []int { return []int{128, 256, 384, 512, 768, 1024, 2048, 4096, 8192} }

// Variants are one layout whose engines differ in a setting; the first has the
// engine's own.
type Variants []Layout

// ranked is what the fleet counts among others: see Layout.Ranked.
func (s Sized) ranked() USD { return s.Layout.Ranked().HourlyUSD(s.Replicas) }

// Variation is how one of several variants was chosen.
type Variation struct {
	At int // place of the chosen one

	finalists, dearer []finalist
}

// finalist is a variant that was sized; of one that was dearer sized has only its trials.
type finalist struct {
	at    int
	sized Sized
}

// PoolFloorsUSD is the least that each pool's floor costs per hour in any variant.
func (v Variants) PoolFloorsUSD(t Traffic, slo SLO) []USD {
	out := v[0].PoolFloorsUSD(t, slo)
	for _, l := range v[1:] {
		for i, usd := range l.PoolFloorsUSD(t, slo) {
			out[i] = min(out[i], usd)
		}
	}
	return out
}

// Size sizes the variants that hold the highest rates in short trials of a few engines.
// Each other variant has one trial with an engine less than the cheapest of them takes,
// because rates of a few engines do not rank large fleets. Of those that cost little more
// than the cheapest it takes the one with the smallest gaps between tokens.
func (v Variants) Size(t Traffic, slo SLO, o SizeOptions) (Sized, error) {
	if len(v) == 1 {
		return Size(v[0], t, slo, o)
	}
	if o.Rough {
		return v.rough(t, slo, o)
	}
	if o.After == nil {
		rough := o
		rough.Rough, rough.LimitUSD = true, 0
		after, err := v.rough(t, slo, rough)
		if err != nil {
			return after, err
		}
		o.After = &after
	}
	var out contest
	rough := o.After.Variation
	for _, f := range rough.finalists {
		o.After = &f.sized
		if _, err := out.add(v, f.at, t, slo, o); err != nil {
			return Sized{}, err
		}
	}
	for _, f := range rough.dearer {
		o.After = &f.sized
		if err := out.beat(v, f.at, t, slo, o); err != nil {
			return Sized{}, err
		}
	}
	return out.sized()
}

// rough sizes by short trials.
func (v Variants) rough(t Traffic, slo SLO, o SizeOptions) (Sized, error) {
	fast, smooth, err := v.contenders(t, slo, o)
	if err != nil {
		return Sized{}, err
	}
	var out contest
	for _, i := range fast {
		if _, err := out.add(v, i, t, slo, o); err != nil {
			return Sized{}, err
		}
	}
	for _, i := range smooth {
		holds, err := out.add(v, i, t, slo, o)
		if err != nil {
			return Sized{}, err
		}
		if holds {
			break
		}
	}
	if _, err := out.add(v, 0, t, slo, o); err != nil { // where nothing is gained, an engine is left as it is
		return Sized{}, err
	}
	for i := range v {
		if err := out.beat(v, i, t, slo, o); err != nil {
			return Sized{}, err
		}
	}
	return out.sized()
}

// contest is the variants sized so far, the cheapest first.
type contest struct {
	finalists []finalist
	dearer    []finalist // those of which no size within their limits holds
	large     error      // of those that are too large to simulate
}

// near is the most that a variant with smaller gaps may cost an hour: 5 % above the
// cheapest, and at most one engine more.
func (c *contest) near() USD {
	best := c.finalists[0].sized
	return min(1.05*best.ranked(), best.ranked()+best.Layout.Ranked().HourlyUSD([]int{1}))
}

// beat sizes one more variant if it holds the SLO with an engine less than the cheapest.
func (c *contest) beat(v Variants, at int, t Traffic, slo SLO, o SizeOptions) error {
	if slices.ContainsFunc(c.dearer, func(f finalist) bool { return f.at == at }) {
		return nil
	}
	if len(c.finalists) > 0 {
		best := c.finalists[0].sized
		less := best.ranked() - best.Layout.Ranked().HourlyUSD([]int{1})
		if best.Infeasible != nil || less <= 0 {
			return nil
		}
		if o.LimitUSD == 0 || less < o.LimitUSD {
			o.LimitUSD = less
		}
	}
	o.within = o.LimitUSD > 0
	_, err := c.add(v, at, t, slo, o)
	return err
}

// add sizes one more variant, and reports whether it holds the SLO within near of the
// cheapest so far.
func (c *contest) add(v Variants, at int, t Traffic, slo SLO, o SizeOptions) (bool, error) {
	if slices.ContainsFunc(c.finalists, func(f finalist) bool { return f.at == at }) {
		return true, nil
	}
	if len(c.finalists) > 0 && c.finalists[0].sized.Infeasible == nil && (o.LimitUSD == 0 || c.near() < o.LimitUSD) {
		o.LimitUSD = c.near()
	}
	s, err := Size(v[at], t, slo, o)
	if errors.Is(err, ErrTooLarge) {
		c.large = cmp.Or(c.large, err)
		return false, nil
	}
	if errors.Is(err, ErrDearer) {
		c.dearer = append(c.dearer, finalist{at, s})
		return false, nil
	}
	if err != nil {
		return false, err
	}
	c.finalists = append(c.finalists, finalist{at, s})
	slices.SortStableFunc(c.finalists, func(a, b finalist) int {
		x, y := a.sized, b.sized
		if (x.Infeasible == nil) != (y.Infeasible == nil) {
			return map[bool]int{true: -1, false: 1}[x.Infeasible == nil]
		}
		return cmp.Or(cmp.Compare(x.ranked(), y.ranked()), cmp.Compare(x.GPUs, y.GPUs), cmp.Compare(x.At.Gaps.P99, y.At.Gaps.P99))
	})
	return s.Infeasible == nil, nil
}

// sized returns the variant with the smallest gaps among those near the cheapest. The
// engine's own setting wins a tie.
func (c *contest) sized() (Sized, error) {
	if len(c.finalists) == 0 {
		return Sized{}, cmp.Or(c.large, ErrDearer)
	}
	best := c.finalists[0]
	for _, f := range c.finalists[1:] {
		gap, least := f.sized.At.Gaps.P99, best.sized.At.Gaps.P99
		if f.sized.Infeasible == nil && f.sized.ranked() <= c.near() && (gap < least || gap == least && f.at == 0) {
			best = f
		}
	}
	out := best.sized
	out.Variation = &Variation{At: best.at, finalists: c.finalists, dearer: c.dearer}
	return out, nil
}

const (
	// mostRated is how many engines the trials have that compare variants, and
	// ratedRequests how many requests, at least.
	mostRated, ratedRequests = 4, 2000
	// rateTolerance is how near the highest rate is found, and nearRate the share
	// of the best variant's from which one of smaller gaps is taken.
	rateTolerance, nearRate = 0.03, 0.95
	// contend is how many variants are sized for their rates.
	contend = 2
)

// contenders rates every variant by short trials of a few engines. fast are those with the
// highest rates, the best first; smooth are those within nearRate of the best that have
// smaller gaps, the smallest first. If none holds any rate, fast is the first variant.
func (v Variants) contenders(t Traffic, slo SLO, o SizeOptions) (fast, smooth []int, err error) {
	rates, gaps := make([]float64, len(v)), make([]engine.Picoseconds, len(v))
	best := 0.0
	engines := min(mostRated, v.least(t, slo))
	for i, l := range v {
		most := float64(engines) / l.work(t, slo)[0] * t.Rate
		if rates[i], gaps[i], err = l.highestRate([]int{engines}, nearRate*best, most, t, slo, o.Seed); err != nil {
			return nil, nil, err
		}
		best = max(best, rates[i])
		if rates[i] > 0 {
			fast = append(fast, i)
		}
	}
	if len(fast) == 0 {
		return []int{0}, nil, nil
	}
	fast = slices.DeleteFunc(fast, func(i int) bool { return rates[i] < nearRate*best })
	slices.SortStableFunc(fast, func(a, b int) int { return -cmp.Compare(rates[a], rates[b]) })
	smooth = slices.Clone(fast[1:])
	slices.SortStableFunc(smooth, func(a, b int) int { return cmp.Compare(gaps[a], gaps[b]) })
	smooth = slices.DeleteFunc(smooth, func(i int) bool { return gaps[i] >= gaps[fast[0]] })
	return fast[:min(contend, len(fast))], smooth, nil
}

// least is the fewest engines that any variant could take.
func (v Variants) least(t Traffic, slo SLO) int {
	n := maxReplicas
	for _, l := range v {
		n = min(n, l.floor(t, slo)[0])
	}
	return n
}

// Best compares one engine of each variant in short trials. It returns the places of the
// variants that hold a higher rate within the SLA than the first, or nearly the best one
// with smaller gaps, and the rates of all, in requests/s. Those within nearRate of the best
// come first, the smallest gaps first, then the others by their rates.
func (v Variants) Best(w Workload, sla profile.SLA, seed uint64) (order []int, rates []float64, err error) {
	t, err := w.PeakTraffic()
	if err != nil {
		return nil, nil, err
	}
	slo := OfSLA(sla)
	rates, gaps := make([]float64, len(v)), make([]engine.Picoseconds, len(v))
	best := 0.0
	for i, l := range v {
		if rates[i], gaps[i], err = l.highestRate([]int{1}, nearRate*rates[0], t.Rate/l.work(t, slo)[0], t, slo, seed); err != nil {
			return nil, nil, err
		}
		best = max(best, rates[i])
		if i > 0 && rates[i] > 0 && (rates[i] > rates[0]*(1+rateTolerance) || gaps[i] < gaps[0]) {
			order = append(order, i)
		}
	}
	far := func(i int) int {
		if rates[i] >= nearRate*best {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(order, func(a, b int) int {
		if far(a) == 0 && far(b) == 0 {
			return cmp.Compare(gaps[a], gaps[b])
		}
		return cmp.Or(cmp.Compare(far(a), far(b)), -cmp.Compare(rates[a], rates[b]))
	})
	return order, rates, nil
}

// highestRate is the highest rate above least and up to most that so many engines
// hold in short trials, to rateTolerance, and the p99 gap between tokens there; 0 where
// none does.
func (l Layout) highestRate(replicas []int, least, most float64, t Traffic, slo SLO, seed uint64) (rate float64, gap engine.Picoseconds, err error) {
	if most <= least {
		return 0, 0, nil
	}
	enough := func(o *observer) bool { return o.missed(1) || o.ample() }
	holds := func(rate float64) (bool, error) {
		part := t.Scaled(rate / t.Rate)
		requests := l.lasting(part, slo, ratedRequests)
		if requests < part.Requests {
			part = part.busiest(requests)
		}
		trial, err := l.tryUntil(enough, replicas, part, slo, requests, seed)
		if !trial.held() {
			return false, err
		}
		gap = trial.Gaps.P99 // each rate that holds is above those before
		return true, err
	}
	rate, err = highest(least, most, rateTolerance, holds)
	return rate, gap, err
}

// highest is the highest rate up to most that holds, to a share tol of it; 0 where
// none above least does. More of it is taken to hold no better.
func highest(least, most, tol float64, holds func(rate float64) (bool, error)) (float64, error) {
	if most <= (1+tol)*least {
		return 0, nil
	}
	rate, high := least, most
	if least == 0 {
		rate = most
	}
	for rate >= most*leastShare {
		ok, err := holds(rate)
		switch {
		case err != nil:
			return 0, err
		case ok:
			return bisect(rate, high, tol, holds)
		case least > 0:
			return 0, nil
		}
		high, rate = rate, rate/2
	}
	return 0, nil
}

// leastShare is the share of the rate that an engine could keep up with below which
// it is taken to hold none: some latency then misses without company.
const leastShare = 1.0 / 256
