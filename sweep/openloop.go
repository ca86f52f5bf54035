package sweep

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"plimsoll/profile"
)

// Mode is how the deployment serves.
type Mode string

// The modes.
const (
	Disaggregated Mode = "disaggregated" // prefill and decode on engines of their own; the default
	Aggregated    Mode = "aggregated"    // both on one engine
)

// OpenLoop says how engines are loaded by requests that come on their own.
type OpenLoop struct {
	Mode   Mode // empty = Disaggregated
	Verify bool // run the picks at their recommended rate
	// Requests is how many a load is judged by at least, before and after which
	// there are others; more where an interval takes more.
	Requests int
	// Longest is how long a load is judged at most, which may be too short for an
	// interval, and is said; 0 = as long as it takes.
	Longest time.Duration
	// Traffic gives n requests that come at a mean rate, in requests/s: the same
	// ones at the same gaps but for their scale, wherever the seed is the same.
	Traffic func(rate float64, n int, seed uint64) ([]profile.Ask, error)
	// Virtual: loads pass in virtual time, also those of an engine in real time.
	Virtual bool
	// Bracket: the highest rate of an aggregated engine is found by the evidence of a burst
	// and a few short loads together (recommend.HighestRate), not by loads each of which is
	// long enough for a verdict of its own: for time that somebody waits for.
	Bracket bool
	// Source says in words what Traffic gives: "Poisson arrivals of ISL 3000, OSL 150".
	Source string
}

// answer is how many tokens each answer of a phase's load has.
func (o Options) answer(phase profile.Phase) int {
	if phase == profile.Prefill {
		return 1
	}
	return o.OSL
}

// openCost is the expected duration of a load of n requests.
func (o Options) openCost(rate float64, n int, phase profile.Phase) time.Duration {
	if o.Virtual || o.Open.Virtual {
		return time.Duration(n)*virtualRequest + time.Duration(n*o.answer(phase))*virtualToken
	}
	return time.Duration(float64(n) / rate * float64(time.Second))
}

// errNoPlay is for an engine that cannot be loaded so.
var errNoPlay = errors.New("the engine cannot run open-loop loads")

// openPoint loads a trial's engine. Where requests stay longer than was thought,
// so that the part that counts began too early, it does so again, and where the
// load says nothing of the engine.
func (r *runner) openPoint(ctx context.Context, s *trial, l openLoad) (profile.Point, error) {
	cost := r.opts.openCost(l.rate, l.asked(r.opts.judged(l, s.phase)), s.phase)
	return r.timed(ctx, s, l.stage, l.id, cost, cmp.Or(l.takes, cost), func(ctx context.Context) (profile.Point, []profile.Request, error) {
		if s.inst.Play == nil {
			return profile.Point{}, nil, errNoPlay
		}
		if err := r.fill(ctx, s, l.fill); err != nil {
			return profile.Point{}, nil, err
		}
		if l.evidence {
			return r.playEvidence(ctx, s, l)
		}
		return r.playValid(ctx, s, l)
	})
}

// playEvidence plays a load that counts together with others. It repeats it once if the client
// was the bottleneck or other processes took the machine, and time is left.
func (r *runner) playEvidence(ctx context.Context, s *trial, l openLoad) (profile.Point, []profile.Request, error) {
	for repeated := false; ; {
		p, rs, err := r.playOnce(ctx, s, l)
		why := p.Invalid
		switch {
		case err != nil || cutShort(ctx, s):
			return p, rs, err
		case r.late(p.Elapsed): // another would not end in time, and this one tells more than none
			return p, rs, nil
		case why != "" && !repeated:
			repeated = true
		case why == "" && r.repeats(p.Machine, &repeated):
			why = p.Machine.Taken()
		default:
			return p, rs, nil
		}
		if err := r.discard(s, p, rs, why); err != nil {
			return p, rs, err
		}
	}
}

// playValid loads the engine, and again where the load says nothing of it: the
// client was in the way, or fewer requests were judged than the percentile takes; and
// once where others held the machine.
// After attempts loads it gives the last.
func (r *runner) playValid(ctx context.Context, s *trial, l openLoad) (profile.Point, []profile.Request, error) {
	repeated := false
	for i := 1; ; i++ {
		p, rs, err := r.playSettled(ctx, s, l)
		if err != nil || i == attempts || cutShort(ctx, s) {
			return p, rs, err
		}
		a, why := p.Load, p.Invalid
		switch few := a.Few(s.phase, r.opts.SLA) || a.Requests == 0; {
		case few && !a.FailsTooOften && !a.Growing && a.Stopped == "":
			more := r.opts.missing(l, *a, s.phase)
			if more <= 0 {
				return p, rs, nil
			}
			l.more += more
			why = a.TooFew(s.phase, r.opts.SLA)
		case p.Invalid == "" && r.repeats(p.Machine, &repeated):
			why = p.Machine.Taken()
		case p.Invalid == "":
			return p, rs, nil
		}
		if err := r.discard(s, p, rs, why); err != nil {
			return p, rs, err
		}
	}
}

// playSettled loads the engine, twice where requests stay longer than was thought.
func (r *runner) playSettled(ctx context.Context, s *trial, l openLoad) (profile.Point, []profile.Request, error) {
	p, rs, err := r.playOnce(ctx, s, l)
	if stayed := meanStay(rs); err == nil && !cutShort(ctx, s) && p.Load.Stopped == "" && stayed > l.residence+l.residence/4 && (!p.Load.Growing || growsOnly(p, r.opts.SLA)) {
		why := fmt.Sprintf("requests took %v on average, longer than the expected %v. The judged part began too early", stayed.Round(time.Millisecond), l.residence.Round(time.Millisecond))
		if err := r.discard(s, p, rs, why); err != nil {
			return p, rs, err
		}
		l.residence, l.settle = stayed+stayed/4, time.Duration(float64(l.settle)*1.25*float64(stayed)/float64(l.residence))
		p, rs, err = r.playOnce(ctx, s, l)
	}
	return p, rs, err
}

// cutShort reports whether the run was stopped or the engine ended: what was cut short by
// that says nothing, of which no load is sent again.
func cutShort(ctx context.Context, s *trial) bool { return ctx.Err() != nil || s.inst.Died() != nil }

// growsOnly reports whether a load misses by nothing but its growth, which may be
// that of an engine that was still filling when the part that counts began.
func growsOnly(p profile.Point, sla profile.SLA) bool {
	a := *p.Load
	a.Growing, p.Load = false, &a
	return p.Meets(sla)
}

// fill brings prompts into the engine's prefix cache.
func (r *runner) fill(ctx context.Context, s *trial, asks []profile.Ask) error {
	if len(asks) == 0 {
		return nil
	}
	m, err := r.play(ctx, s, profile.Script{
		Asks: asks, Seed: r.opts.Seed, Warmup: true, MaxInFlight: orOne(r.opts.MaxInFlight, len(asks)), Timeout: r.opts.RequestTimeout,
	}, nil)
	if err != nil {
		return fmt.Errorf("filling the prefix cache: %w", err)
	}
	return r.warmed(s, m.Requests)
}

// orOne is the cap on requests in flight where there is one, otherwise all.
func orOne(most, all int) int {
	if most > 0 {
		return most
	}
	return max(all, 1)
}

// playOnce loads the engine once, until the load is over or certain to miss.
func (r *runner) playOnce(ctx context.Context, s *trial, l openLoad) (profile.Point, []profile.Request, error) {
	asks, err := r.opts.Open.Traffic(l.rate, l.asked(r.opts.judged(l, s.phase)), l.seed)
	if err != nil {
		return profile.Point{Load: &profile.Attainment{}}, nil, fmt.Errorf("making a load of %.4g requests/s: %w", l.rate, err)
	}
	if l.change != nil {
		asks = l.change(asks)
	}
	underWay(asks, l.head)
	asks, long := fitting(asks, s.facts)
	if len(asks) == 0 {
		return profile.Point{Load: &profile.Attainment{}}, nil, allLong(s.facts)
	}
	for i := range asks { // the rate is that of those that are sent
		asks[i].Due = time.Duration(float64(asks[i].Due) * float64(len(asks)) / float64(len(asks)+long))
	}
	why, began := "", r.opts.Now()
	m, err := r.play(ctx, s, profile.Script{
		Asks: asks, Seed: r.scriptSeed(l), MaxInFlight: r.opts.MaxInFlight, Timeout: r.opts.RequestTimeout, Transferred: s.phase == profile.Decode,
	}, func() func(profile.Request) bool {
		sure := newCertainty(asks, l, s.phase, r.opts.SLA)
		why = ""
		return func(q profile.Request) bool {
			why = sure.missed(q)
			return why != ""
		}
	})
	p := summarizeOpen(m, l, s.phase, s.cfg, s.facts, r.opts.SLA)
	p.Load.Full = r.opts.full(*p.Load, s.phase)
	p.Load.Stopped, p.Started, p.Elapsed = why, began, r.opts.Now().Sub(began)
	p.ISL, p.OSL = r.opts.ISL, r.opts.answer(s.phase)
	p.Warnings = append(p.Warnings, m.Warnings...)
	p.Client, p.Machine, p.Server = m.Client, m.Machine, m.Server
	if c := m.Client; c != nil && !c.OK() && p.Invalid == "" {
		p.Invalid = bottleneck + c.Why
	}
	if long > 0 {
		p.Warnings = append(p.Warnings, profile.Warnf("too_long", "%d of %d requests exceed the engine's context of %d tokens and were left out", long, long+len(asks), s.facts.MaxModelLen))
	}
	return p, m.Requests, err
}

// scriptSeed decides the prompts: those that fill put into the cache, or new ones.
func (r *runner) scriptSeed(l openLoad) uint64 {
	if len(l.fill) > 0 {
		return r.opts.Seed
	}
	return r.seed(l.id)
}

// fitting leaves out what the engine's context does not hold.
func fitting(asks []profile.Ask, f profile.EngineFacts) (kept []profile.Ask, long int) {
	for _, a := range asks {
		if f.MaxModelLen > 0 && a.ISL+a.OSL > f.MaxModelLen {
			long++
			continue
		}
		kept = append(kept, a)
	}
	return kept, long
}

// allLong is for a load of which the engine's context holds nothing.
func allLong(f profile.EngineFacts) error {
	return fmt.Errorf("all requests exceed the engine's context of %d tokens", f.MaxModelLen)
}
