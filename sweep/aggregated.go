package sweep

import (
	"context"
	"fmt"
	"time"

	"plimsoll/engine"
	"plimsoll/profile"
	"plimsoll/recommend"
)

// Aggregated engines interleave prefill with decode, so that neither the TTFT of
// one prompt nor the ITL without prefill says what they promise: each candidate
// is loaded by requests that come on their own, with prompts that no cache
// knows, and the highest rate at which TTFT and ITL both hold is found.

// rateTolerance is how close to it the search ends.
const rateTolerance = 0.05

// leastRate is the share of one request at a time below which no rate is tried: a
// load so thin meets hardly anybody, and waits for hardly anything.
const leastRate = 0.02

// runAggregated does the stages of an aggregated profile: the candidates, then
// the pick again under a load that it was not chosen by, and its surfaces.
func (r *runner) runAggregated(ctx context.Context) error {
	var trials []*trial
	for _, cfg := range r.opts.Candidates {
		trials = append(trials, newTrial(profile.Aggregated, cfg))
	}
	if err := r.each(ctx, trials, func(ctx context.Context, s *trial) error { return r.candidate(ctx, s, r.aggregatedSweep) }); err != nil {
		return err
	}
	if err := r.choose(); err != nil {
		return err
	}
	cfg := r.res.Aggregated.Picked.Point.Config
	if r.opts.Open.Verify {
		if err := r.each(ctx, []*trial{newTrial(profile.Aggregated, cfg)}, r.verifyAlone); err != nil {
			return err
		}
	}
	if f, ok := r.book.factsOf(newTrial(profile.Aggregated, cfg)); ok && f.KVTokens == 0 {
		return r.finish() // a surface takes the KV capacity
	}
	l := newLayout(cfg)
	r.layouts = []*layout{l}
	if err := r.each(ctx, []*trial{l.decode}, func(ctx context.Context, _ *trial) error { return r.apartSurfaces(ctx, l) }); err != nil {
		return err
	}
	return r.finish()
}

// apartSurfaces measures prefill and decode apart on the pick's engine, with the same
// limits. No load tells what a step takes: these surfaces do, and with them a simulator
// interleaves prompts and answers of any lengths. One engine serves both phases where
// its prefix cache leaves new prompts alone: decode needs the cache to skip prefill.
func (r *runner) apartSurfaces(ctx context.Context, l *layout) (err error) {
	r.book.begin(l.prefill)
	defer func() {
		err = r.end(ctx, l.prefill, profile.StageSurface, err)
		err = r.end(ctx, l.decode, profile.StageSurface, err)
	}()
	first := []func(*runner, context.Context, *trial) error{func(r *runner, ctx context.Context, _ *trial) error { return r.apartPrefill(ctx, l) }}
	if err := r.around(ctx, []*trial{l.prefill}, first); err != nil {
		return err
	}
	if s := l.prefill; s.host == l.decode.host {
		return r.around(ctx, []*trial{s, l.decode}, surfaceSteps)
	} else if err := r.around(ctx, []*trial{s}, surfaceSteps); err != nil {
		return err
	} else if err := r.stop(ctx, s); err != nil {
		return err
	}
	return r.around(ctx, []*trial{l.decode}, surfaceSteps)
}

// apartPrefill measures prefill at the target's length, on an engine that can.
func (r *runner) apartPrefill(ctx context.Context, l *layout) error {
	if s := l.prefill; s.host == l.decode.host {
		proven, err := r.proven(ctx, s)
		if err != nil {
			return err
		}
		if !proven {
			if err := r.stop(ctx, s); err != nil {
				return err
			}
			l.apart()
		}
	}
	return r.prefillSweep(ctx, l.prefill)
}

// aggregatedSweep finds the highest rate that a configuration holds.
func (r *runner) aggregatedSweep(ctx context.Context, s *trial) error {
	if err := r.facts(ctx, s); err != nil {
		return err
	}
	if err := r.opts.holds(s.facts); err != nil {
		return err
	}
	alone, err := r.alonePoint(ctx, s)
	if err != nil {
		return err
	}
	if r.opts.Open.Bracket {
		return r.bracketSweep(ctx, s, alone)
	}
	if sla := mediansOf(r.opts.SLA); alone.Untold(sla) == "" && !alone.Meets(sla) {
		return nil // what misses without company misses with it
	}
	start := r.expectedRate(s, alone)
	floor := leastRate / max(alone.Load.E2E.Mean.Seconds(), 1e-6)
	_, err = highestRate(start, floor, rateTolerance, func(rate float64) (bool, error) {
		l := openLoad{
			stage: profile.StageSweep, rate: rate, seed: r.opts.Seed, decides: r.decides(s.cfg, alone, rate, r.stay(alone)),
			id: fmt.Sprintf("sweep/%s/isl%d/rate%.4g", s.key(), r.opts.ISL, rate),
		}
		p, err := r.openPoint(ctx, s, l.stays(r.stay(alone), r.slack(alone)))
		return err == nil && r.higher(p), err
	})
	return err
}

// higher reports whether the rate to try next is above that of a load: it held, as
// far as its intervals say, or it had too few requests to judge by, and a higher rate
// has more in the same time. What the client could not send, what held because its
// prompts were cached, and what hangs together for too long and misses a percentile, is
// looked for below. Neither is a miss (see recommend.ChooseAggregated).
func (r *runner) higher(p profile.Point) bool {
	a, sla := p.Load, r.opts.SLA
	if p.Untold(sla) != "" {
		fine := float64(a.Within) >= sla.Stat.Quantile()*float64(a.Requests)
		return p.Invalid == "" && a.Easier == "" && (a.Worth(p.Phase, sla) >= float64(a.Requests) || sla.Stat.Quantile() > 0 && fine)
	}
	return a.Surely(p.Phase, sla) || a.Holds(p.Phase, sla) && a.TooShort(p.Phase, sla)
}

// mediansOf is an SLA on medians in place of a percentile, which is no lower: few
// requests decide whether those miss it, hundreds whether a P99 holds.
func mediansOf(sla profile.SLA) profile.SLA {
	if sla.Stat.Quantile() > 0 {
		sla.Stat = profile.P50
	}
	return sla
}

// stay is how long a request is in an engine that holds the SLA, at most: as the
// SLA allows, or a few times as long as without company. openPoint corrects it.
func (r *runner) stay(alone profile.Point) time.Duration {
	allowed := r.opts.SLA.TTFT + time.Duration(r.opts.OSL)*r.opts.SLA.ITL
	return min(allowed, 4*alone.Load.E2E.Mean)
}

// slack is what is left of ITL's where it is at its limit, by requests one at a
// time (see profile.FlightMemory).
func (r *runner) slack(alone profile.Point) float64 {
	return min(1, max(leastSlack, float64(alone.TPOT.Mean)/float64(max(r.opts.SLA.ITL, 1))))
}

// leastSlack bounds it: a load of such an engine would have no end.
const leastSlack = 0.1

// busiest is the use up to which loads are made long enough for an interval of TTFT.
const busiest = 0.9

// decides is how many requests of an aggregated engine's load an interval is
// expected to take: each replica computes prompts one after another, between tokens.
func (r *runner) decides(cfg engine.Config, alone profile.Point, rate float64, stay time.Duration) int {
	use := min(busiest, rate*alone.TTFT.Mean.Seconds()/float64(attentionReplicas(cfg)))
	return max(r.opts.decidesTTFT(use, 1), r.opts.decidesTPOT(rate*stay.Seconds(), r.slack(alone)))
}

// aloneID names the point of requests one after the other.
func (r *runner) aloneID(s *trial) string {
	return fmt.Sprintf("sweep/%s/isl%d/alone", s.key(), r.opts.ISL)
}

// aloneOf is that point, which the search began with.
func (r *runner) aloneOf(s *trial) profile.Point {
	for _, p := range r.sweepPoints(profile.Aggregated) {
		if p.ID == r.aloneID(s) {
			return p
		}
	}
	return profile.Point{}
}

// alonePoint measures requests one after the other: what no rate is better than.
func (r *runner) alonePoint(ctx context.Context, s *trial) (profile.Point, error) {
	n := min(max(r.opts.PrefillRequests, SamplesFor(profile.P50)), 20)
	if r.opts.Open.Bracket {
		n = SamplesFor(profile.P50)
	}
	id := r.aloneID(s)
	cost := r.opts.prefillCost(s.cfg, r.opts.ISL, n) + r.opts.decodeCost(s.cfg, r.opts.ISL, r.opts.OSL, 1)
	return r.point(ctx, s, profile.StageSweep, id, cost, func(ctx context.Context) (profile.Point, []profile.Request, error) {
		if s.inst.Play == nil {
			return profile.Point{}, nil, errNoPlay
		}
		asks, err := r.opts.Open.Traffic(1, n+r.opts.PrefillWarmups, r.opts.Seed)
		if err != nil {
			return profile.Point{}, nil, fmt.Errorf("making a load: %w", err)
		}
		if asks, _ = fitting(asks, s.facts); len(asks) == 0 {
			return profile.Point{}, nil, allLong(s.facts)
		}
		for i := range asks {
			asks[i].Due = 0 // when its predecessor has ended
		}
		return r.undividedly(ctx, s, func() (profile.Point, []profile.Request, error) { return r.playAlone(ctx, s, id, asks) })
	})
}

// playAlone sends requests one after the other, the first as a warm-up.
func (r *runner) playAlone(ctx context.Context, s *trial, id string, asks []profile.Ask) (profile.Point, []profile.Request, error) {
	m, err := r.play(ctx, s, profile.Script{Asks: asks, Seed: r.seed(id), MaxInFlight: 1, Timeout: r.opts.RequestTimeout}, nil)
	rs := m.Requests
	m.Requests = nil
	warm := min(r.opts.PrefillWarmups, max(len(rs)-1, 0))
	s.warmUps = append(s.warmUps, rs[:warm]...)
	for _, q := range rs[warm:] {
		q.Due = q.Sent // nobody waits in a closed loop
		m.Requests = append(m.Requests, q)
	}
	p := summarizeAlone(m, r.opts.SLA, s)
	p.ISL, p.OSL, p.Asked, p.Machine, p.Server = r.opts.ISL, r.opts.OSL, 1, m.Machine, m.Server
	return p, rs, err
}

func summarizeAlone(m Measurement, sla profile.SLA, s *trial) profile.Point {
	w := profile.Whole(m.Requests)
	a := profile.Attain(m.Requests, w, sla, attentionReplicas(s.cfg))
	p := profile.Point{
		Load: &a, TTFT: a.TTFT, ITL: a.ITL, TPOT: a.TPOT, InFlight: a.InFlight, Context: a.Context,
		Requests: a.Requests, Failures: a.Failures, FailsTooOften: a.FailsTooOften, ThroughputPerGPU: a.TokensPerSec / float64(s.cfg.GPUs()),
		Warnings: append(profile.Summarize(kept(m.Requests), w).Warnings, m.Warnings...),
	}
	if s.facts.KVTokens > 0 {
		p.KVUsage = s.facts.KVUse(p.InFlight, p.Context)
	}
	return p
}

// chooseAggregated picks among the rates that hold.
func (r *runner) chooseAggregated() error {
	c, err := recommend.ChooseAggregated(r.sweepPoints(profile.Aggregated), r.opts.SLA)
	r.res.Aggregated = c
	if err != nil {
		return fmt.Errorf("%s: %w", profile.Aggregated, ErrNothing)
	}
	return nil
}
