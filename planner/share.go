package planner

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
)

// Ask is what one of several deployments under one budget would have, in GPUs.
type Ask struct {
	Priority int  // higher is served first
	Weight   int  // share among equal priorities, 1 or more
	Pair     int  // one replica of each pool: fewer GPUs serve nobody
	Least    int  // what its pools' least replicas take
	Want     int  // Least or more
	Serves   bool // it has its pair now
}

// first is what an ask has to get before any other deployment gets more than that.
func (a Ask) first() int { return min(a.Pair, a.Want) }

// PairsFit is an error unless a budget of GPUs holds one replica of each pool of every
// deployment. It names what each takes.
func PairsFit(budget int, names []string, of []Deployment) error {
	sum := 0
	var each []string
	for i, d := range of {
		gpus := d.GPUs(d.Pair())
		sum += gpus
		each = append(each, fmt.Sprintf("%s takes %d", names[i], gpus))
	}
	if sum <= budget {
		return nil
	}
	return fmt.Errorf("%d GPUs are too few for one replica of each pool of every deployment: %s, %d in all", budget, strings.Join(each, ", "), sum)
}

// Shares divides a budget of GPUs, which the shares never exceed.
//
//  1. Everyone that wants something gets one replica of each of its pools. Where the
//     budget is too small for all, the highest priority comes first; among equals, who
//     serves already, then the larger weight, then the earlier ask. A deployment that
//     cannot get its whole pair gets nothing: half a pair serves no requests.
//  2. In that order, those with their pair get their least.
//  3. The highest priority gets what it wants before the next gets anything. Among equals
//     it is weighted max-min fairness: nobody gets more than it wants, and what one leaves
//     goes to the others by weight.
//
// The same asks give the same shares.
func Shares(budget int, asks []Ask) []int {
	shares, order := make([]int, len(asks)), make([]int, len(asks))
	for i := range asks {
		order[i] = i
	}
	serves := map[bool]int{true: 1}
	slices.SortStableFunc(order, func(i, k int) int {
		a, b := asks[i], asks[k]
		return cmp.Or(cmp.Compare(b.Priority, a.Priority), cmp.Compare(serves[b.Serves], serves[a.Serves]), cmp.Compare(b.Weight, a.Weight))
	})
	left := budget
	for _, i := range order {
		if first := asks[i].first(); first <= left {
			shares[i], left = first, left-first
		}
	}
	for _, i := range order {
		if a := asks[i]; shares[i] >= a.first() {
			more := max(0, min(a.Least-shares[i], left))
			shares[i], left = shares[i]+more, left-more
		}
	}
	for _, i := range order { // of equal priorities the first pours for all
		left = pour(left, asks[i].Priority, asks, shares)
	}
	return shares
}

// pour gives GPUs one at a time to whoever of a priority has the least for its
// weight, as long as somebody that has its pair wants one.
func pour(left, priority int, asks []Ask, shares []int) int {
	for ; left > 0; left-- {
		next := -1
		for i, a := range asks {
			if a.Priority != priority || shares[i] >= a.Want || shares[i] < a.first() {
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

// of narrows a deployment's budget to its share. Where that does not hold the pools'
// least, it holds one replica of each, or none.
func (s Share) of(d Deployment) Deployment {
	if s.Max < 0 || d.Budget.Max >= 0 && d.Budget.Max <= s.Max {
		return d
	}
	d.Budget.Max, d.Budget.Min = s.Max, min(d.Budget.Min, s.Max)
	if d.GPUs(d.Least()) <= s.Max {
		return d
	}
	least := 0
	if d.GPUs(d.Pair()) <= s.Max {
		least = 1
	}
	d.Pools = slices.Clone(d.Pools)
	for i := range d.Pools {
		d.Pools[i].Min = min(d.Pools[i].Min, least)
	}
	return d
}
