package policy

import "math"

// byAnswer reports whether the ITL promised is a percentile of answers, each by its
// mean gap.
func (e engines) byAnswer() bool { return e.sla.Stat.Quantile() > 0 }

// answerSizes is how many lognormal lengths, each as likely as the others, stand for
// all answers in interrupted.
const answerSizes = 100

// interrupted is the share of answers whose mean gap breaks the ITL promised on an
// aggregated engine that gets rate requests/s and has a mean ITL of itl seconds. What
// slows an answer down are the prompts that come while it lasts. At the limit an answer
// of k gaps lasts k·ITL, and its own steps leave a part of that to prompts: it misses
// where those that come meanwhile take longer. They are a Poisson number of prompts
// whose times vary as their lengths do, a sum that is taken for a gamma distribution of
// its mean and variance (and that by its cube root for a normal one: Wilson and
// Hilferty, PNAS 17, 1931). Short answers miss first, of which the mean knows nothing.
func (e engines) interrupted(need demand, rate, itl float64) float64 {
	alone, _ := e.prompt(need)
	left := e.sla.ITL.Seconds() - e.fullestStep(need, rate, itl) // of a gap, for prompts
	if left <= 0 {
		return 1
	}
	sigma, sum := math.Sqrt(math.Log1p(need.answer2)), 0.0
	for i := range answerSizes {
		z := normal((float64(i) + 0.5) / answerSizes)
		gaps := math.Max(1, need.osl*math.Exp(sigma*z-sigma*sigma/2)-1)
		prompts := rate * gaps * e.sla.ITL.Seconds()
		shape := prompts / (1 + need.spread2)
		off := 3 * math.Sqrt(shape) * (math.Cbrt(gaps*left/(prompts*alone)) - 1 + 1/(9*shape))
		sum += math.Min(math.Erfc(off/math.Sqrt2)/2, -math.Expm1(-prompts)) // without a prompt none misses
	}
	return sum / answerSizes
}

// fullestStep is a step of an engine that gets rate requests/s of a demand, without
// prompts and at the fullest moment of all engines, in seconds; +Inf where that is more
// than any measured load.
func (e engines) fullestStep(need demand, rate, itl float64) float64 {
	n := math.Max(1, need.all()/rate)
	crowd := crowdHigh(n*rate*need.osl*itl) / n
	if _, most := e.decode.InFlight(need.context()); crowd > most {
		return math.Inf(1)
	}
	return e.decode.ITLAt(math.Max(1, crowd), need.context()).Value.Seconds() * e.slower.Decode
}

// spread is the fewest aggregated engines over which requests spread so that each gets
// what keeps ITL: most requests/s of one, at which the mean ITL is full seconds. Where
// the promise is of answers the chance of what comes is in most; else it is the fullest
// moment that counts. As many engines as there are requests at once, of which none
// meets another's prompt, are always enough: a request goes where the fewest are.
func (e engines) spread(need demand, most, full float64) int {
	rate := need.all()
	if !e.byAnswer() {
		inFlight := need.osl * full // per request/s, by Little's law
		return engineCount(crowdHigh(rate*inFlight) / (most * inFlight))
	}
	alone, _ := e.prompt(need)
	step := e.decode.ITLAt(1, need.context()).Value.Seconds() * e.slower.Decode
	return min(engineCount(rate/most), engineCount(crowdHigh(rate*(alone+need.osl*step))))
}
