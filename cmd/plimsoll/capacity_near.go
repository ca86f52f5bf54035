package main

import (
	"errors"
	"fmt"
	"slices"

	"plimsoll/capacity"
	"plimsoll/profile"
)

// layoutNear is the code of the warning that a little more or less load makes another
// layout the cheapest, and nearLoad is that load, a share of the plan's.
const (
	layoutNear = "layout_near"
	nearLoad   = 0.02
)

// addNear warns of the cheapest plan where another layout of those sized is cheaper at
// nearLoad more, or at nearLoad less.
func (z *sizing) addNear() error {
	if len(z.plans) < 2 || !feasible(z.plans) {
		return nil
	}
	less, errLess := z.cheaperWithLess()
	more, errMore := z.cheaperWithMore()
	for _, w := range []string{less, more} {
		if w != "" {
			z.plans[0].Warnings = append(z.plans[0].Warnings, profile.Warnf(layoutNear, "%s", w))
		}
	}
	return errors.Join(errLess, errMore)
}

// cheaperWithMore says which layout is cheaper at more load; "" = none is. If the plan's
// fleet does not hold it, which one trial shows, it takes one engine more at least: only
// layouts that cost less than that matter.
func (z *sizing) cheaperWithMore() (string, error) {
	best := z.plans[0]
	var larger sizedPlan
	for i := range best.sized.Replicas {
		s := best.sized
		s.Replicas = slices.Clone(s.Replicas)
		s.Replicas[i]++
		p, err := z.planOf(best.candidate, s, true)
		if err != nil {
			return "", err
		}
		if i == 0 || p.ranked() < larger.ranked() {
			larger = p
		}
	}
	limit := larger.ranked()
	if !slices.ContainsFunc(z.plans[1:], func(p sizedPlan) bool { return z.mayCost(p, limit, 1+nearLoad) }) {
		return "", nil
	}
	holds, err := best.sized.HoldsAt(1+nearLoad, z.traffic, z.slo, best.candidate.sizeOptions(z.seed, capacity.SizeOptions{}))
	if err != nil || holds {
		return "", err
	}
	other, err := z.cheaperThan(limit, 1+nearLoad)
	if err != nil || other == nil {
		return "", err
	}
	return fmt.Sprintf("at %g %% more load, %s is cheaper (%s). %s then needs more than its %s, at least %s",
		100*nearLoad, other.candidate.name(), other.takes(), best.candidate.name(), best.engines(), larger.candidate.words(limit)), nil
}

// mayCost reports whether a plan is near enough to cost less than the limit at so many
// times the load: with more it takes no fewer engines.
func (z *sizing) mayCost(p sizedPlan, limit capacity.USD, times float64) bool {
	return p.Infeasible == nil && capacity.Preferred(p.candidate.layout, z.plans[0].candidate.layout) == 0 &&
		p.ranked() <= nearly*limit && (times < 1 || p.ranked() < limit)
}

// cheaperWithLess says which layout is cheaper at less load; "" = none is.
func (z *sizing) cheaperWithLess() (string, error) {
	other, err := z.cheaperThan(z.plans[0].ranked(), 1-nearLoad)
	if err != nil || other == nil {
		return "", err
	}
	best, err := z.sizeOne(z.plans[0].candidate, z.traffic.Scaled(1-nearLoad), capacity.SizeOptions{})
	if err != nil || other.ranked() >= best.ranked() {
		return "", err
	}
	return fmt.Sprintf("at %g %% less load, %s is cheaper (%s). %s then needs %s",
		100*nearLoad, other.candidate.name(), other.takes(), best.candidate.name(), best.takes()), nil
}

// cheaperThan is the first layout beside the plan's that costs less than the limit at so
// many times the load; nil = none does. Short trials find it, long ones confirm it.
func (z *sizing) cheaperThan(limit capacity.USD, times float64) (*sizedPlan, error) {
	t := z.traffic.Scaled(times)
	for _, p := range z.plans[1:] {
		if !z.mayCost(p, limit, times) {
			continue
		}
		other, err := z.sizeOne(p.candidate, t, capacity.SizeOptions{Rough: true, LimitUSD: limit * (1 - 1e-6)})
		if err == nil && other.ranked() < limit {
			other, err = z.sizeOne(p.candidate, t, capacity.SizeOptions{After: &other.sized})
		}
		switch {
		case errors.Is(err, capacity.ErrDearer), errors.Is(err, capacity.ErrTooLarge):
		case err != nil:
			return nil, err
		case other.Infeasible == nil && other.ranked() < limit:
			return &other, nil
		}
	}
	return nil, nil
}

// engines are how many the plan has, spares included.
func (p sizedPlan) engines() string { return engineCounts(p.Plan) + " engines" }

// takes are its engines and what they cost.
func (p sizedPlan) takes() string { return p.engines() + ", " + p.candidate.words(p.ranked()) }
