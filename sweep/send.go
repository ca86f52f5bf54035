package sweep

import (
	"context"
	"fmt"
	"time"

	"plimsoll/profile"
)

// A point is measured again when its interval is wider than both of these:
// something else than the engine was at work.
const (
	looseShare = 0.05
	looseFloor = time.Millisecond / 2
	attempts   = 3
)

// warmUp sends load whose answers are thrown away; no requests, nothing sent.
func (r *runner) warmUp(ctx context.Context, in *Instance, w profile.Workload) error {
	if w.Requests == 0 {
		return nil
	}
	m, err := in.Measurer.Measure(ctx, w)
	r.count(m.Requests)
	if err != nil {
		return err
	}
	return r.overload("warm-up")
}

// undisturbed measures w until the mean's interval is tight, at most attempts
// times, and keeps the tightest, with a warning that says what it cost.
func (r *runner) undisturbed(ctx context.Context, in *Instance, w profile.Workload, sum func(Measurement) profile.Point) (profile.Point, []profile.Request, error) {
	var best profile.Point
	var kept []profile.Request
	for i := range attempts {
		m, err := in.Measurer.Measure(ctx, w)
		r.count(m.Requests)
		p := sum(m)
		p.Warnings = append(p.Warnings, m.Warnings...)
		if i == 0 || err == nil && p.Failures == 0 && spread(p) < spread(best) {
			best, kept = p, m.Requests
		}
		if err != nil || p.Failures > 0 || ctx.Err() != nil || in.Died() != nil {
			return best, kept, err
		}
		if !loose(best) {
			if i > 0 {
				best.Warnings = append(best.Warnings, profile.Warnf("disturbed", "measured %d times: the others were disturbed", i+1))
			}
			return best, kept, nil
		}
	}
	best.Warnings = append(best.Warnings, profile.Warnf("noisy", "%s %v ± %v in the quietest of %d measurements",
		latencyName(best), latency(best).Mean.Round(10*time.Microsecond), latency(best).Half.Round(10*time.Microsecond), attempts))
	return best, kept, nil
}

// latency is the distribution that the point is about: ITL where it has one.
func latency(p profile.Point) profile.Distribution {
	if p.ITL.N > 0 {
		return p.ITL
	}
	return p.TTFT
}

func latencyName(p profile.Point) string {
	if p.ITL.N > 0 {
		return "ITL"
	}
	return "TTFT"
}

// spread is the relative half-width of the mean's interval.
func spread(p profile.Point) float64 {
	d := latency(p)
	if d.Mean <= 0 {
		return 1
	}
	return float64(d.Half) / float64(d.Mean)
}

func loose(p profile.Point) bool {
	return spread(p) > looseShare && latency(p).Half > looseFloor
}

// count adds requests to what the sweep spent.
func (r *runner) count(rs []profile.Request) {
	r.res.Cost.Requests += len(rs)
	for _, q := range rs {
		r.res.Cost.PromptTokens += int64(q.PromptTokens)
		r.res.Cost.OutputTokens += int64(q.OutputTokens)
		if !q.OK() && q.Failure != profile.FailCanceled {
			r.failed++
		}
	}
}

// overload stops a sweep of somebody's server that has begun to fail.
func (r *runner) overload(at string) error {
	sent := r.res.Cost.Requests
	if m := r.opts.StopErrorShare; m > 0 && r.failed > 0 && float64(r.failed) >= m*float64(sent) {
		return fmt.Errorf("%w: %d of %d: stopped at %s", ErrOverload, r.failed, sent, at)
	}
	return nil
}
