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
	return n, wilson(float64(n)/float64(len(within)), count, z95)
}

// The 97.5 % and the 95 % point of the normal distribution.
const z95, z90 = 1.959963984540054, 1.6448536269514722

// ShareInterval is the 90 % interval of a share of n independent trials; of less than one
// it says nothing.
func ShareInterval(share, n float64) Interval {
	if n < 1 {
		return Interval{High: 1}
	}
	return wilson(share, n, z90)
}

// wilson is the score interval of a share p of n independent trials (Wilson, JASA
// 22(158), 1927; the form of Brown, Cai & DasGupta, Statistical Science 16(2), 2001,
// eq. 4) for a point z of the normal distribution: within 0 to 1, and of some width at
// both ends.
func wilson(p, n, z float64) Interval {
	mid, scale := p+z*z/(2*n), 1+z*z/n
	half := z * math.Sqrt(p*(1-p)/n+z*z/(4*n*n))
	return Interval{Low: max(0, min(p, (mid-half)/scale)), High: min(1, max(p, (mid+half)/scale))} // p too, whatever rounding does
}
