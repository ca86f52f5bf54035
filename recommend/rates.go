package recommend

import (
	"cmp"
	"math"
	"slices"

	"plimsoll/profile"
)

// Bracket is where the highest rate lies that an engine holds within an SLA, requests/s: by
// 95 % probability between AtLeast and AtMost, and as likely above Likely as below.
// AtLeast is 0 where too few requests were judged to name a rate that holds, and AtMost is
// infinite where nothing bounds it.
type Bracket struct{ AtLeast, AtMost, Likely float64 }

// Width is AtMost over AtLeast; infinite where one of them is not known.
func (b Bracket) Width() float64 {
	if b.AtLeast <= 0 {
		return math.Inf(1)
	}
	return b.AtMost / b.AtLeast
}

// The curves that loads are held against: one for each figure that the SLA speaks of, which
// passes its limit at the rate that is looked for.
const (
	rateSteps  = 600 // of the rates that are considered, in equal ratios
	slopeSteps = 14
	leastSlope = 0.8   // of a figure's odds, or excess, over the rate, both logarithmic: one place, hardly used (M/D/1)
	mostSlope  = 30.   // many places near saturation (M/D/64: 19)
	belowLoads = 30    // rates below the least that was tried, as a ratio
	aboveLoads = 8     // and above the highest
	aboveBurst = 1.1   // rates above what a burst was served at, where nothing more may be in flight
	curveReach = 1.5   // of the logarithm of the odds of a late request, from what is allowed: the curve is none far from it
	falseAlarm = 0.02  // of loads that are said to grow, or to have a p99 gap beyond its limit
	surelyWide = 0.025 // that the rate is beyond either end of a Bracket
	// The rate that is expected before any load, and the slope, are within these of the
	// logarithm as likely as not, and may be anywhere (Cauchy's distribution): they are of
	// another server.
	expectDoubt, slopeDoubt = 0.4, 0.4
	meanDoubt               = 0.05 // of what company adds to a mean, beside its interval: the curve is none of a queue's
	waitSpread              = 2    // deviation of waits over their mean: exponential ones of a third of requests (√5)
)

// HighestRate is by the evidence of loads at several rates, all of one configuration of an
// aggregated engine. Each says how many of its requests were beyond a limit, worth as many
// independent ones as their latencies are (profile.Distribution.Neff), or of a mean how far
// it was off. What they say together of the rate at which the SLA's statistic is at its
// limit is worked out by Bayes' rule over a grid of rates and slopes: the odds of a late
// request, or what company adds to a mean, grow as a power of the rate. Beforehand rates are
// as likely as not within a factor of 1.5 of what requests one after the other and a burst suggest
// (ExpectedRate), slopes likewise, or where there was no burst as their logarithms. No
// single load has to be decided, so that short ones near the rate tell most.
func HighestRate(points []profile.Point, sla profile.SLA) Bracket {
	e := evidence{sla: sla, burst: math.Inf(1)}
	for _, p := range points {
		e.take(p)
	}
	if len(e.loads) == 0 {
		return Bracket{AtMost: e.burst, Likely: e.burst / 2}
	}
	return e.bracket()
}

// evidence is what the loads of a configuration say.
type evidence struct {
	sla    profile.SLA
	alone  *profile.Attainment
	atOnce *profile.Attainment // of a burst
	osl    int
	burst  float64 // requests/s that cannot be exceeded
	loads  []profile.Point
}

// IsBurst reports whether a point is a burst: requests that were all due at once, which
// show what an engine serves at most, at no rate of their own.
func IsBurst(p profile.Point) bool {
	return p.Phase == profile.Aggregated && p.Load != nil && p.Rate == 0 && p.Batch > 0
}

func (e *evidence) take(p profile.Point) {
	switch {
	case p.Phase != profile.Aggregated || p.Load == nil || p.Invalid != "" || p.Discarded != "" || p.Load.Requests == 0:
	case IsBurst(p):
		e.atOnce = p.Load
		if most := aboveBurst * p.Load.Achieved; p.Asked == p.Cap && most > 0 {
			e.burst = min(e.burst, most)
		}
	case p.Rate == 0:
		e.alone, e.osl = p.Load, p.OSL
	case p.Load.Easier == "":
		e.loads = append(e.loads, p)
	}
}

// highest is the highest rate that was tried: none above it is said to hold.
func (e *evidence) highest() float64 {
	return slices.MaxFunc(e.loads, func(a, b profile.Point) int { return cmp.Compare(a.Rate, b.Rate) }).Rate
}

// rates are those that are considered.
func (e *evidence) rates() []float64 {
	low, high := math.Inf(1), 0.0
	for _, p := range e.loads {
		low, high = min(low, p.Rate), max(high, p.Rate)
	}
	low, high = low/belowLoads, high*aboveLoads
	if e.burst > low {
		high = min(high, e.burst)
	}
	out := make([]float64, rateSteps+1)
	for i := range out {
		out[i] = low * math.Pow(high/low, float64(i)/rateSteps)
	}
	return out
}

// figure is one that the SLA bounds: of a load, what is said by it where the rate that is
// looked for is r and the slope b, as the logarithm of a probability; and the slope that is
// expected, 0 where none is.
type figure struct {
	says  func(load profile.Point, r, b float64) float64
	slope float64
}

// expected is the rate that is expected before any load; 0 where nothing is.
func (e *evidence) expected() float64 {
	if e.alone == nil || e.atOnce == nil {
		return 0
	}
	return expectedRate(e.alone, e.atOnce, e.sla, e.osl)
}

// figures are those of the SLA.
func (e *evidence) figures() []figure {
	ttft := figure{says: e.mean(float64(e.sla.TTFT), ttftOf)}
	itl := figure{says: e.mean(float64(e.sla.ITL), tpotOf)}
	if e.sla.Stat.Quantile() > 0 {
		ttft.says = e.late(ttftOf, func(a *profile.Attainment) int { return a.WithinTTFT })
		late := e.late(tpotOf, func(a *profile.Attainment) int { return a.WithinITL })
		itl.says = func(p profile.Point, r, b float64) float64 {
			if e.itlFar(p.Load) {
				return sided(false, p.Rate, r, farWrong)
			}
			return late(p, r, b)
		}
	}
	if e.alone != nil && e.atOnce != nil && e.atOnce.Achieved > 0 {
		ttft.slope = placesOf(e.alone, e.atOnce).slope((e.sla.TTFT - e.alone.TTFT.Mean).Seconds(), e.sla.Stat)
	}
	all := []figure{ttft, itl}
	if e.sla.Stall > 0 {
		all = append(all, figure{says: func(p profile.Point, r, _ float64) float64 {
			return sided(p.Load.ITL.P99 > e.sla.Stall, p.Rate, r, falseAlarm)
		}})
	}
	return all
}

// itlFar reports whether no request of a load comes near the limit of ITL.
func (e *evidence) itlFar(a *profile.Attainment) bool {
	d := a.TPOT
	return d.N == 0 || d.N > 1 && a.WithinITL >= d.N && e.sla.ITL-d.Mean > farOff*d.Std
}

func ttftOf(a *profile.Attainment) profile.Distribution { return a.TTFT }
func tpotOf(a *profile.Attainment) profile.Distribution { return a.TPOT }

// farOff is how many deviations of requests' ITL the limit is off where none is near it, and
// farWrong how often more than are allowed exceed it all the same.
const (
	farOff   = 6
	farWrong = 1e-4
)

// sided is what a load says that only holds or misses a limit, at a rate held against r,
// and with which probability it is wrong.
func sided(misses bool, rate, r, wrong float64) float64 {
	if misses == (r > rate) {
		return math.Log(wrong)
	}
	return math.Log(1 - wrong)
}

// late is the share of requests beyond a limit, where a percentile counts.
func (e *evidence) late(dist func(*profile.Attainment) profile.Distribution, within func(*profile.Attainment) int) func(profile.Point, float64, float64) float64 {
	allowed := 1 - e.sla.Stat.Quantile()
	return func(p profile.Point, r, b float64) float64 {
		n := float64(dist(p.Load).N)
		if n == 0 {
			return 0
		}
		worth := worthOf(dist(p.Load))
		share := max(0, n-float64(within(p.Load))) / n
		seen := (share*worth + 0.5) / (worth + 1)
		far := (math.Log(seen/(1-seen)) - math.Log(allowed/(1-allowed))) / curveReach
		worth *= math.Exp(-far * far / 2)
		late := worth * share
		odds := math.Log(allowed/(1-allowed)) + b*math.Log(p.Rate/r)
		return late*logistic(odds) + (worth-late)*logistic(-odds)
	}
}

// logistic is ln(1/(1+e^−x)).
func logistic(x float64) float64 {
	if x < 0 {
		return x - math.Log1p(math.Exp(x))
	}
	return -math.Log1p(math.Exp(-x))
}

// worthOf is how many independent samples a distribution is worth; all of them where that
// was not worked out.
func worthOf(d profile.Distribution) float64 {
	if d.Neff > 0 {
		return min(d.Neff, float64(d.N))
	}
	return float64(d.N)
}

// mean is a mean latency, of which company adds more the higher the rate.
func (e *evidence) mean(limit float64, dist func(*profile.Attainment) profile.Distribution) func(profile.Point, float64, float64) float64 {
	alone := 0.0
	if e.alone != nil {
		alone = float64(dist(e.alone).Mean)
	}
	return func(p profile.Point, r, b float64) float64 {
		d := dist(p.Load)
		if d.N == 0 || alone >= limit {
			return 0
		}
		// Waits are skewed: what they add to a latency is nearer to normal by its logarithm,
		// and a load that saw few of them says little of their spread.
		added := max(float64(d.Mean)-alone, 0.01*(limit-alone))
		expect := math.Log(limit-alone) + b*math.Log(p.Rate/r)
		off := math.Hypot(float64(d.Half)/1.96/added, waitSpread/math.Sqrt(worthOf(d)))
		z := min(math.Abs(math.Log(added)-expect)/max(off, meanDoubt), 6) // beyond that the curve is wrong, not the load
		return -z*z/2 - math.Log(max(off, meanDoubt))
	}
}

// bracket combines what all loads say of all figures: the rate that is looked for is the
// least of those of the figures.
func (e *evidence) bracket() Bracket {
	rates := e.rates()
	expect := e.expected()
	above := make([]float64, len(rates)) // probability that the rate is above each
	for i := range above {
		above[i] = 1
	}
	for _, f := range e.figures() {
		for i, q := range e.above(f, rates, expect) {
			above[i] *= q
		}
	}
	at := func(q float64) float64 {
		for i, a := range above {
			if a <= q {
				return rates[i]
			}
		}
		return rates[len(rates)-1]
	}
	b := Bracket{Likely: at(0.5)}
	spread := math.Exp(1.96 * deviation(above, rates))
	b.AtLeast, b.AtMost = min(b.Likely/spread, e.highest()), min(b.Likely*spread, e.burst)
	if !slices.ContainsFunc(e.loads, e.misses) {
		b.AtMost = e.burst
	}
	if !e.supports(b.AtLeast) {
		b.AtLeast = 0
	}
	return b
}

// misses reports whether a load missed the SLA, surely or not: without one nothing but a
// burst bounds the rate.
func (e *evidence) misses(p profile.Point) bool {
	a := p.Load
	return a.Growing || a.FailsTooOften || a.TTFT.At(e.sla.Stat) > e.sla.TTFT || a.TPOT.At(e.sla.Stat) > e.sla.ITL || e.sla.Stall > 0 && a.ITL.P99 > e.sla.Stall
}

// deviation is that of the logarithm of a rate, by the probability that it is above each of
// the rates.
func deviation(above, rates []float64) float64 {
	mean, square := 0.0, 0.0
	for i := 1; i < len(rates); i++ {
		p, x := above[i-1]-above[i], math.Log(rates[i]/rates[0])
		mean, square = mean+p*x, square+p*x*x
	}
	return math.Sqrt(max(0, square-mean*mean))
}

// above is the probability that a figure's rate is above each of the rates.
func (e *evidence) above(f figure, rates []float64, expect float64) []float64 {
	logs := make([]float64, len(rates)*slopeSteps)
	most := math.Inf(-1)
	for i, r := range rates {
		prior := 0.0
		if expect > 0 {
			z := math.Log(r/expect) / expectDoubt
			prior = -math.Log1p(z * z)
		}
		for k := range slopeSteps {
			b := leastSlope * math.Pow(mostSlope/leastSlope, float64(k)/(slopeSteps-1))
			sum := prior
			if f.slope > 0 {
				z := math.Log(b/f.slope) / slopeDoubt
				sum -= math.Log1p(z * z)
			}
			for _, p := range e.loads {
				if sum += f.says(p, r, b); p.Load.Growing || p.Load.FailsTooOften {
					sum += sided(true, p.Rate, r, falseAlarm)
				}
			}
			logs[i*slopeSteps+k] = sum
			most = max(most, sum)
		}
	}
	out, total := make([]float64, len(rates)), 0.0
	for i := len(rates) - 1; i >= 0; i-- {
		out[i] = total
		for k := range slopeSteps {
			total += math.Exp(logs[i*slopeSteps+k] - most)
		}
	}
	for i := range out {
		out[i] /= total
	}
	return out
}

// supports reports whether requests enough were judged at a rate or above it, in loads that
// were not far beyond the limit, to say that it holds: as many as the statistic takes. How
// few independent ones they are worth is in the bracket.
func (e *evidence) supports(rate float64) bool {
	judged := 0
	for _, p := range e.loads {
		a := p.Load
		late := max(a.TTFT.N-a.WithinTTFT, a.TPOT.N-a.WithinITL)
		far := e.sla.Stat.Quantile() > 0 && float64(late) > farBeyond*(1-e.sla.Stat.Quantile())*float64(a.TTFT.N)
		if p.Rate >= 0.95*rate && !a.Growing && !a.FailsTooOften && !far {
			judged += a.TTFT.N
		}
	}
	return judged >= profile.SamplesFor(e.sla.Stat)
}

// farBeyond is how many times as many late requests as are allowed are of a load that says
// nothing of what holds.
const farBeyond = 5
