package capacity

import (
	"cmp"
	"errors"
	"slices"

	"plimsoll/profile"
)

// Chunks are the tokens of one step that are tried for aggregated engines beside
// their own default. What they cost is not monotone: small chunks give prompts more
// steps, large ones hold up the tokens of others.
func Chunks() []int { return []int{128, 256, 384, 512, 768, 1024, 2048, 4096, 8192} }

// Variants are one layout whose engines differ in a setting; the first has the
// engine's own.
type Variants []Layout

// Variation is how one of several variants was chosen.
type Variation struct {
	At  int    // place of the chosen one
	Own *Sized // the first by short trials; nil where it costs more than it might

	finalists []finalist
}

// finalist is a variant that was sized.
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

// Size sizes the variant that takes least. Short trials of a few engines say which
// hold the highest rates; of these the best are sized, and the engine's own setting,
// which wins a tie.
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
	before := o.After.Variation
	out := contest{own: before.Own}
	for _, f := range before.finalists {
		o.After = &f.sized
		if err := out.add(v, f.at, t, slo, o); err != nil {
			return Sized{}, err
		}
	}
	return out.sized()
}

// rough sizes by short trials.
func (v Variants) rough(t Traffic, slo SLO, o SizeOptions) (Sized, error) {
	var out contest
	if err := out.add(v, 0, t, slo, o); err != nil {
		return Sized{}, err
	}
	if len(out.finalists) > 0 {
		own := out.finalists[0].sized
		if out.own = &own; own.Infeasible == nil && own.Replicas[0] <= v.least(t, slo) {
			return out.sized() // no other can take less
		}
	}
	order, err := v.contenders(t, slo, o)
	if err != nil {
		return Sized{}, err
	}
	for _, i := range order {
		if err := out.add(v, i, t, slo, o); err != nil {
			return Sized{}, err
		}
	}
	return out.sized()
}

// contest is the variants sized so far.
type contest struct {
	own       *Sized
	finalists []finalist // the cheapest first
	large     error      // of those that are too large to simulate
}

// add sizes one more, unless it costs more than the cheapest so far.
func (c *contest) add(v Variants, at int, t Traffic, slo SLO, o SizeOptions) error {
	if len(c.finalists) > 0 {
		if best := c.finalists[0].sized; best.Infeasible == nil && (o.LimitUSD == 0 || best.ranked() < o.LimitUSD) {
			o.LimitUSD = best.ranked()
		}
	}
	s, err := Size(v[at], t, slo, o)
	if errors.Is(err, ErrTooLarge) {
		c.large = cmp.Or(c.large, err)
		return nil
	}
	if errors.Is(err, ErrDearer) {
		return nil
	}
	if err != nil {
		return err
	}
	c.finalists = append(c.finalists, finalist{at, s})
	slices.SortStableFunc(c.finalists, func(a, b finalist) int {
		x, y := a.sized, b.sized
		if (x.Infeasible == nil) != (y.Infeasible == nil) {
			return map[bool]int{true: -1, false: 1}[x.Infeasible == nil]
		}
		return cmp.Or(cmp.Compare(x.ranked(), y.ranked()), cmp.Compare(x.GPUs, y.GPUs), cmp.Compare(min(a.at, 1), min(b.at, 1)))
	})
	return nil
}

// sized is the cheapest, and how it was found.
func (c *contest) sized() (Sized, error) {
	if len(c.finalists) == 0 {
		return Sized{}, cmp.Or(c.large, ErrDearer)
	}
	out := c.finalists[0].sized
	out.Variation = &Variation{At: c.finalists[0].at, Own: c.own, finalists: c.finalists}
	return out, nil
}

const (
	// mostRated is how many engines the trials have that compare variants, and
	// ratedRequests how many requests, at least.
	mostRated, ratedRequests = 4, 2000
	// rateTolerance is how near the highest rate is found, and nearRate the share
	// of the best variant's from which another is looked at.
	rateTolerance, nearRate = 0.03, 0.93
	// roomy is how many times the traffic is as good as more.
	roomy = 1.25
	// contend is how many variants are sized.
	contend = 2
)

// contenders are the variants beside the first of which few engines hold the highest
// rates, the best first.
func (v Variants) contenders(t Traffic, slo SLO, o SizeOptions) ([]int, error) {
	rates := make([]float64, len(v))
	best := 0.0
	engines := min(mostRated, v.least(t, slo))
	var order []int
	for i, l := range v[1:] {
		i++
		var err error
		// What holds so much has room for the traffic: more is as good.
		most := min(roomy, float64(engines)/l.work(t, slo)[0]) * t.Rate
		if rates[i], err = l.highestRate([]int{engines}, nearRate*best, most, t, slo, byShare, o.Seed); err != nil {
			return nil, err
		}
		best = max(best, rates[i])
		order = append(order, i)
	}
	order = slices.DeleteFunc(order, func(i int) bool { return rates[i] == 0 || rates[i] < nearRate*best })
	slices.SortStableFunc(order, func(a, b int) int { return -cmp.Compare(rates[a], rates[b]) })
	return order[:min(contend, len(order))], nil
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
// variants that hold a higher rate within the SLA than the first, best first, and the
// rates of all, in requests/s.
func (v Variants) Best(w Workload, sla profile.SLA, seed uint64) (order []int, rates []float64, err error) {
	t, err := w.PeakTraffic()
	if err != nil {
		return nil, nil, err
	}
	slo := SLO{TTFTP99: sla.TTFT, ITLP99: sla.ITL, StallP99: sla.Stall}
	by := judge{(*observer).ample, func(t Trial) bool { return t.meets(sla) }}
	rates = make([]float64, len(v))
	for i, l := range v {
		if rates[i], err = l.highestRate([]int{1}, rates[0]*(1+rateTolerance), t.Rate/l.work(t, slo)[0], t, slo, by, seed); err != nil {
			return nil, nil, err
		}
		if i > 0 && rates[i] > 0 {
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return -cmp.Compare(rates[a], rates[b]) })
	return order, rates, nil
}

// judge says when a trial may stop, and whether it holds.
type judge struct {
	enough func(*observer) bool
	holds  func(Trial) bool
}

// byShare compares by what misses, not by a bound of it: of few requests the bound says
// more about their number than about the fleet.
var byShare = judge{
	func(o *observer) bool { return o.missed(allowed) || o.ample() },
	func(t Trial) bool {
		return t.missed() <= allowed && !t.Growing
	},
}

// highestRate is the highest rate above least and up to most that so many engines
// hold in short trials, to rateTolerance; 0 where none does.
func (l Layout) highestRate(replicas []int, least, most float64, t Traffic, slo SLO, by judge, seed uint64) (float64, error) {
	if most <= least {
		return 0, nil
	}
	holds := func(rate float64) (bool, error) {
		part := t.Scaled(rate / t.Rate)
		requests := l.lasting(part, slo, ratedRequests)
		if requests < part.Requests {
			part = part.busiest(requests)
		}
		trial, err := l.tryUntil(by.enough, replicas, part, slo, requests, seed)
		return by.holds(trial), err
	}
	return highest(least, most, rateTolerance, holds)
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
