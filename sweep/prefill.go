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
	id := fmt.Sprintf("sweep/%s/isl%d", s.key(), r.opts.ISL)
	_, err := r.prefillPoint(ctx, s, id, profile.StageSweep, r.opts.ISL, r.opts.PrefillRequests)
	return err
}

// prefillPoint measures n requests of isl tokens, one at a time, every prompt
// new to the engine, after warm-up requests that are thrown away; an engine with
// attention replicas by a burst.
func (r *runner) prefillPoint(ctx context.Context, s *trial, id string, stage profile.Stage, isl, n int) (profile.Point, error) {
	cost := r.opts.prefillCost(s.cfg, isl, n)
	return r.point(ctx, s, stage, id, cost, func(ctx context.Context) (profile.Point, []profile.Request, error) {
		if attentionReplicas(s.cfg) > 1 {
			return r.burstPoint(ctx, s, id, stage, isl)
		}
		w := profile.Workload{
			ISL: isl, OSL: 1, InFlight: 1, Arrival: profile.ClosedLoop,
			Seed: r.seed(id), Timeout: r.opts.RequestTimeout,
		}
		warm := w
		warm.Requests = r.opts.PrefillWarmups // prompts of every call are new
		if err := r.warmUp(ctx, s, warm); err != nil {
			return profile.Point{}, nil, err
		}
		w.Requests = n
		p, rs, err := r.undisturbed(ctx, s, w, func(m Measurement) profile.Point { return summarizePrefill(m, s.cfg) })
		p.ISL, p.OSL = isl, 1
		p.Warnings = append(p.Warnings, r.percentileWarning(stage, p.TTFT.N)...)
		return p, rs, err
	})
}

// summarizePrefill makes a point of one-at-a-time requests:
// throughput = prompt tokens / mean TTFT / GPUs.
func summarizePrefill(m Measurement, cfg engine.Config) profile.Point {
	rs := m.Requests
	w := profile.Whole(rs)
	s := profile.Summarize(rs, w)
	p := profile.Point{
		Asked: 1, InFlight: 1, TTFT: s.TTFT, Requests: s.Requests, Failures: s.Failures, Warnings: s.Warnings,
	}
	if ttfts, tokens := firstTokens(rs); len(ttfts) > 0 && s.TTFT.Mean > 0 {
		p.Context = tokens
	} else {
		return p
	}
	rate := func(ttft time.Duration) float64 { return p.Context / ttft.Seconds() / float64(cfg.GPUs()) }
	p.ThroughputPerGPU = rate(s.TTFT.Mean)
	if h := s.TTFT.Half; h > 0 {
		p.Throughput95 = profile.Interval{Low: rate(s.TTFT.Mean + h), High: rate(max(s.TTFT.Mean-h, s.TTFT.Mean/100))}
	}
	p.Warnings = append(p.Warnings, promptWarnings(m, s, 1)...)
	return p
}

// promptWarnings are what puts in doubt that every prompt was computed, and
// alone but for the sent ones.
func promptWarnings(m Measurement, s profile.Summary, sent float64) (ws []profile.Warning) {
	if seen, n := runningIn(m.Running, profile.Whole(m.Requests)); n > 0 {
		ws = append(ws, foreignLoad(seen, sent)...)
	}
	if math.IsNaN(s.Cached) {
		ws = append(ws, profile.Warnf("prefix_unverified", "the engine does not tell whether a prompt came from its prefix cache"))
	}
	if s.Cached > 0.01 {
		ws = append(ws, profile.Warnf("prefix_hit",
			"%.0f %% of the prompt came from the prefix cache: TTFT is understated", 100*s.Cached))
	}
	return ws
}

// percentileWarning warns where the SLA's percentile is beyond what n samples hold.
func (r *runner) percentileWarning(stage profile.Stage, n int) []profile.Warning {
	if stage == profile.StageSurface || r.opts.SLA.Stat == profile.Mean {
		return nil // surfaces are of means, whose interval says it all
	}
	need := SamplesFor(r.opts.SLA.Stat)
	if n == 0 || n >= need {
		return nil
	}
	return []profile.Warning{profile.Warnf("few_samples",
		"%d samples: %s needs about %d, and is close to the maximum here", n, r.opts.SLA.Stat, need)}
}

// SamplesFor is how many samples a statistic needs so that at least one lies
// beyond it: 1/(1−q), and five for a mean with its spread.
func SamplesFor(s profile.Statistic) int {
	q := map[profile.Statistic]float64{profile.P50: 0.5, profile.P90: 0.9, profile.P95: 0.95, profile.P99: 0.99}[s]
	return max(5, int(math.Ceil(1/(1-q)-1e-9)))
}

// prefillISLs are the lengths of the prefill surface: n of them, from 100
// tokens to what the context leaves beside the output; evenly spaced on the grid
// (as upstream), otherwise in ratio, because the curve bends at its short end.
// The target is one of them.
func prefillISLs(o Options, c engine.Config, context int) []int {
	lo, hi := min(100, o.ISL), context-prefillOSL(c)
	var isls []int
	for i := range o.PrefillGranularity {
		f := float64(i) / float64(max(o.PrefillGranularity-1, 1))
		if o.Search == Grid {
			isls = append(isls, lo+int(f*float64(hi-lo)))
		} else {
			isls = append(isls, int(math.Round(float64(lo)*math.Pow(float64(hi)/float64(lo), f))))
		}
	}
	return distinct(append(isls, o.ISL))
}

// prefillSurface measures TTFT over ISL at the pick.
func (r *runner) prefillSurface(ctx context.Context, s *trial) error {
	if err := r.facts(ctx, s); err != nil {
		return err
	}
	for _, isl := range prefillISLs(r.opts, s.cfg, r.opts.context(s.facts)) {
		if near(isl, r.opts.ISL) {
			continue // the sweep's own point
		}
		id := fmt.Sprintf("surface/%s/isl%d", s.key(), isl)
		if _, err := r.prefillPoint(ctx, s, id, profile.StageSurface, isl, r.opts.SurfaceRequests); err != nil {
			return err
		}
	}
	return nil
}
