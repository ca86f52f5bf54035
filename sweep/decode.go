package sweep

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"plimsoll/engine"
	"plimsoll/profile"
)

// decodeSweep measures ITL against in-flight requests at the target lengths.
func (r *runner) decodeSweep(ctx context.Context, s *trial) error {
	if err := r.facts(ctx, s); err != nil {
		return err
	}
	o := r.opts
	if err := o.holds(s.facts); err != nil {
		return err
	}
	osl := o.decodeOSL(s.facts)
	room := o.rounds(s.facts, s.cfg, o.ISL, osl)
	if room.top < 1 {
		return tooSmall(s, o.ISL, osl)
	}
	tried := map[int]profile.Point{} // a search may come back to a count
	at := func(n int) (profile.Point, error) {
		if p, ok := tried[n]; ok {
			return p, nil
		}
		id := fmt.Sprintf("sweep/%s/isl%d/n%d", s.key(), o.ISL, n)
		p, err := r.decodePoint(ctx, s, id, profile.StageSweep, o.ISL, osl, n)
		tried[n] = p
		return p, err
	}
	if osl != o.OSL {
		r.book.warn(s, profile.Warnf("osl_raised", "decode is measured with %d output tokens: %d give too few steps to measure", osl, o.OSL))
	}
	if o.Search == Grid {
		return r.grid(s, room, at)
	}
	return boundary(room.top, o.SLA, func(k int) (profile.Point, error) { return at(k * room.each) })
}

// tooSmall says that not one request has room.
func tooSmall(s *trial, isl, osl int) error {
	tokens, where := s.facts.KVTokens, ""
	if dp := attentionReplicas(s.cfg); dp > 1 {
		tokens, where = tokens/dp, " in each attention replica"
	}
	return &engineError{err: fmt.Errorf("KV cache of %d tokens%s does not hold one request of %d + %d tokens", tokens, where, isl, osl)}
}

// grid measures every count, and says where it is too coarse for the SLA.
func (r *runner) grid(s *trial, room rounds, at func(n int) (profile.Point, error)) error {
	held := 0
	for _, n := range room.counts(spaced(room.top, r.opts.DecodeGranularity)) {
		p, err := at(n)
		if err != nil {
			return err
		}
		meets := p.Meets(r.opts.SLA)
		if !meets && held > 0 && n-held > max(room.each, held/20) {
			r.book.warn(s, profile.Warnf("coarse_grid",
				"%s: the SLA's boundary lies between %d and %d in flight, and the grid has nothing between: --search adaptive finds it", s.label(), held, n))
		}
		if held = 0; meets {
			held = n
		}
	}
	return nil
}

// decodePoint measures n requests in flight, their prompts filled into the
// prefix cache first so that prefill is skipped, over the part where all stream.
func (r *runner) decodePoint(ctx context.Context, s *trial, id string, stage profile.Stage, isl, osl, n int) (profile.Point, error) {
	cost := r.opts.decodeCost(s.cfg, isl, osl, n)
	return r.point(ctx, s, stage, id, cost, func(ctx context.Context) (profile.Point, []profile.Request, error) {
		w := profile.Workload{
			ISL: isl, OSL: osl, Requests: n, InFlight: n, Arrival: profile.ClosedLoop,
			Seed: r.opts.Seed, SharedPrompts: true, Timeout: r.opts.RequestTimeout,
		}
		warm := w
		warm.OSL, warm.Warmup = 1, true
		if err := r.warmUp(ctx, s, warm); err != nil {
			return profile.Point{}, nil, err
		}
		p, rs, err := r.undisturbed(ctx, s, w, func(m Measurement) profile.Point { return summarizeDecode(m, s.cfg, s.facts.KVTokens) })
		p.ISL, p.OSL, p.Asked = isl, osl, n
		p.Warnings = append(p.Warnings, r.percentileWarning(stage, p.ITL.N)...)
		return p, rs, err
	})
}

// fastestToken is a gap that no engine reaches and that only chunks of one
// buffer have.
const fastestToken = 20 * time.Microsecond

// summarizeDecode makes a point of the part in which every request streams.
// InFlight, Context and KVUsage are what was seen there; where the engine's own
// running count is lower than the client's, the engine is believed.
func summarizeDecode(m Measurement, cfg engine.Config, kvTokens int) profile.Point {
	w, ok := profile.Steady(m.Requests)
	s := profile.Summarize(m.Requests, w)
	p := profile.Point{TTFT: s.TTFT, Requests: s.Requests, Failures: s.Failures, Warnings: s.Warnings}
	switch good := s.Requests - s.Failures; {
	case good == 0:
		return p
	case !ok || 10*s.Streaming < 9*good:
		p.Warnings = append(p.Warnings, profile.Warnf("no_steady_part",
			"at no time did all %d requests stream at once for long enough: raise --osl, or let the engine keep prompts in its prefix cache", len(m.Requests)))
		return p
	case s.ITL.P50 < fastestToken:
		p.Warnings = append(p.Warnings, profile.Warnf("buffered",
			"half of all chunks came within %v of the one before: the stream is buffered on its way, and its gaps are not the engine's", fastestToken))
		return p
	}
	p.ITL, p.TPOT, p.InFlight, p.Context = s.ITL, s.TPOT, s.InFlight, s.Context
	p.ThroughputPerGPU = s.TokensPerSec / float64(cfg.GPUs())
	if h := s.ITL.Half; h > 0 {
		ratio := func(d time.Duration) float64 { return float64(s.ITL.Mean) / float64(d) }
		p.Throughput95 = profile.Interval{Low: p.ThroughputPerGPU * ratio(s.ITL.Mean+h), High: p.ThroughputPerGPU * ratio(max(s.ITL.Mean-h, s.ITL.Mean/100))}
	}
	if seen, n := runningIn(m.Running, w); n == 0 {
		p.Warnings = append(p.Warnings, profile.Warnf("in_flight_unverified", "the engine's own running count was not to be had: in-flight is the client's"))
	} else if seen < 0.95*p.InFlight {
		p.Warnings = append(p.Warnings, profile.Warnf("in_flight_short", "the engine ran %.1f requests at once, not the %.1f that were sent", seen, p.InFlight))
		p.InFlight = seen
	} else {
		p.Warnings = append(p.Warnings, foreignLoad(seen, p.InFlight)...)
	}
	switch {
	case math.IsNaN(s.Cached):
		p.Warnings = append(p.Warnings, profile.Warnf("prefill_skip_unverified", "the engine does not tell how much of a prompt came from its prefix cache"))
	case s.Cached < 0.9:
		p.Warnings = append(p.Warnings, profile.Warnf("prefill_not_skipped", "%.0f %% of the prompts came from the prefix cache", 100*s.Cached))
	}
	p.KVUsage = p.InFlight * p.Context / float64(kvTokens)
	return p
}

// foreignLoad warns where the engine runs clearly more than was sent to it.
func foreignLoad(seen, sent float64) []profile.Warning {
	if seen <= 1.05*sent+0.5 {
		return nil
	}
	return []profile.Warning{profile.Warnf("foreign_load", "the engine ran %.1f requests at once and %.1f were ours: somebody else's load is in this number", seen, sent)}
}

// runningIn averages the engine's running count inside a window.
func runningIn(rs []Running, w profile.Window) (mean float64, n int) {
	for _, r := range rs {
		if r.At >= w.From && r.At <= w.To {
			mean += r.N
			n++
		}
	}
	if n > 0 {
		mean /= float64(n)
	}
	return mean, n
}

// decodeSurface measures ITL over context and in-flight at the pick. The row at
// the target lengths is the sweep's own.
func (r *runner) decodeSurface(ctx context.Context, s *trial) error {
	if err := r.facts(ctx, s); err != nil {
		return err
	}
	o := r.opts
	osl := o.surfaceOSL(s.facts)
	for _, isl := range decodeISLs(o, o.context(s.facts), osl) {
		if err := r.decodeRow(ctx, s, isl, osl); err != nil {
			return err
		}
	}
	if r.targetRow(s) < 3 { // the search stopped early there
		return r.decodeRow(ctx, s, o.ISL, o.decodeOSL(s.facts))
	}
	return nil
}

// decodeRow measures one context at evenly spaced in-flight counts.
func (r *runner) decodeRow(ctx context.Context, s *trial, isl, osl int) error {
	room := r.opts.rounds(s.facts, s.cfg, isl, osl)
	for _, n := range room.counts(spaced(room.top, r.opts.DecodeGranularity)) {
		if r.has(s, isl, osl, n) {
			continue // the sweep's own
		}
		id := fmt.Sprintf("surface/%s/isl%d/n%d", s.key(), isl, n)
		if _, err := r.decodePoint(ctx, s, id, profile.StageSurface, isl, osl, n); err != nil {
			return err
		}
	}
	return nil
}

// has reports whether the sweep measured this very point.
func (r *runner) has(s *trial, isl, osl, n int) bool {
	return slices.ContainsFunc(r.sweepPoints(profile.Decode), func(p profile.Point) bool {
		return p.Config == s.cfg && p.ISL == isl && p.OSL == osl && p.Asked == n
	})
}

// targetRow counts the sweep's points at the target lengths of a configuration.
func (r *runner) targetRow(s *trial) int {
	n := 0
	for _, p := range r.sweepPoints(profile.Decode) {
		if p.Config == s.cfg && p.Failures == 0 && p.ITL.Mean > 0 {
			n++
		}
	}
	return n
}

// decodeISLs are the prompt lengths of the decode surface, evenly spaced from
// 100 tokens to what the context leaves beside the output, without one that
// the target row already covers.
func decodeISLs(o Options, context, osl int) []int {
	lo, hi := min(100, o.ISL), context-osl
	var isls []int
	for i := range o.DecodeGranularity {
		isl := lo + int(float64(i)/float64(max(o.DecodeGranularity-1, 1))*float64(hi-lo))
		if near(isl, o.ISL) || isl < 1 {
			continue
		}
		isls = append(isls, isl)
	}
	return distinct(isls)
}

// near reports whether two lengths are within 2 %: two rows there would only
// measure their noise.
func near(a, b int) bool { return 50*abs(a-b) <= max(a, b) }

func abs(a int) int { return max(a, -a) }
