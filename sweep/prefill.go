package sweep

import (
	"context"
	"fmt"
	"math"
	"time"

	"plimsoll/engine"
	"plimsoll/profile"
)

// prefillSweep measures TTFT at the target ISL.
func (r *runner) prefillSweep(ctx context.Context, s *trial) error {
	if err := r.facts(ctx, s); err != nil {
		return err
	}
	if err := r.opts.holds(s.facts); err != nil {
		return err
	}
	_, err := r.prefillPoint(ctx, s, r.prefillID(s), r.opts.prefillStage(), r.opts.ISL, r.opts.PrefillRequests)
	return err
}

// prefillID names the point at the target ISL.
func (r *runner) prefillID(s *trial) string {
	return fmt.Sprintf("%s/%s/isl%d", r.opts.prefillStage(), s.key(), r.opts.ISL)
}

// prefillStage is what the point at the target ISL is for: aggregated engines are
// chosen among by rates, and it belongs to the surface.
func (o Options) prefillStage() profile.Stage {
	if o.Open.Mode == Aggregated {
		return profile.StageSurface
	}
	return profile.StageSweep
}

// prefillPoint measures requests of isl tokens, one at a time on each replica, every
// prompt new to the engine, after warm-up requests that are thrown away; or a burst. n are those of the first slice, at most.
func (r *runner) prefillPoint(ctx context.Context, s *trial, id string, stage profile.Stage, isl, n int) (profile.Point, error) {
	cost := r.opts.at(stage).prefillCost(s.cfg, isl, n)
	return r.point(ctx, s, stage, id, cost, func(ctx context.Context) (profile.Point, []profile.Request, error) {
		if bursts(s.cfg) {
			return r.burstPoint(ctx, s, id, isl)
		}
		return r.prefillSlices(ctx, s, id, stage, isl, n)
	})
}

// prompts are requests of isl tokens, one at a time on each replica, every prompt of every
// call new to the engine.
func (r *runner) prompts(id string, c engine.Config, isl int) profile.Workload {
	return profile.Workload{
		ISL: isl, OSL: 1, InFlight: r.opts.beside(c),
		Seed: r.seed(id), Timeout: r.opts.RequestTimeout,
	}
}

// summarizePrefill makes a point of requests of which n are in flight at a time:
// throughput = n · prompt tokens / mean TTFT / GPUs.
func summarizePrefill(m Measurement, cfg engine.Config, n int) profile.Point {
	rs := m.Requests
	w := profile.Whole(rs)
	s := m.summarize(rs, w)
	p := profile.Point{
		Asked: n, InFlight: float64(n), TTFT: s.TTFT, Requests: s.Requests, Failures: s.Failures, Warnings: s.Warnings, Invalid: s.Invalid,
	}
	if ttfts, tokens := firstTokens(rs); len(ttfts) > 0 && s.TTFT.Mean > 0 {
		p.Context = tokens
	} else {
		return p
	}
	rate := func(ttft time.Duration) float64 { return float64(n) * p.Context / ttft.Seconds() / float64(cfg.GPUs()) }
	p.ThroughputPerGPU = rate(s.TTFT.Mean)
	if h := s.TTFT.Half; h > 0 {
		p.Throughput95 = profile.Interval{Low: rate(s.TTFT.Mean + h), High: rate(max(s.TTFT.Mean-h, s.TTFT.Mean/100))}
	}
	doubtPrompts(&p, m, s, float64(n))
	doubtClock(&p, rs, w, cfg.GPUs())
	return p
}

// doubtPrompts says what puts in doubt that every prompt was computed, and alone
// but for the sent ones. A cache that serves more than a little of them makes
// TTFT another engine's.
func doubtPrompts(p *profile.Point, m Measurement, s profile.Summary, sent float64) {
	if seen, n := runningIn(m.Running, profile.Whole(m.Requests)); n > 0 {
		p.Warnings = append(p.Warnings, foreignLoad(seen, sent)...)
	}
	if math.IsNaN(s.Cached) {
		p.Warnings = append(p.Warnings, unverified(cachedShare)...)
	}
	if s.Cached > profile.PrefixShare {
		p.Warnings = append(p.Warnings, profile.Warnf("prefix_hit",
			"%.0f %% of prompt tokens came from the prefix cache, so TTFT is too low. Turn the cache off, or send new prompts", 100*s.Cached).By(s.Cached))
	}
	if s.Cached > profile.PrefixWrong && p.Invalid == "" {
		p.Invalid = fmt.Sprintf("%.0f %% of the tokens of new prompts came from the prefix cache", 100*s.Cached)
	}
}

// doubtClock holds throughput, which is computed from TTFT, against the clock:
// requests that follow one another cannot take their prompts through faster than
// their TTFT allow, whatever the engine; a stall may stand outside of TTFT, but
// not twice of everything.
func doubtClock(p *profile.Point, rs []profile.Request, w profile.Window, gpus int) {
	tokens := 0
	for _, q := range rs {
		if q.OK() {
			tokens += max(q.PromptTokens, 0)
		}
	}
	if tokens == 0 || w.Length() <= 0 {
		return
	}
	clock := float64(tokens) / w.Length().Seconds() / float64(gpus)
	if clock > 2*p.ThroughputPerGPU {
		p.Invalid = "requests overlapped that should have run one after another"
	}
}

// SamplesFor is how many requests a statistic of TTFT takes: what it needs at
// least, and a quarter more, because some hang together.
func SamplesFor(s profile.Statistic) int {
	n := profile.SamplesFor(s)
	if s.Quantile() > 0 {
		n += n / 4
	}
	return n
}

// prefillISLs are the lengths of the prefill surface: n of them, from 100
// tokens to what the context leaves beside the output, evenly spaced in ratio,
// because the curve bends at its short end. The target is one of them.
func prefillISLs(o Options, c engine.Config, context int) []int {
	lo, hi := min(100, o.ISL), context-prefillOSL(c)
	var isls []int
	for i := range o.PrefillGranularity {
		f := float64(i) / float64(max(o.PrefillGranularity-1, 1))
		isls = append(isls, int(math.Round(float64(lo)*math.Pow(float64(hi)/float64(lo), f))))
	}
	return distinct(append(isls, o.ISL))
}
