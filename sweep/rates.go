package sweep

import (
	"math"

	"plimsoll/profile"
)

// rateProbes bounds how many rates highestRate tries: a bracket by doubling that
// is off by a hundred takes seven, 5 % within a factor of two four more.
const rateProbes = 20

// highestRate finds the highest rate, in requests/s, whose load holds, to within a
// share tol of it, assuming that more load is no better: from start it doubles or
// halves until one holds and one does not, then halves their ratio. None below
// floor is tried. It returns 0 where none holds.
func highestRate(start, floor, tol float64, at func(rate float64) (holds bool, err error)) (float64, error) {
	lo, hi := 0.0, math.Inf(1)
	for range rateProbes {
		var rate float64
		switch {
		case lo == 0 && math.IsInf(hi, 1):
			rate = start
		case lo == 0:
			rate = hi / 2
		case math.IsInf(hi, 1):
			rate = lo * 2
		case hi <= lo*(1+tol):
			return lo, nil
		default:
			rate = math.Sqrt(lo * hi)
		}
		if rate = fourDigits(rate); rate < floor || rate <= lo || rate >= hi {
			return lo, nil
		}
		holds, err := at(rate)
		if err != nil {
			return lo, err
		}
		if holds {
			lo = rate
		} else {
			hi = rate
		}
	}
	return lo, nil
}

// fourDigits rounds a rate to what its name in an id says.
func fourDigits(x float64) float64 {
	if x <= 0 || math.IsInf(x, 0) || math.IsNaN(x) {
		return x
	}
	unit := math.Pow(10, math.Floor(math.Log10(x))-3)
	return math.Round(x/unit) * unit
}

// expectedRate is where the search begins, in requests/s: what one engine would
// serve that decodes as many at once as still meet the ITL, and takes each
// prompt's time out of that; without a latency model, half of what would fill its
// prefill or its limit of sequences if company cost nothing. To begin too high costs
// little: a load that misses is stopped early.
func (r *runner) expectedRate(s *trial, alone profile.Point) float64 {
	slow := 1 / max(alone.Load.E2E.Mean.Seconds(), 1e-6)
	e, ok := r.opts.expect(s.cfg)
	if !ok {
		prefill := float64(attentionReplicas(s.cfg)) / max(alone.TTFT.Mean.Seconds(), 1e-6)
		room := r.opts.rounds(s.facts, s.cfg, r.opts.ISL, r.opts.OSL)
		return max(slow, min(prefill, float64(room.top*room.each)*slow)/2)
	}
	rate, _ := r.opts.modelRate(s.cfg, e, profile.Aggregated)
	return max(slow, rate)
}
