package planner

import (
	"math"
	"slices"
)

// Ask is what one of several deployments under one budget would have, in GPUs.
type Ask struct {
	Priority int // higher is served first
	Weight   int // share among equal priorities, 1 or more
	Least    int // what its pools' least replicas take: never taken away
	Want     int // Least or more
}

// Shares divides a budget of GPUs: everyone gets its least, then the highest
// priority gets what it wants before the next gets anything. Among equals it is
// weighted max-min fairness: nobody gets more than it wants, and what one leaves
// goes to the others by weight. Where not even the least fit the shares are the
// least all the same, for a promise to a deployment comes before the budget of
// all; Check the configuration first. The shares sum to at most the budget
// otherwise, and the same asks give the same shares.
func Shares(budget int, asks []Ask) []int {
	shares := make([]int, len(asks))
	left := budget
	for i, a := range asks {
		shares[i] = a.Least
		left -= a.Least
	}
	var priorities []int
	for _, a := range asks {
		priorities = append(priorities, a.Priority)
	}
	slices.Sort(priorities)
	priorities = slices.Compact(priorities)
	slices.Reverse(priorities)
	for _, p := range priorities {
		left = pour(left, p, asks, shares)
	}
	return shares
}

// pour gives GPUs one at a time to whoever of a priority has the least for its
// weight, as long as somebody wants one.
func pour(left, priority int, asks []Ask, shares []int) int {
	for ; left > 0; left-- {
		next := -1
		for i, a := range asks {
			if a.Priority != priority || shares[i] >= a.Want {
				continue
			}
			if next < 0 || shares[i]*max(1, asks[next].Weight) < shares[next]*max(1, a.Weight) {
				next = i
			}
		}
		if next < 0 {
			break
		}
		shares[next]++
	}
	return left
}

// Share is what a deployment may hold of a budget that others share.
type Share struct {
	Max  int // GPUs; below 0: its own budget alone bounds it
	Free int // GPUs that nobody holds now: what it may grow by at once
}

// Unshared is the share of a deployment with a budget of its own.
func Unshared() Share { return Share{Max: -1, Free: math.MaxInt32} }

// of narrows a deployment's budget to its share, but not below its pools' least.
func (s Share) of(d Deployment) Deployment {
	if s.Max < 0 || d.Budget.Max >= 0 && d.Budget.Max <= s.Max {
		return d
	}
	d.Budget.Max = max(s.Max, d.GPUs(d.Least()))
	d.Budget.Min = min(d.Budget.Min, d.Budget.Max)
	return d
}
