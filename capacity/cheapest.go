package capacity

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"
)

// Cheapest sizes layouts for the same traffic and SLO. It returns the index of the one
// that holds the SLO for the least money or, where none does, of the one that comes
// nearest to it, and what is known of each, in their order. A layout whose floor alone
// costs as much as another one's fleet is not sized: it has neither Replicas nor
// Infeasible. A layout that is too large to simulate is not sized either; if all are too
// large, that is the error.
func Cheapest(all []Variants, t Traffic, slo SLO, o SizeOptions) (int, []Sized, error) {
	order := make([]int, len(all))
	floor := make([]USD, len(all))
	sized := make([]Sized, len(all))
	for i, v := range all {
		order[i], floor[i], sized[i].Layout = i, v.floorUSD(t, slo), v[0]
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Or(PricedFirst(all[a][0], all[b][0]), cmp.Compare(floor[a], floor[b]))
	})
	best := -1
	var large error
	for _, i := range order {
		if best >= 0 && sized[best].Infeasible == nil && floor[i] >= sized[best].ranked() {
			continue
		}
		if o.Begin != nil {
			o.Begin(all[i][0])
		}
		s, err := all[i].Size(t, slo, o)
		if errors.Is(err, ErrTooLarge) {
			large = cmp.Or(large, err)
			continue
		}
		if err != nil {
			return i, sized, fmt.Errorf("sizing %s on %s: %w", all[i][0].Name(), all[i][0].Pools[0].GPU, err)
		}
		if sized[i] = s; best < 0 || s.before(sized[best], slo) {
			best = i
		}
	}
	if best < 0 {
		return best, sized, cmp.Or(large, errors.New("there is no layout to size"))
	}
	return best, sized, nil
}

// floorUSD is the least that the floor of any variant costs per hour, as Layout.FloorUSD.
func (v Variants) floorUSD(t Traffic, slo SLO) USD {
	least := USD(math.Inf(1))
	for _, l := range v {
		least = min(least, l.FloorUSD(t, slo))
	}
	return least
}

// PricedFirst orders layouts whose GPUs have a price before those without.
func PricedFirst(a, b Layout) int {
	switch {
	case a.Priced() == b.Priced():
		return 0
	case a.Priced():
		return -1
	}
	return 1
}

// ranked is what the fleet counts among others: see Layout.Ranked.
func (s Sized) ranked() USD { return s.Layout.Ranked().HourlyUSD(s.Replicas) }

// before reports whether s is to be preferred to o.
func (s Sized) before(o Sized, slo SLO) bool {
	if (s.Infeasible == nil) != (o.Infeasible == nil) {
		return s.Infeasible == nil
	}
	if s.Infeasible == nil {
		return cmp.Or(PricedFirst(s.Layout, o.Layout), cmp.Compare(s.ranked(), o.ranked())) < 0
	}
	return s.Infeasible.Beyond(slo) < o.Infeasible.Beyond(slo)
}

// Beyond is how many times the promise the latency is that misses it most; +Inf where
// no request was served.
func (i Infeasible) Beyond(slo SLO) float64 {
	if i.TTFTP99 == 0 {
		return math.Inf(1)
	}
	most := 0.0
	for _, x := range []struct{ got, promise time.Duration }{{i.TTFTP99, slo.TTFTP99}, {i.ITLP99, slo.ITLP99}, {i.GapP99, slo.StallP99}, {i.E2EP99, slo.E2EP99}} {
		if x.promise > 0 {
			most = max(most, x.got.Seconds()/x.promise.Seconds())
		}
	}
	return most
}
