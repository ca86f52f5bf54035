package sweep

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"plimsoll/profile"
	"plimsoll/recommend"
)

// The search for the highest rate in real time: requests one at a time, a burst for the
// throughput, then a few loads, each at the rate that is most likely by then
// (recommend.HighestRate).
const (
	burstMost    = 256              // requests of a burst
	burstTime    = 10 * time.Second // after which it is ended, where enough of them have
	burstEnough  = 20
	burstRounds  = 3                // that it has, where it takes no longer
	burstLater   = 16               // requests of the second round that say how long each takes
	evidenceMost = 8                // loads
	evidenceOf   = 3.5              // requests of a load, in those that an interval of the SLA's statistic takes
	stepUp       = 1.25             // at least, while no load missed
	stepDown     = 0.8              // at most, while none held
	evidenceFew  = 8                // requests of a load at least, or its rate is raised
	evidenceMean = 40               // of these at least: a mean of waits takes more than one of steps
	evidenceLong = 0.6              // of what a load may last, at most
	evidenceLess = 15 * time.Second // at least
	evidenceFar  = 4                // times as many late requests as are allowed end a load
	evidenceAll  = 2.2              // loads of all the time that one may last, together
	closeEnough  = 1.3              // highest over lowest end of the bracket
	noLonger     = 12 * time.Second // that is left before a deadline: another load would say little
)

// bracketSweep brackets a configuration's highest rate within the SLA.
func (r *runner) bracketSweep(ctx context.Context, s *trial, alone profile.Point) error {
	if sla := mediansOf(r.opts.SLA); alone.Untold(sla) == "" && !alone.Meets(sla) {
		return nil // what misses without company misses with it
	}
	began := r.opts.Now()
	burst, refused, err := r.burst(ctx, s)
	if err != nil {
		return err
	}
	rate, held := r.firstRate(alone, burst, refused), r.held(alone, burst)
	if r.recallLoads(s) > 0 {
		more := false
		if rate, more = r.nextRate(s); !more {
			return nil
		}
	}
	for range evidenceMost {
		spent := r.opts.Now().Sub(began)
		l, last, ok := r.evidenceLoad(s, alone, rate, spent)
		if !ok {
			return nil
		}
		if named := r.unmeasured(s); last && named > 0 {
			l, _, _ = r.evidenceLoad(s, alone, named, spent)
			rate = named
		}
		l.held = held(rate)
		if _, err := r.openPoint(ctx, s, l); err != nil {
			return err
		}
		if rate, ok = r.nextRate(s); !ok {
			return nil
		}
	}
	return nil
}

// outage is the share of failures above which a load of an earlier run tells of an outage.
const outage = 0.25

// recallLoads books the open loads that an earlier run measured, also those that nobody would
// ask for in the time that is left now. It gives how many they are. Some failures are recalled
// with them: without those a server that always fails some requests would seem to hold.
func (r *runner) recallLoads(s *trial) (n int) {
	for _, p := range r.book.known.Points {
		if p.Rate > 0 && p.Discarded == "" && p.Stage == profile.StageSweep && p.Phase == s.phase && p.Config.Slug() == s.cfg.Slug() && !p.Unmeasured() && float64(p.Failures) <= outage*float64(p.Requests) {
			r.book.recall(s, p.Stage, p, 0)
			n++
		}
	}
	return n
}

// held reports for a rate whether requests wait for slots that others hold until they end: the
// engine's, or the client's limit of requests in flight.
func (r *runner) held(alone, burst profile.Point) func(rate float64) bool {
	engine := recommend.HoldsPlaces(alone.Load, burst.Load)
	return func(rate float64) bool {
		n := rate * alone.Load.E2E.Mean.Seconds()
		return engine || r.opts.MaxInFlight > 0 && n+3*math.Sqrt(n) > float64(r.opts.MaxInFlight)
	}
}

// loadsOf are the loads of a configuration so far.
func (r *runner) loadsOf(s *trial) (ps []profile.Point) {
	for _, p := range r.sweepPoints(profile.Aggregated) {
		if p.Config == s.cfg {
			ps = append(ps, p)
		}
	}
	return ps
}

// nextRate is the rate of the next load: the most likely one, and finally the recommended one
// if no load was near it. False once the bracket is narrow.
func (r *runner) nextRate(s *trial) (rate float64, more bool) {
	all := r.loadsOf(s)
	b := recommend.HighestRate(all, r.opts.SLA)
	switch held, missed := heldAndMissed(all, r.opts.SLA); {
	case recommend.Silent(all) != "": // the client may keep up with less
		return stepDown * lowest(all), true
	case math.IsInf(missed, 1): // nothing bounds it yet
		return max(b.Likely, held*stepUp), true
	case held == 0:
		return min(b.Likely, missed*stepDown), true
	case b.Width() > closeEnough:
		return b.Likely, true
	case slices.ContainsFunc(all, func(p profile.Point) bool { return recommend.Near(p.Rate, b.AtLeast) }):
		return 0, false
	}
	return b.AtLeast, true
}

// heldAndMissed are the highest rate whose load met the SLA, 0 if none did, and the lowest
// whose load missed it, infinite if none did.
func heldAndMissed(loads []profile.Point, sla profile.SLA) (held, missed float64) {
	missed = math.Inf(1)
	for _, p := range loads {
		switch a := p.Load; {
		case p.Rate == 0 || p.Invalid != "":
		case recommend.Misses(a, sla):
			missed = min(missed, p.Rate)
		default:
			held = max(held, p.Rate)
		}
	}
	return held, missed
}

// lowest is the least rate of the loads.
func lowest(loads []profile.Point) float64 {
	least := math.Inf(1)
	for _, p := range loads {
		if p.Rate > 0 {
			least = min(least, p.Rate)
		}
	}
	return least
}

// tried reports whether a load's rate was between low and high.
func tried(loads []profile.Point, low, high float64) bool {
	return slices.ContainsFunc(loads, func(p profile.Point) bool { return p.Rate >= low && p.Rate <= high })
}

// unmeasured is the rate that would be recommended now, if no load was near it; otherwise 0.
func (r *runner) unmeasured(s *trial) float64 {
	all := r.loadsOf(s)
	rate := recommend.HighestRate(all, r.opts.SLA).AtLeast
	if slices.ContainsFunc(all, func(p profile.Point) bool { return recommend.Near(p.Rate, rate) }) {
		return 0
	}
	return rate
}

// evidenceLoad is the next load, near a rate, and whether there is no time for another; false
// if none is left for this one.
func (r *runner) evidenceLoad(s *trial, alone profile.Point, rate float64, spent time.Duration) (l openLoad, final, ok bool) {
	longest := r.opts.Open.Longest
	if longest == 0 {
		longest = time.Minute
	}
	l = openLoad{stage: profile.StageSweep, evidence: true}.stays(min(r.stay(alone), 3*alone.Load.E2E.Mean/2), max(r.slack(alone), 0.5))
	beside := l.settle + l.residence
	left := time.Duration(evidenceAll*float64(longest)) - spent - beside
	if !r.opts.Deadline.IsZero() {
		left = min(left, r.opts.Deadline.Sub(r.opts.Now())-2*beside)
	}
	if left < noLonger && spent > 0 {
		return l, false, false
	}
	requests := evidenceOf * float64(max(profile.SamplesFor(r.opts.SLA.Stat), evidenceMean))
	last := min(time.Duration(requests/rate*float64(time.Second)), time.Duration(evidenceLong*float64(longest)))
	last = min(max(last, evidenceLess, 3*l.residence), longest, max(left, noLonger))
	if reserve := evidenceLess + beside; left >= 2*reserve { // for one at the rate that will be named
		last = min(last, left-reserve)
	}
	step := 0.97
	if least := evidenceFew / last.Seconds(); rate < least {
		rate, step = least, 1/step
	}
	for tried(r.loadsOf(s), 0.985*rate, 1.015*rate) { // what is known there is no news
		rate *= step
	}
	l.rate, l.judge = fourDigits(rate), int(math.Ceil(rate*last.Seconds()))
	l.id = fmt.Sprintf("sweep/%s/isl%d/rate%.4g", s.key(), r.opts.ISL, l.rate)
	l.seed = r.seed(l.id)
	until := last + beside
	l.takes = until
	l.change = func(asks []profile.Ask) []profile.Ask {
		n, _ := slices.BinarySearchFunc(asks, until, func(a profile.Ask, t time.Duration) int { return cmp.Compare(a.Due, t) })
		return asks[:max(n, 1)]
	}
	return l, left-until < noLonger, true
}

// burst measures throughput with as many requests in flight as the client or the engine
// allows, or half as many and so on where the server refuses some.
func (r *runner) burst(ctx context.Context, s *trial) (p profile.Point, refused bool, err error) {
	k := burstMost
	for _, most := range []int{r.opts.MaxInFlight, s.facts.MaxNumSeqs} {
		if most > 0 {
			k = min(k, most)
		}
	}
	for ; ; k /= 2 {
		if p, err = r.burstOf(ctx, s, k); err != nil || k == 1 || !p.FailsTooOften {
			return p, refused, err
		}
		refused = true
	}
}

func (r *runner) burstOf(ctx context.Context, s *trial, k int) (profile.Point, error) {
	id := fmt.Sprintf("sweep/%s/isl%d/burst%d", s.key(), r.opts.ISL, k)
	return r.timed(ctx, s, profile.StageSweep, id, burstTime, 0, func(ctx context.Context) (profile.Point, []profile.Request, error) {
		asks, err := r.opts.Open.Traffic(1, burstRounds*k, r.opts.seed(id))
		if err != nil {
			return profile.Point{}, nil, fmt.Errorf("making a load: %w", err)
		}
		if asks, _ = fitting(asks, s.facts); len(asks) == 0 {
			return profile.Point{}, nil, allLong(s.facts)
		}
		for i := range asks {
			asks[i].Due = 0
		}
		return r.undividedly(ctx, s, func() (profile.Point, []profile.Request, error) { return r.playBurst(ctx, s, id, asks, k) })
	})
}

// playBurst has k requests in flight until enough of the later ones have ended.
func (r *runner) playBurst(ctx context.Context, s *trial, id string, asks []profile.Ask, k int) (profile.Point, []profile.Request, error) {
	m, err := r.play(ctx, s, profile.Script{Asks: asks, Seed: r.seed(id), MaxInFlight: k, Timeout: r.opts.RequestTimeout}, func() func(profile.Request) bool {
		ended, later := 0, 0
		return func(q profile.Request) bool {
			if ended++; q.Index >= k && q.Index < k+burstLater {
				later++
			}
			return later == burstLater || q.End > burstTime && ended >= burstEnough
		}
	})
	rs := m.Requests
	m.Requests = slices.Clone(rs)
	for i, q := range rs {
		m.Requests[i].Due = q.Sent // nobody waits in a closed loop
	}
	p := summarizeAlone(m, r.opts.SLA, s)
	p.Requests, p.Failures = 0, 0 // what is refused at once lies in no window, and what was cut off was not refused
	for _, q := range rs {
		switch {
		case q.Failure == profile.FailCanceled && q.Sent == 0:
		case q.OK() || q.Failure == profile.FailCanceled:
			p.Requests++
		default:
			p.Requests, p.Failures = p.Requests+1, p.Failures+1
		}
	}
	p.FailsTooOften = r.opts.SLA.FailsTooOften(p.Failures, p.Requests)
	p.Load.Achieved = served(m.Requests, k, p.Load.TokensPerSec/float64(r.opts.OSL))
	p.ISL, p.OSL, p.Asked, p.Batch, p.Client, p.Machine, p.Server = r.opts.ISL, r.opts.OSL, k, k, m.Client, m.Machine, m.Server
	return p, rs, err
}

// served is the throughput of a burst with k requests in flight, requests/s: by Little's law
// from how long the first requests after those k took. If not all of them ended, it is the
// rate of endings after the first fifth, no higher than that of the tokens: those that began
// together end together.
func served(rs []profile.Request, k int, byTokens float64) float64 {
	var ends []time.Duration
	later, took := 0, time.Duration(0)
	for _, q := range rs {
		if !q.OK() {
			continue
		}
		if ends = append(ends, q.End); q.Index >= k && q.Index < k+burstLater {
			later, took = later+1, took+q.End-q.Sent
		}
	}
	n := len(ends)
	slices.Sort(ends)
	switch i := n / 5; {
	case later == burstLater: // all of them, not those that were quick
		return float64(k) / (took.Seconds() / float64(later))
	case n > 1 && ends[n-1] > ends[i]:
		return min(float64(n-1-i)/(ends[n-1]-ends[i]).Seconds(), byTokens)
	}
	return 0
}

// firstRate is the rate of the first load. If the server refuses more at once than the burst
// had, one in a hundred arrivals finds as many in flight (Poisson, 2.33 deviations).
func (r *runner) firstRate(alone, burst profile.Point, refused bool) float64 {
	rate := recommend.ExpectedRate(alone, burst, r.opts.SLA)
	if refused {
		root := (math.Sqrt(2.33*2.33+4*float64(burst.Asked)) - 2.33) / 2
		rate = min(rate, root*root/alone.Load.E2E.Mean.Seconds())
	}
	return fourDigits(max(rate, leastRate/max(alone.Load.E2E.Mean.Seconds(), 1e-6)))
}
