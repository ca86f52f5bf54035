package recommend

import (
	"cmp"
	"math"
	"slices"

	"plimsoll/profile"
)

// Bracket is a 95 % interval of the highest rate within an SLA, requests/s; Likely is its
// median, or a guess without a load, 0 where there is nothing to guess by. AtLeast is 0 if
// too few requests were judged, and AtMost infinite if no load missed.
type Bracket struct {
	AtLeast, AtMost, Likely float64

	Failures, Requests int // of all loads, if no rate holds because more failed than may; otherwise 0
}

// Width is AtMost / AtLeast; infinite if either is unknown.
func (b Bracket) Width() float64 {
	if b.AtLeast <= 0 {
		return math.Inf(1)
	}
	return b.AtMost / b.AtLeast
}

// Parameters of the model: a curve over the rate for each metric of the SLA.
const (
	rateSteps  = 600 // of the rates that are considered, in equal ratios
	slopeSteps = 14
	leastSlope = 0.8   // of a figure's odds, or excess, over the rate, both logarithmic: one place, hardly used (M/D/1)
	mostSlope  = 30.   // many places near saturation (M/D/64: 19)
	belowLoads = 30    // rates below the least that was tried, as a ratio
	aboveLoads = 8     // and above the highest
	aboveBurst = 1.1   // rates above what a burst was served at, where nothing more may be in flight
	refusing   = 0.25  // of a burst, above which a server refuses what is too much at once
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

// HighestRate estimates the highest rate within the SLA from several loads of one
// configuration of an aggregated engine. No load has to be decided by itself; loads near the
// rate say most.
//
// It is Bayes' rule on a grid of rates r and slopes b. At rate x, the odds of a late request
// are those allowed times (x/r)^b; of a mean, what waiting adds grows as (x/r)^b. Late
// requests count by their effective sample size (profile.Distribution.Neff). The priors of r
// and b are centred on ExpectedRate and its slope, with heavy tails; without a burst they are
// flat in the logarithm.
func HighestRate(points []profile.Point, sla profile.SLA) Bracket {
	e := evidence{sla: sla, burst: math.Inf(1)}
	for _, p := range points {
		e.take(p)
	}
	if len(e.loads) == 0 {
		likely := e.burst / 2
		if math.IsInf(likely, 1) {
			likely = e.expected()
		}
		return Bracket{AtMost: e.burst, Likely: likely}
	}
	for i, p := range e.loads {
		if p.Rate > e.burst && !Misses(p.Load, sla) { // the burst was disturbed
			e.burst = math.Inf(1)
		}
		if n := e.failedUpTo(p.Rate); sla.FailsTooOften(n.failures, n.requests) && !p.Load.FailsTooOften {
			load := *p.Load
			load.FailsTooOften, e.loads[i].Load = true, &load
		}
	}
	return e.bracket()
}

// failed is how many of some requests failed.
type failed struct{ failures, requests int }

func (f *failed) add(a *profile.Attainment) {
	if a != nil {
		f.failures, f.requests = f.failures+a.Failures, f.requests+a.Requests
	}
}

// failedUpTo counts the requests of all loads at most at a rate. Those of higher ones count,
// too, unless the higher rate explains that more of them failed.
func (e *evidence) failedUpTo(rate float64) failed {
	var below, above failed
	below.add(e.alone)
	for _, p := range e.loads {
		if p.Rate <= rate {
			below.add(p.Load)
		} else {
			above.add(p.Load)
		}
	}
	if above.requests == 0 || e.full || !profile.LikeShare(below.failures, below.requests, float64(above.failures)/float64(above.requests)) {
		return below
	}
	return failed{below.failures + above.failures, below.requests + above.requests}
}

// answered is the highest rate tried at which no more requests failed than may; 0 if there is
// none. Failing is then what failed at the lowest.
func (e *evidence) answered() (rate float64, failing failed) {
	lowest := math.Inf(1)
	for _, p := range e.loads {
		n := e.failedUpTo(p.Rate)
		if !e.sla.Exceeds(n.failures, n.requests) {
			rate = max(rate, p.Rate)
		} else if p.Rate < lowest {
			lowest, failing = p.Rate, n
		}
	}
	if rate > 0 {
		failing = failed{}
	}
	return rate, failing
}

// evidence is the loads of one configuration.
type evidence struct {
	sla    profile.SLA
	alone  *profile.Attainment
	atOnce *profile.Attainment // of a burst
	osl    int
	burst  float64 // requests/s that cannot be exceeded
	full   bool    // the server refuses what is too much at once
	loads  []profile.Point
}

// IsBurst reports whether a point is a burst: all requests due at once, to find the engine's
// throughput.
func IsBurst(p profile.Point) bool {
	return p.Phase == profile.Aggregated && p.Load != nil && p.Rate == 0 && p.Batch > 0
}

// refuses reports whether the server refused much of a burst.
func refuses(p profile.Point) bool { return float64(p.Failures) > refusing*float64(p.Requests) }

func (e *evidence) take(p profile.Point) {
	switch {
	case p.Phase != profile.Aggregated || p.Load == nil || p.Invalid != "" || p.Discarded != "":
	case IsBurst(p) && refuses(p):
		e.full = true
	case p.Load.Requests == 0:
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

// Silent is why the latest of several loads says nothing of the rate; empty where one of
// them does.
func Silent(loads []profile.Point) (why string) {
	for _, p := range loads {
		if p.Rate <= 0 || p.Load == nil {
			continue
		}
		if why = cmp.Or(p.Invalid, p.Load.Easier); why == "" {
			return ""
		}
	}
	return why
}

// highest is the highest rate tried. No higher rate is claimed to hold.
func (e *evidence) highest() float64 {
	return slices.MaxFunc(e.loads, func(a, b profile.Point) int { return cmp.Compare(a.Rate, b.Rate) }).Rate
}

// rates is the grid of candidate rates.
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

// figure is one metric of the SLA. says is the log likelihood of a load, given the highest
// rate r and the slope b; slope is the expected b, 0 if unknown.
type figure struct {
	says  func(load profile.Point, r, b float64) float64
	slope float64
}

// expected is the rate guessed before any load; 0 if there was no burst.
func (e *evidence) expected() float64 {
	if e.alone == nil || e.atOnce == nil {
		return 0
	}
	return expectedRate(e.alone, e.atOnce, e.sla, e.osl)
}

// figures are the metrics of the SLA.
func (e *evidence) figures() []figure {
	ttft := figure{says: e.mean(float64(e.sla.TTFT), ttftOf)}
	itl := figure{says: e.mean(float64(e.sla.ITL), tpotOf)}
	if e.sla.Stat.Quantile() > 0 {
		allowed := 1 - e.sla.Stat.Quantile()
		ttft.says = exceeds(allowed, func(a *profile.Attainment) (over, n int, worth float64) {
			return a.TTFT.N - a.WithinTTFT, a.TTFT.N, worthOf(a.TTFT)
		})
		late := exceeds(allowed, func(a *profile.Attainment) (over, n int, worth float64) {
			return a.TPOT.N - a.WithinITL, a.TPOT.N, worthOf(a.TPOT)
		})
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
	if e.sla.MaxFailures > 0 && slices.ContainsFunc(e.loads, func(p profile.Point) bool { return e.sla.Exceeds(p.Load.Failures, p.Load.Requests) }) {
		all = append(all, figure{says: exceeds(e.sla.MaxFailures, func(a *profile.Attainment) (over, n int, worth float64) {
			return a.Failures, a.Requests, float64(a.Requests)
		})})
	}
	return all
}

// itlFar reports whether every request's ITL is far below its limit.
func (e *evidence) itlFar(a *profile.Attainment) bool {
	d := a.TPOT
	return d.N == 0 || d.N > 1 && a.WithinITL >= d.N && e.sla.ITL-d.Mean > farOff*d.Std
}

func ttftOf(a *profile.Attainment) profile.Distribution { return a.TTFT }
func tpotOf(a *profile.Attainment) profile.Distribution { return a.TPOT }

// farOff is how many standard deviations below the limit count as far, and farWrong the
// probability that this is wrong.
const (
	farOff   = 6
	farWrong = 1e-4
)

// sided is the log likelihood of a load that only says "holds" or "misses", and is wrong with
// probability wrong.
func sided(misses bool, rate, r, wrong float64) float64 {
	if misses == (r > rate) {
		return math.Log(wrong)
	}
	return math.Log(1 - wrong)
}

// exceeds is the likelihood of a share of requests: of those above a limit, for percentiles, or
// of those that failed. Of tells how many there are of how many, and how many independent ones
// these are worth.
func exceeds(allowed float64, of func(*profile.Attainment) (over, n int, worth float64)) func(profile.Point, float64, float64) float64 {
	return func(p profile.Point, r, b float64) float64 {
		over, n, worth := of(p.Load)
		if n == 0 {
			return 0
		}
		share := max(0, float64(over)) / float64(n)
		seen := (share*worth + 0.5) / (worth + 1)
		far := (math.Log(seen/(1-seen)) - math.Log(allowed/(1-allowed))) / curveReach
		worth *= math.Exp(-far * far / 2)
		odds := math.Log(allowed/(1-allowed)) + b*math.Log(p.Rate/r)
		return worth * (share*logistic(odds) + (1-share)*logistic(-odds))
	}
}

// logistic is ln(1/(1+e^−x)).
func logistic(x float64) float64 {
	if x < 0 {
		return x - math.Log1p(math.Exp(x))
	}
	return -math.Log1p(math.Exp(-x))
}

// worthOf is the effective sample size; all samples if that is unknown.
func worthOf(d profile.Distribution) float64 {
	if d.Neff > 0 {
		return min(d.Neff, float64(d.N))
	}
	return float64(d.N)
}

// mean is the likelihood of a mean latency. Waiting adds to the latency alone, more at higher
// rates.
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
		// Waits are skewed, so their logarithm is compared, and their spread is assumed: a
		// short load underestimates it.
		added := max(float64(d.Mean)-alone, 0.01*(limit-alone))
		expect := math.Log(limit-alone) + b*math.Log(p.Rate/r)
		off := math.Hypot(float64(d.Half)/1.96/added, waitSpread/math.Sqrt(worthOf(d)))
		z := min(math.Abs(math.Log(added)-expect)/max(off, meanDoubt), 6) // beyond that the curve is wrong, not the load
		return -z*z/2 - math.Log(max(off, meanDoubt))
	}
}

// bracket combines all loads and metrics. The highest rate is the lowest over the metrics.
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
	if !slices.ContainsFunc(e.loads, func(p profile.Point) bool { return Misses(p.Load, e.sla) }) {
		b.AtMost = e.burst
	}
	answered, failing := e.answered()
	b.Failures, b.Requests = failing.failures, failing.requests
	if b.AtLeast = min(b.AtLeast, answered); !e.supports(b.AtLeast) {
		b.AtLeast = 0
	}
	return b
}

// Misses reports whether a load missed the SLA by what was seen of it.
func Misses(a *profile.Attainment, sla profile.SLA) bool {
	return a.Growing || a.FailsTooOften || sla.Exceeds(a.Failures, a.Requests) || a.TTFT.At(sla.Stat) > sla.TTFT || a.TPOT.At(sla.Stat) > sla.ITL || sla.Stall > 0 && a.ITL.P99 > sla.Stall
}

// deviation is the standard deviation of the rate's logarithm, from the probability that it
// lies above each rate of the grid.
func deviation(above, rates []float64) float64 {
	mean, square := 0.0, 0.0
	for i := 1; i < len(rates); i++ {
		p, x := above[i-1]-above[i], math.Log(rates[i]/rates[0])
		mean, square = mean+p*x, square+p*x*x
	}
	return math.Sqrt(max(0, square-mean*mean))
}

// above is the probability that a metric's highest rate lies above each rate of the grid.
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

// supports reports whether enough requests were judged at or above a rate to claim that it
// holds: as many as the statistic needs, in loads not far above the limit. The bracket
// accounts for their dependence.
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

// farBeyond times the allowed late requests mark a load that is far above the limit.
const farBeyond = 5
