package profile

import "math"

// share is how many of a sequence are within a limit, and where their share may be
// by 95 % confidence; no interval where count is zero. Count is how many independent
// ones the latencies behind it are worth, since those that are all within a limit
// hang together no less. A load remembers a share for less long than a mean: in
// the queues of underLoad the interval held the truth in 95 to 100 % of loads.
func share(within []bool, count float64) (n int, i Interval) {
	for _, in := range within {
		if in {
			n++
		}
	}
	if len(within) == 0 || count == 0 {
		return n, Interval{}
	}
	return n, wilson(float64(n)/float64(len(within)), count)
}

// wilson is the 95 % score interval of a share p of n independent trials (Wilson,
// JASA 22(158), 1927; the form of Brown, Cai & DasGupta, Statistical Science
// 16(2), 2001, eq. 4): within 0 to 1, and of some width at both ends.
func wilson(p, n float64) Interval {
	const z = 1.959963984540054 // the 97.5 % point of the normal distribution
	mid, scale := p+z*z/(2*n), 1+z*z/n
	half := z * math.Sqrt(p*(1-p)/n+z*z/(4*n*n))
	return Interval{Low: max(0, min(p, (mid-half)/scale)), High: min(1, max(p, (mid+half)/scale))} // p too, whatever rounding does
}
