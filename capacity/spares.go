package capacity

import (
	"errors"
	"fmt"
	"math"
	"sort"

	"plimsoll/engine/field"

	"gonum.org/v1/gonum/mathext"
)

// Pool is a set of alike engines of which some number has to be up.
type Pool struct {
	Name         string
	Groups       int // engines that have to be up, 1 to 1e5
	GPUsPerGroup int // 1 to 1024
	// GroupsPerDomain is how many engines fail together: 1 where an engine fails
	// by itself, 2 where a node of 8 GPUs holds two engines of TP 4.
	GroupsPerDomain int
}

// PoolSpares is a pool with its spares. Whole failure domains are added, and
// the last one needed is filled up.
type PoolSpares struct {
	Name         string
	Domains      int // failure domains in all
	SpareDomains int // of them, those that may be down
	Groups       int
	GPUs         int
	SpareGPUs    int     // GPUs beyond those of the groups needed
	Availability float64 // that enough domains are up
}

// Redundancy is what has to be added for an availability.
type Redundancy struct {
	Pools        []PoolSpares // in the order given
	SpareGPUs    int
	Availability float64 // of all pools at once
}

// Spares is the cheapest set of spares, in GPUs, with which all pools have
// enough engines up with at least the target probability; of equally cheap ones
// the most available. A failure domain is up with probability
// replicaAvailability, 0.5 to below 1, whatever the others are: with n domains
// of which m are needed, a pool is up with
//
//	P(at least m of n) = 1 − I(1−a; n−m+1, m),
//
// the binomial's tail by the regularized incomplete beta function (Abramowitz &
// Stegun 26.5.24), and both pools with the product. The target is 0 to below 1.
//
// Failures that take more than a domain down at once, such as a network's or a
// bad release's, are not in it, nor is the time that a spare takes to start: it
// runs already.
func Spares(needed []Pool, replicaAvailability, target float64) (Redundancy, error) {
	if err := checkSpares(needed, replicaAvailability, target); err != nil {
		return Redundancy{}, fmt.Errorf("sizing spares: %w", err)
	}
	// log(target) is compared with sums of logarithms, and the product of two
	// availabilities may miss it by rounding alone.
	want := math.Log(target) * (1 + 1e-12)
	spares, logUp := cheapest(needed, 1-replicaAvailability, want)
	r := Redundancy{Availability: math.Exp(logUp)}
	for i, p := range needed {
		n := p.domains() + spares[i]
		s := PoolSpares{
			Name: p.Name, Domains: n, SpareDomains: spares[i],
			Groups: n * p.GroupsPerDomain, GPUs: n * p.domainGPUs(),
			SpareGPUs:    n*p.domainGPUs() - p.Groups*p.GPUsPerGroup,
			Availability: math.Exp(p.logUp(spares[i], 1-replicaAvailability)),
		}
		r.Pools = append(r.Pools, s)
		r.SpareGPUs += s.SpareGPUs
	}
	return r, nil
}

func checkSpares(needed []Pool, replicaAvailability, target float64) error {
	errs := []error{
		within("the number of pools", float64(len(needed)), 1, 2),
		within(field.ReplicaAvailability, replicaAvailability, 0.5, 1-1e-12),
		within(field.Availability, target, 0, 1-1e-12),
	}
	for _, p := range needed {
		errs = append(errs,
			within(p.Name+" groups", float64(p.Groups), 1, 1e5),
			within(p.Name+" gpus_per_group", float64(p.GPUsPerGroup), 1, 1024),
			within(p.Name+" groups_per_domain", float64(p.GroupsPerDomain), 1, 1024))
	}
	return errors.Join(errs...)
}

// domains are needed to be up.
func (p Pool) domains() int { return (p.Groups + p.GroupsPerDomain - 1) / p.GroupsPerDomain }

func (p Pool) domainGPUs() int { return p.GroupsPerDomain * p.GPUsPerGroup }

// logUp is the logarithm of the probability that no more domains are down than
// there are spares. Of the probability itself, the digits that matter are lost
// next to 1.
func (p Pool) logUp(spares int, down float64) float64 {
	return math.Log1p(-mathext.RegIncBeta(float64(spares+1), float64(p.domains()), down))
}

// fewest spares with which the pool is up with at least exp(want), where the logarithm
// of the others' probability is given.
func (p Pool) fewest(down, want, others float64) int {
	high := 1
	for others+p.logUp(high, down) < want {
		high *= 2
	}
	return sort.Search(high, func(k int) bool { return others+p.logUp(k, down) >= want })
}

// surelyUp is the logarithm of a probability next to 1 in float64: no spare
// beyond it adds anything.
const surelyUp = -1e-15

// cheapest looks at each number of spares in the first pool that can pay, and takes
// the fewest that then do in the second, where there is one.
func cheapest(needed []Pool, down, want float64) (spares []int, logUp float64) {
	first := needed[0]
	k := first.fewest(down, want, 0)
	if len(needed) == 1 {
		return []int{k}, first.logUp(k, down)
	}
	second := needed[1]
	least, most := second.fewest(down, want, 0), second.fewest(down, surelyUp, 0)
	best := math.MaxInt // GPUs
	for last := first.fewest(down, surelyUp, 0); k <= last && k*first.domainGPUs()+least*second.domainGPUs() <= best; k++ {
		up := first.logUp(k, down)
		more := second.fewest(down, want, up)
		gpus, all := k*first.domainGPUs()+more*second.domainGPUs(), up+second.logUp(more, down)
		if more <= most && (gpus < best || gpus == best && all >= logUp) {
			best, spares, logUp = gpus, []int{k, more}, all
		}
	}
	return spares, logUp
}
