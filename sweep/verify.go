package sweep

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"plimsoll/engine"
	"plimsoll/profile"
	"plimsoll/recommend"
)

// A pick is recommended at a rate that it was not measured at: by the formulas of a
// queue for prefill and of shared steps for decode, and for an aggregated engine by
// a search that kept what came out best. So it is loaded at
// that rate, by requests that come on their own. One that misses its SLA there is
// recommended at the highest rate that holds.

// Verification is what a pick attained under open-loop load.
type Verification struct {
	Phase  profile.Phase
	Config engine.Config // of the pick
	Asked  float64       // requests/s of one engine that were recommended
	Rate   float64       // requests/s of one engine that hold; 0 where none of those tried did
	Point  profile.Point // at Rate; where none held, the least that was tried
	// Most is the rate at which profile.MostRequests of the requests were within the SLA,
	// no higher than Rate; 0 where none was seen, or the SLA's statistic asks for as many.
	Most float64
	// Limits are what the load does not show.
	Limits []string

	warnings []profile.Warning // of it, or of why there is none; the run's where the pick stays
	missing  string            // the engine failed under it
	missed   string            // by what the first load missed
	open     string            // the first load that said nothing, or what ended the verification
	longer   string            // what would give its load an interval; empty where that is not known
}

// newVerification is one of the pick that c holds, before its first load.
func newVerification(c recommend.Choice) Verification {
	return Verification{Phase: c.Phase, Config: c.Picked.Point.Config, Asked: fourDigits(c.Picked.RPS)}
}

// of reports whether v is of the pick that c holds, not of one before it.
func (v Verification) of(c *recommend.Choice) bool {
	pick := newVerification(*c)
	return v.Phase == pick.Phase && v.Config.Slug() == pick.Config.Slug() && v.Asked == pick.Asked
}

// label is the pick's.
func (v Verification) label() string { return v.Config.Label() }

// warn keeps a caveat of the verification.
func (v *Verification) warn(code, format string, args ...any) {
	v.warnings = append(v.warnings, profile.Warnf(code, format, args...))
}

// verifyTolerance is how close to the highest rate a correction ends, and verifyLeast
// the share of what was recommended down to which it goes on, however long loads take.
const (
	verifyTolerance = 0.10
	verifyLeast     = 0.1
)

// verify loads the pick that c holds, on a trial of its phase and configuration.
// An engine that fails ends that, which is said; a pick that had not missed stands.
func (r *runner) verify(ctx context.Context, s *trial) error {
	if !r.opts.Open.Verify {
		return nil
	}
	err := r.verifyPick(ctx, s)
	r.book.close(s, profile.StageVerify)
	var failed *engineError
	if errors.As(err, &failed) {
		r.failedUnder(s.phase, failed)
		return nil
	}
	return err
}

// verifyAlone is verify for a trial that has nothing else to do.
func (r *runner) verifyAlone(ctx context.Context, s *trial) (err error) {
	defer func() { err = r.end(ctx, s, profile.StageVerify, err) }()
	if err := r.facts(ctx, s); err != nil {
		var failed *engineError
		if errors.As(err, &failed) {
			r.failedUnder(s.phase, failed)
			return nil
		}
		return err
	}
	if err := r.verify(ctx, s); err != nil {
		return err
	}
	if err := r.most(ctx, s); !errors.As(err, new(*engineError)) {
		return err
	}
	return nil
}

// failedUnder says that a pick's engine failed, before its first load ended or after.
func (r *runner) failedUnder(phase profile.Phase, failed *engineError) {
	v := newVerification(r.choiceOf(phase))
	v.missing = fmt.Sprintf("the verification of the %s pick %s under load is incomplete: %v", phase, v.label(), failed)
	r.book.verified(v)
}

func (r *runner) verifyPick(ctx context.Context, s *trial) error {
	c := r.choiceOf(s.phase)
	if !c.Feasible || c.Picked.RPS <= 0 {
		return nil // there is no rate to hold
	}
	l, limits, err := r.verifyingLoad(s)
	if err != nil {
		return &engineError{err: err}
	}
	v := newVerification(c)
	v.Limits, v.longer = limits, r.opts.longer(l, c.Picked.RPS, s.phase)
	err = r.correct(v.Asked, r.opts.leastVerified(l, v.Asked), func(rate float64) (bool, error) {
		x := l
		x.rate, x.id = rate, fmt.Sprintf("verify/%s/isl%d/rate%.4g", s.key(), r.opts.ISL, rate)
		p, err := r.openPoint(ctx, s, x)
		if err != nil {
			return false, err
		}
		return v.take(p, r.opts.SLA)
	})
	switch {
	case errors.Is(err, errUntold):
		v.warn("not_verified", "the %s pick %s is not verified under load: %s", v.Phase, v.label(), v.open)
		r.book.verified(v)
		err = nil
	case v.missed != "" || v.Rate > 0: // whatever ended it, a rate that missed is recommended no more
		if v.Rate == 0 && err != nil {
			v.open = cmp.Or(v.open, err.Error())
		}
		s.held = &heldRate{l, r.verified(v)}
	}
	return err
}

// heldRate is a rate that a pick was seen to hold, and the load that showed it.
type heldRate struct {
	load openLoad
	of   *Verification
}

// most finds the rate at which most requests are within the SLA, below the one that holds
// it by its statistic. An engine that fails leaves it unknown.
func (r *runner) most(ctx context.Context, s *trial) error {
	if s.held == nil {
		return nil
	}
	err := r.verifyMost(ctx, s, s.held.load, s.held.of)
	r.book.close(s, profile.StageVerify)
	return err
}

func (r *runner) verifyMost(ctx context.Context, s *trial, l openLoad, v *Verification) error {
	if v.Rate == 0 || r.opts.SLA.Stat.Quantile() >= profile.MostRequests {
		return nil
	}
	if v.Point.Load.Share(v.Phase) >= profile.MostRequests {
		v.Most = v.Rate
		return nil
	}
	most := r.opts.SLA
	most.Stat = profile.P95
	asked := v.Rate * (1 - verifyTolerance)
	if guess := r.choiceOf(s.phase).MostRPS(most, r.opts.OSL); guess > 0 {
		asked = min(asked, guess)
	}
	asked = fourDigits(asked)
	err := r.correct(asked, r.opts.leastVerified(l, asked), func(rate float64) (bool, error) {
		x := l
		x.rate, x.id = rate, fmt.Sprintf("verify95/%s/isl%d/rate%.4g", s.key(), r.opts.ISL, rate)
		p, err := r.openPoint(ctx, s, x)
		if err != nil {
			return false, err
		}
		holds := p.Untold(r.opts.SLA) == "" && !p.Load.FailsTooOften && !p.Load.Growing && p.Load.Stopped == "" && p.Load.Share(v.Phase) >= profile.MostRequests
		if holds {
			v.Most = max(v.Most, rate)
		}
		return holds, nil
	})
	return err
}

// take takes in a load; it reports whether it held. One that says nothing ends the
// verification where it is the first; otherwise its rate is as good as one that
// misses, as none is recommended that was not seen to hold.
func (v *Verification) take(p profile.Point, sla profile.SLA) (bool, error) {
	if why := p.Untold(sla); why != "" {
		if p.Invalid == "" && p.Load.Few(p.Phase, sla) {
			why += v.longer
		}
		v.open = cmp.Or(v.open, fmt.Sprintf("at %.4g requests/s: %s", p.Rate, why))
		if v.missed == "" {
			return false, errUntold
		}
		return false, nil
	}
	holds := p.Meets(sla)
	switch {
	case holds:
		v.Point, v.Rate = p, p.Rate
	case v.Rate == 0:
		v.Point = p
		v.missed = cmp.Or(v.missed, shortOf(*p.Load, v.Phase, sla))
	}
	return holds, nil
}

// errUntold ends a verification whose first load says nothing of its pick.
var errUntold = errors.New("the load does not test the pick")

// correct tries the recommended rate, and where it misses the highest below that
// holds: a tenth less first, since a formula is rarely further off. None below floor
// is tried.
func (r *runner) correct(asked, floor float64, at func(float64) (bool, error)) error {
	if holds, err := at(asked); err != nil || holds {
		return err
	}
	less := fourDigits(asked * (1 - verifyTolerance))
	if holds, err := at(less); err != nil || holds {
		return err
	}
	_, err := highestRate(asked*0.75, floor, verifyTolerance, func(rate float64) (bool, error) {
		if rate >= less {
			return false, nil // it is known
		}
		return at(rate)
	})
	return err
}

// leastVerified is the least rate that a correction of l tries: one at which its
// requests hardly meet each other, or the fewest that decide fill the time that a load
// may last.
func (o Options) leastVerified(l openLoad, asked float64) float64 {
	least := leastRate / max(l.residence.Seconds(), 1e-6)
	if o.Open.Longest > 0 {
		least = max(least, min(asked*verifyLeast, leastJudged/o.Open.Longest.Seconds()))
	}
	return least
}

// verified keeps what came of it, and says so where it is not what was promised.
func (r *runner) verified(v Verification) *Verification {
	for _, w := range v.Point.Warnings { // the verdict is no better than its load
		v.warn(w.Code, "%s pick under open-loop load: %s", v.Phase, w.Message)
	}
	sla := r.opts.SLA
	misses := fmt.Sprintf("%s: %s misses the SLA under open-loop load at its recommended %.4g requests/s: %s", v.Phase, v.label(), v.Asked, v.missed)
	switch {
	case v.Rate == 0 && v.open != "":
		v.warn("misses_under_load", "%s. No lower rate was seen to hold, so none is recommended: %s", misses, v.open)
	case v.Rate == 0:
		v.warn("misses_under_load", "%s. Every lower rate tried misses too, down to %.4g requests/s: %s", misses, v.Point.Rate, shortOf(*v.Point.Load, v.Phase, sla))
	case v.Rate < v.Asked:
		v.warn("rate_corrected", "%s. The recommendation is now %.4g requests/s, which holds", misses, v.Rate)
	}
	if a := v.Point.Load; v.Rate > 0 && a.Undecided(v.Phase, sla) {
		why := ", whose 95 % interval includes the limit"
		if a.TooShort(v.Phase, sla) {
			why = ", too correlated for a 95 % interval" + v.longer
		}
		v.warn("undecided_under_load",
			"%s: %s at %.4g requests/s is too close to the SLA to call (%s%s). Another run may miss it", v.Phase, v.label(), v.Rate, engine.Count(a.Requests, "request"), why)
	}
	v.warnWait(sla)
	return r.book.verified(v)
}

// warnWait says where requests wait for longer than TTFT may be before a decode engine
// takes them: what they get of prefill comes on top.
func (v *Verification) warnWait(sla profile.SLA) {
	ms, places := profile.Milliseconds, v.Point.Places()
	if l := v.Point.Load.TTFT.At(sla.Stat); v.Phase == profile.Decode && v.Rate > 0 && places > 0 && l > sla.TTFT {
		v.warn("decode_wait", "%s: at %.4g requests/s, requests queue at %s, which runs %d at once. TTFT without prefill is %s %.2f ms (limit %.6g ms)",
			v.Phase, v.Rate, v.label(), places, sla.Stat, ms(l), ms(sla.TTFT))
	}
}

// shortOf says by what a load misses.
func shortOf(a profile.Attainment, phase profile.Phase, sla profile.SLA) string {
	ms := profile.Milliseconds
	figure := ""
	if l := a.TPOT.At(sla.Stat); phase != profile.Prefill && l > sla.ITL {
		figure = fmt.Sprintf("ITL %.2f ms (limit %.6g ms)", ms(l), ms(sla.ITL))
	}
	if l := a.TTFT.At(sla.Stat); phase != profile.Decode && l > sla.TTFT {
		figure = fmt.Sprintf("TTFT %.2f ms (limit %.6g ms)", ms(l), ms(sla.TTFT))
	}
	switch {
	case a.Stopped != "" && figure != "":
		return a.Stopped + ", " + figure + " by then"
	case a.Stopped != "":
		return a.Stopped
	case a.FailsTooOften:
		return fmt.Sprintf("%d of %s failed", a.Failures, engine.Count(a.Requests, "request"))
	case a.Growing:
		return "the queue kept growing"
	}
	return figure
}
