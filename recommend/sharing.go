package recommend

import (
	"cmp"
	"math"
	"slices"

	"plimsoll/profile"
)

// A decode engine whose n requests each wait ITL(n) for a token is a
// processor-sharing station: under Poisson arrivals at rate λ the number N of its
// requests is stationary at
//
//	P(N = n) ∝ Π_{k=1..n} λ·OSL·ITL(k)/k      Cohen, Acta Informatica 12, 1979, whatever the lengths' spread
//
// which is Poisson's where ITL does not depend on n, and wider where it does. Who
// comes finds N others (PASTA: Wolff, Operations Research 30(2), 1982), and shares
// its steps with them and itself:
//
//	mean TPOT = E[ITL(1+N)] = E[N]/(λ·OSL)    Little
//
// A request that joins brings its KV cache from prefill and adds one sequence, no prompt.
//
// Where no more than a number of requests are decoded at once, others wait for
// theirs to end: ITL(k)/k stays as at that number. Of who finds all places taken,
//
//	P(N >= places), the mean wait is 1/(μ − λ), and P(W > x) ∝ e^{−(μ−λ)x}   M/M/c
//
// with μ what the engine ends per second while all are taken. Who waits has no token of
// the engine yet, however soon prefill was done, so that the wait is the user's TTFT: by
// the SLA's statistic it may not be all of that. Answers of one length wait about half
// as long, which is the room for loads that wait longer than the mean.

// level is an in-flight count with its ITL, s: the mean, which decides how many
// there are, and the figure that the SLA speaks of.
type level struct{ n, mean, judged float64 }

// station is an engine's levels, rising, and how many requests it decodes at once.
type station struct {
	levels []level
	osl    float64 // tokens
	most   float64 // +Inf where that is not known
}

// stationOf is a configuration's, from its measured points.
func stationOf(all []Candidate, like profile.Point, sla profile.SLA, osl int) station {
	s := station{most: math.Inf(1), osl: float64(max(osl, 1))}
	if k := like.Places(); k > 0 {
		s.most = float64(k)
	}
	if like.MaxKV > 0 && like.Context > 0 {
		s.most = min(s.most, max(1, float64(like.MaxKV)/like.Context))
	}
	for _, c := range all {
		if p := c.Point; p.Config == like.Config && !p.FailsTooOften && p.InFlight > 0 {
			s.levels = append(s.levels, level{p.InFlight, p.Latency(profile.SLA{Stat: profile.Mean}).Seconds(), p.Latency(sla).Seconds()})
		}
	}
	slices.SortFunc(s.levels, func(a, b level) int { return cmp.Compare(a.n, b.n) })
	return s
}

// at is ITL of n requests at once, s: linear between levels, below the first as
// there, beyond the last by the line through it and the nearest level at or below
// half of it, and never falling.
func (s station) at(n float64, of func(level) float64) float64 {
	n = min(n, s.most)
	last := len(s.levels) - 1
	i := 0
	for i <= last && s.levels[i].n < n {
		i++
	}
	switch {
	case i == 0 || last == 0:
		return of(s.levels[min(i, last)])
	case i > last:
		b, a := s.levels[last], s.levels[0]
		for _, l := range s.levels[:last] {
			if l.n <= b.n/2 {
				a = l
			}
		}
		return of(b) + max(0, line(a, b, of))*(n-b.n)
	}
	a, b := s.levels[i-1], s.levels[i]
	return of(a) + line(a, b, of)*(n-a.n)
}

// line is the slope between two levels, 0 where they are one.
func line(a, b level, of func(level) float64) float64 {
	if b.n <= a.n {
		return 0
	}
	return (of(b) - of(a)) / (b.n - a.n)
}

func meanITL(l level) float64   { return l.mean }
func judgedITL(l level) float64 { return l.judged }

// served is what a load of so many tokens/s makes of a station.
type served struct {
	inFlight float64 // decoded at once, mean
	itl      float64 // E[ITL(1+N)], s
	std      float64 // of ITL(1+N)
	beside   float64 // the quantile of 1+N that was asked for
	full     float64 // share of requests that find all places taken
	spare    float64 // requests/s that the engine ends then beyond those that come
}

// placed reports whether the wait for a place is within the SLA's TTFT.
func (s served) placed(sla profile.SLA) bool {
	limit, q := sla.TTFT.Seconds(), sla.Stat.Quantile()
	switch {
	case s.full == 0 || limit <= 0:
		return true
	case q > 0:
		return s.full*math.Exp(-s.spare*limit) <= 1-q
	default:
		return s.full <= s.spare*limit
	}
}

// negligible is the probability of a number of requests, relative to all below
// it, after which those beyond count as none.
const negligible = 1e-9

// serve is the stationary station; false where more comes than it serves, or nothing
// is known of it.
func (s station) serve(tokens, quantile float64) (served, bool) {
	if len(s.levels) == 0 {
		return served{}, false
	}
	var sum, busy, itl, square, full, last float64
	var weights []float64
	for n, w := 1.0, 1.0; ; n++ { // w = P(N = n−1): of who finds n−1 others
		d := s.at(n, meanITL)
		weights, last = append(weights, w), d
		sum, busy = sum+w, busy+w*min(n-1, s.most)
		itl, square = itl+w*d, square+w*d*d
		if n-1 >= s.most {
			full += w
		}
		next := tokens * d / min(n, s.most)
		if next < 1 && w < negligible*sum {
			break
		}
		if n > 20*(s.levels[len(s.levels)-1].n+100) {
			if n < s.most || next >= 1 { // no end in sight
				return served{}, false
			}
			rest := w * next / (1 - next) // all that are left wait, each next as likely as the one before
			weights = append(weights, rest)
			sum, busy, itl, square, full = sum+rest, busy+rest*s.most, itl+rest*d, square+rest*d*d, full+rest
			break
		}
		if w *= next; w > 1e200 {
			const down = 1e-200
			w, sum, busy, itl, square, full = w*down, sum*down, busy*down, itl*down, square*down, full*down
			for i := range weights {
				weights[i] *= down
			}
		}
	}
	out := served{inFlight: busy / sum, itl: itl / sum, full: full / sum}
	if full > 0 {
		out.spare = (s.most/last - tokens) / s.osl
	}
	out.std = math.Sqrt(max(0, square/sum-out.itl*out.itl))
	out.beside = quantileOf(weights, quantile*sum)
	return out, true
}

// quantileOf is 1+N where the weights up to N are so much.
func quantileOf(weights []float64, share float64) float64 {
	below := 0.0
	for i, w := range weights {
		if below += w; below >= share {
			return float64(i + 1)
		}
	}
	return 0
}

// holds reports whether requests that come with so many tokens/s are expected to
// hold the SLA's ITL over a load (see heldOver), and to find a place in time.
func (s station) holds(tokens float64, sla profile.SLA) (served, bool) {
	q, limit := sla.Stat.Quantile(), sla.ITL.Seconds()
	got, ok := s.serve(tokens, q)
	if !ok || !got.placed(sla) {
		return got, false
	}
	slack := s.slack(got.inFlight)
	spread := spreadOf(profile.FlightMemory(got.inFlight, slack), profile.FlightRequests(got.inFlight, slack))
	if q == 0 {
		return got, got.itl+spread*got.std <= limit
	}
	if got, ok = s.serve(tokens, surer(q, spread)); !ok {
		return got, false
	}
	return got, s.at(got.beside, judgedITL) <= limit
}

// slack is ITL alone over that of n requests at once, 0 where neither is known.
func (s station) slack(n float64) float64 {
	if len(s.levels) == 0 {
		return 0
	}
	return s.at(1, meanITL) / s.at(max(1, n), meanITL)
}

// exact is to which share of itself a rate is found.
const exact = 1e-3

// rate is the highest number of tokens/s up to most that holds, and what it makes
// of the station.
func (s station) rate(most float64, sla profile.SLA) (float64, served) {
	if got, ok := s.holds(most, sla); ok {
		return most, got
	}
	lo, hi := 0.0, most
	var at served
	for hi > lo*(1+exact) && hi > most*exact {
		mid := (lo + hi) / 2
		if got, ok := s.holds(mid, sla); ok {
			lo, at = mid, got
		} else {
			hi = mid
		}
	}
	return lo, at
}
