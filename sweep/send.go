package sweep

import (
	"context"
	"slices"
	"time"

	"plimsoll/engine"
	"plimsoll/profile"
)

// A point is measured again when the client was its bottleneck, which a busy
// moment of its machine does, once when others held the machine, or when a stall was in it: its mean is further above
// its median, and the mean's interval wider, than both of these. Plain noise
// does the second alone; choosing among measurements by it would make intervals
// look narrower than they are.
const (
	looseShare = 0.05
	looseFloor = time.Millisecond / 2
	attempts   = 3
)

// warmUp sends load whose answers are thrown away; no requests, nothing sent.
func (r *runner) warmUp(ctx context.Context, s *trial, w profile.Workload) error {
	if w.Requests == 0 {
		return nil
	}
	m, err := s.measuring().Measurer.Measure(ctx, w)
	r.book.count(s, m.Requests)
	if err != nil {
		return err
	}
	return r.warmed(s, m.Requests)
}

// warmed takes in requests of a warm-up: their failures are told with the point that is
// measured next.
func (r *runner) warmed(s *trial, rs []profile.Request) error {
	s.warmUps = append(s.warmUps, rs...)
	return r.opts.Failing.after("warm-up", false)
}

// warmUpFailures is the caveat of a point whose warm-up failed in part.
func warmUpFailures(rs []profile.Request) []profile.Warning {
	failed := slices.DeleteFunc(slices.Clone(rs), profile.Request.OK)
	if len(failed) == 0 {
		return nil
	}
	last := failed[len(failed)-1]
	return []profile.Warning{profile.Warnf("warm_up_failures", "%d of %s failed. No other figure counts them; the last: %s: %s",
		len(failed), engine.Count(len(rs), "warm-up request"), last.Failure, last.Error).By(float64(len(failed)) / float64(len(rs)))}
}

// undisturbed measures w until no stall is in it, at most so many times; the point is
// of it and of what was measured before. A
// measurement with failures counts, but for the few that somebody's server may have, and
// so does one in virtual time, where nothing can disturb.
func (r *runner) undisturbed(ctx context.Context, s *trial, w profile.Workload, before Measurement, tries int, sum func(Measurement) profile.Point) (profile.Point, Measurement, error) {
	repeated := false
	for i := 1; ; i++ {
		began := r.opts.Now()
		p, m, err := r.measured(ctx, s, w, func(m Measurement) profile.Point { return sum(after(before, m)) })
		doubtful, fails := p.Client != nil && !p.Client.OK(), r.opts.SLA.Exceeds(p.Failures, p.Requests)
		over := err != nil || cutShort(ctx, s) || r.opts.at(s.stage).Virtual
		again := ""
		switch {
		case !over && i < tries && r.repeats(m.Machine, &repeated):
			again = m.Machine.Taken()
		case !over && (fails || p.Failures > 0 && p.Failures == p.Requests) && i < tries && r.opts.Failing.patient():
			again = "there were failed requests"
		case !over && !fails && doubtful && i < tries:
			again = "there were waits of the client"
		case !over && !fails && i < tries && (blank(p) && i == 1 || !blank(p) && stalled(p)):
			again = "there were stalls"
		default:
			return p, m, err
		}
		lone := sum(m)
		lone.ISL, lone.OSL, lone.Client, lone.Machine, lone.Started, lone.Elapsed = w.ISL, w.OSL, m.Client, m.Machine, began, r.opts.Now().Sub(began)
		if err := r.discard(s, lone, m.Requests, again); err != nil {
			return p, m, err
		}
	}
}

// bottleneck begins why a point is invalid whose latencies are the client's.
const bottleneck = "the client was the bottleneck: "

// measured sends w once. What puts it in doubt as a whole makes the point invalid.
func (r *runner) measured(ctx context.Context, s *trial, w profile.Workload, sum func(Measurement) profile.Point) (profile.Point, Measurement, error) {
	m, err := s.measuring().Measurer.Measure(ctx, w)
	r.book.count(s, m.Requests)
	p := sum(m)
	p.FailsTooOften = r.opts.SLA.FailsTooOften(p.Failures, p.Requests)
	p.Warnings, p.Machine, p.Server = append(p.Warnings, m.Warnings...), m.Machine, m.Server
	if p.Client = m.Client; m.Void != "" {
		p.Invalid = m.Void
	}
	if m.Client != nil && !m.Client.OK() {
		p.Invalid = bottleneck + m.Client.Why
	}
	return p, m, err
}

// latency is the distribution that the point is about: ITL where it has one.
func latency(p profile.Point) profile.Distribution {
	if p.ITL.N > 0 {
		return p.ITL
	}
	return p.TTFT
}

// blank reports whether a point came out unusable though nothing failed: once
// more, because a busy machine does that, and no oftener, because some engines do.
func blank(p profile.Point) bool { return p.ThroughputPerGPU <= 0 }

// stalled reports whether a few long waits carry the mean away.
func stalled(p profile.Point) bool {
	d := latency(p)
	limit := max(looseFloor, time.Duration(looseShare*float64(d.P50)))
	return d.Mean-d.P50 > limit && d.Half > limit
}
