package policy

import "math"

// noise is what the load of an interval varies by though its rate does not, because
// requests come as Poisson's do and have lengths of their own. The queue and the crowd
// that pools are sized by count it already: what it explains of a surprise is none.
type noise struct {
	each float64 // standard deviation of one interval
	of   int     // intervals, of which the highest counts
}

// byChance is the standard deviations of noise within which a load above its forecast
// is no jump.
const byChance = 3

// quantile is what the highest of the intervals stays below in that share of cases, 0
// to 1, as normal numbers.
func (n noise) quantile(share float64) float64 {
	if n.each == 0 || n.of < 1 {
		return 0
	}
	return n.each * normal(math.Pow(share, 1/float64(n.of)))
}

// without is an excess that is as rare as share says, without the noise of a load so
// many times the one that it is of: variances of what is independent add up.
func (n noise) without(excess, share, load float64) float64 {
	of := n.quantile(share) * math.Sqrt(load)
	if excess <= 0 || of <= 0 {
		return excess
	}
	return math.Sqrt(max(0, excess*excess-of*of))
}
