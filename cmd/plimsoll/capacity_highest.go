package main

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"plimsoll/capacity"
	"plimsoll/engine"
	"plimsoll/engine/field"
	"plimsoll/profile"
)

// rateRange is how the highest rate moves with the error of the step times, in
// requests/s by short trials.
type rateRange struct {
	Low     float64        `json:"low"` // 0 = no rate holds the SLO then
	High    float64        `json:"high"`
	Factors engine.Factors `json:"factors"`
}

// nearBest is the share of the best rate so far from which a layout is shown, undecided
// that of the best short trials' from which they do not tell it from the best.
const nearBest, undecided = 0.7, 0.93

// highest is what a fleet of so many GPUs holds, by each layout that comes near the
// best, which is the first.
func (o capacityOptions) highest() (sizedPlans, error) {
	out := o.newPlans()
	out.gpus = o.gpus
	cs, skips, err := o.candidates()
	if err != nil {
		return out, err
	}
	z := &sizing{capacityOptions: o, leftOut: skips}
	if z.traffic, err = o.traffic(); err != nil {
		return out, err
	}
	if err := z.each(cs, z.faster, (*sizing).roughRates); err != nil {
		return out, err
	}
	if len(z.plans) == 0 {
		return out, field.Errorf("--gpu-count %d: no layout has room: %s", o.gpuCount, z.leftOut[0].Reason).Hint("--gpu-count %d would do", leastGPUs(cs))
	}
	from := undecided * z.plans[0].RPS // 0 where short trials hold nothing
	for {
		i := slices.IndexFunc(z.plans, func(p sizedPlan) bool {
			return p.Rough && !p.dearer && preference(p) == preference(z.plans[0]) && p.RPS >= min(from, z.plans[0].RPS)
		})
		if i < 0 {
			break
		}
		best := 0.0 // by long trials
		for _, p := range z.plans {
			if !p.Rough {
				best = max(best, p.RPS)
			}
		}
		p, err := z.highestOf(z.plans[i].candidate, best, false)
		if errors.Is(err, capacity.ErrLess) {
			p, err = z.lost(z.plans[i], best)
		}
		if err != nil {
			return out, err
		}
		z.plans[i] = p
		slices.SortStableFunc(z.plans, z.faster)
	}
	if best := &z.plans[0]; best.Infeasible == nil {
		if best.RateRange, err = z.rateRange(*best); err != nil {
			return out, err
		}
		if best.candidate.layout.Chunk > 0 {
			own, err := z.highestOf(best.candidate.chunked[0], 0, false)
			if err != nil {
				return out, err
			}
			best.Chunk.AtDefault = &defaultChunk{own.TotalGPUsFinal, own.HourlyUSD, own.RPS, own.EstimatedGapP99Ms}
		}
		out.Workload = z.workloadAt(best.RPS)
		z.traffic.Words = z.wordsAt(best.RPS)
	}
	out.Traffic, out.Plans, out.LeftOut = z.traffic.Words, z.plans, z.leftOut
	return out, nil
}

// leastGPUs is what the smallest fleet of any candidate takes.
func leastGPUs(cs []candidate) int {
	least := maxGPUs
	for _, c := range cs {
		least = min(least, c.layout.GPUs(slices.Repeat([]int{1}, len(c.layout.Pools))))
	}
	return least
}

// behind is 1 of a plan that a long trial showed to hold no more than another.
func behind(p sizedPlan) int {
	if p.dearer {
		return 1
	}
	return 0
}

// lost is a plan that a long trial showed to hold no more than the best, at that rate at most.
func (z *sizing) lost(p sizedPlan, best float64) (sizedPlan, error) {
	if p.RPS > best {
		s, err := p.sized.UpTo(best, z.traffic, z.slo, p.candidate.sizeOptions(z.seed, capacity.SizeOptions{}))
		if err != nil {
			return p, err
		}
		if p, err = z.atRate(p.candidate, s, true); err != nil {
			return p, err
		}
	}
	p.dearer = true
	return p, nil
}

// preference orders plans before their rates do: those with step times from a data sheet
// alone come after others that hold a rate.
func preference(p sizedPlan) int {
	switch {
	case p.RPS == 0:
		return 2
	case p.candidate.layout.FromDataSheet():
		return 1
	}
	return 0
}

// faster orders plans: those of the highest rate first, of equals the cheapest.
func (d demand) faster(a, b sizedPlan) int {
	return cmp.Or(cmp.Compare(preference(a), preference(b)), -cmp.Compare(a.RPS, b.RPS), cmp.Compare(behind(a), behind(b)), d.cheaper(a, b))
}

// roughRates finds the rates of all layouts by short trials, of those first that no
// schedule keeps from the highest.
func (z *sizing) roughRates(cs []candidate) error {
	own := slices.Clone(cs)
	for _, a := range own {
		for _, b := range own {
			if a.layout.Strategy == capacity.Disaggregated && b.layout.Strategy == a.layout.Strategy && a.name() != b.name() && a.layout.Pools[0].GPU == b.layout.Pools[0].GPU {
				cs = append(cs, pair(a, b))
			}
		}
	}
	most := func(c candidate) float64 { return c.variants().MostRate(z.gpuCount, z.traffic, z.slo) }
	slices.SortStableFunc(cs, func(a, b candidate) int {
		return cmp.Or(capacity.Preferred(a.layout, b.layout), -cmp.Compare(most(a), most(b)))
	})
	for _, c := range cs {
		least := 0.0
		if len(z.plans) > 0 {
			least = nearBest * z.plans[0].RPS
		}
		p, err := z.highestOf(c, least, true)
		paired := !slices.ContainsFunc(own, func(o candidate) bool { return o.name() == c.name() })
		switch {
		case paired && (errors.Is(err, capacity.ErrFewGPUs) || errors.Is(err, capacity.ErrLess)):
		case errors.Is(err, capacity.ErrFewGPUs):
			z.leaveOut(c, "one engine in each pool needs more than %s", engine.Count(z.gpuCount, "GPU"))
		case errors.Is(err, capacity.ErrLess):
			z.leaveOut(c, "less than %s requests/s on %s", plain(least), engine.Count(z.gpuCount, "GPU"))
		case err != nil:
			return err
		default:
			z.plans = append(z.plans, p)
			slices.SortStableFunc(z.plans, z.faster)
		}
	}
	return nil
}

// highestOf is a candidate at its highest rate above least.
func (z *sizing) highestOf(c candidate, least float64, rough bool) (sizedPlan, error) {
	saySizing(z.progress, c.layout)
	s, err := c.variants().Highest(z.gpuCount, least, z.traffic, z.slo, c.sizeOptions(z.seed, capacity.SizeOptions{Rough: rough}))
	if err != nil {
		return sizedPlan{}, fmt.Errorf("the highest rate of %s: %w", c.name(), err)
	}
	return z.atRate(c.chosen(s), s, rough)
}

// atRate is the plan of a candidate at the rate that it was found to hold.
func (z *sizing) atRate(c candidate, s capacity.Sized, rough bool) (sizedPlan, error) {
	o := z.capacityOptions
	o.workload = z.workloadAt(s.Rate)
	p, err := o.planOf(c, s, rough)
	p.RPS = s.Rate
	if z.arrivals != nil {
		p.TraceScale = s.Rate / z.traffic.Rate
	}
	return p, err
}

// workloadAt is the workload at another rate.
func (z *sizing) workloadAt(rps float64) capacity.Workload {
	w := z.workload
	w.Rate *= rps / z.traffic.Rate
	return w
}

// wordsAt are the traffic's at another rate.
func (z *sizing) wordsAt(rps float64) string {
	if z.arrivals != nil {
		return fmt.Sprintf("%s at %.4g times their rate, %.4g requests/s on average", z.traffic.Words, rps/z.traffic.Rate, rps)
	}
	t, err := z.workloadAt(rps).PeakTraffic()
	if err != nil {
		return z.traffic.Words
	}
	return t.Words
}

// rateRange is the rate of the plan's layout with steps that are as much slower and
// faster as nine of ten comparisons allow.
func (z *sizing) rateRange(p sizedPlan) (*rateRange, error) {
	off := p.candidate.off
	if !off.Known() {
		return nil, nil //nolint:nilnil // not known
	}
	var rates [2]float64
	err := atOnce(len(rates), func(i int) error {
		c, err := p.candidate.slower([...]engine.Factors{off, off.Inverse()}[i], z.caches)
		if err != nil {
			return err
		}
		at, err := z.highestOf(c, 0, true)
		rates[i] = at.RPS
		return err
	})
	return &rateRange{rates[0], rates[1], off}, err
}

// planOf is the plan of a sized candidate.
func (o capacityOptions) planOf(cand candidate, s capacity.Sized, rough bool) (sizedPlan, error) {
	p, err := capacity.NewPlan(s, o.workload, o.slo, o.failures, cand.provenance)
	if err != nil {
		return sizedPlan{}, field.Errorf("%v", err).Hint("--availability takes --replica-availability too: what share of the time one engine is up")
	}
	p.Warnings = profile.ImplausibleFirst(slices.Concat(p.Warnings, cand.warnings))
	return sizedPlan{Plan: p, Rough: rough, sized: s, Chunk: cand.chunk(), Source: cand.source, Prices: cand.prices, Others: o.money.others(p), candidate: cand}, nil
}
