package profile

import (
	"cmp"
	"slices"
	"time"
)

// leastSlack bounds what is believed of how little slack is left: beyond it an
// engine takes so long to settle that no load shows it.
const leastSlack = 0.05

// slackOf is by how much less than in proportion the time between tokens grows
// with the requests that are decoded beside each other: 1 where it does not at all,
// near 0 where twice the requests take twice as long, since then no more tokens
// come of them. It is 1 less the elasticity d ln TPOT / d ln n at the means, by a
// line of least squares through the requests due in w, each at its TPOT and the
// number that was decoded beside it, averaged over its stay.
func slackOf(rs []Request, w Window) float64 {
	beside := decodedBeside(rs)
	var n, x, y, xx, xy float64
	for _, r := range rs {
		if t := float64(r.TPOT()); w.holds(r.Due) && r.OK() && t > 0 {
			k := beside(Window{r.First, r.Last})
			n, x, y, xx, xy = n+1, x+k, y+t, xx+k*k, xy+k*t
		}
	}
	vary := xx - x*x/max(n, 1)
	if n < 3 || vary <= 0 {
		return 1
	}
	slope := (xy - x*y/n) / vary
	return min(1, max(leastSlack, 1-slope*x/y))
}

// decodedBeside gives how many requests were between their first and their last
// token, averaged over a window, from running sums.
func decodedBeside(rs []Request) func(Window) float64 {
	type change struct {
		at time.Duration
		by float64
	}
	var changes []change
	for _, r := range rs {
		if r.First > 0 && r.Last > r.First {
			changes = append(changes, change{r.First, 1}, change{r.Last, -1})
		}
	}
	slices.SortFunc(changes, func(a, b change) int { return cmp.Compare(a.at, b.at) })
	ats, counts, sums := make([]time.Duration, len(changes)), make([]float64, len(changes)), make([]float64, len(changes))
	for i, c := range changes {
		ats[i] = c.at
		if counts[i] = c.by; i > 0 {
			counts[i] += counts[i-1]
			sums[i] = sums[i-1] + counts[i-1]*float64(c.at-ats[i-1])
		}
	}
	until := func(t time.Duration) float64 { // ∫ count up to t
		i, found := slices.BinarySearch(ats, t)
		if !found {
			i--
		}
		if i < 0 {
			return 0
		}
		return sums[i] + counts[i]*float64(t-ats[i])
	}
	return func(w Window) float64 { return (until(w.To) - until(w.From)) / float64(max(w.Length(), 1)) }
}
