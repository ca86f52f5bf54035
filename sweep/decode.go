package sweep

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"plimsoll/engine"
	"plimsoll/engine/field"
	"plimsoll/profile"
)

// decodeSweep measures ITL against in-flight requests at the target lengths, up
// to where it passes the SLA.
func (r *runner) decodeSweep(ctx context.Context, s *trial) (err error) {
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
	start := 0
	if e, ok := o.expect(s.cfg); ok {
		start = o.expectedBoundary(e, s.cfg, 1) / room.each / 2
	}
	c := &climber{r: r, s: s, stage: profile.StageSweep, isl: o.ISL, osl: osl, top: room.top * room.each}
	defer func() { err = errors.Join(err, c.close(ctx)) }()
	tried := map[int]profile.Point{} // the search may come back to a count
	return ascend(room.top, start, o.SLA, func(k int) (profile.Point, error) {
		if p, ok := tried[k]; ok {
			return p, nil
		}
		p, err := c.at(ctx, k*room.each)
		tried[k] = p
		return p, err
	})
}

// tooSmall says that not one request has room.
func tooSmall(s *trial, isl, osl int) error {
	tokens, where := s.facts.KVTokens, ""
	if dp := attentionReplicas(s.cfg); dp > 1 {
		tokens, where = tokens/dp, " in each attention replica"
	}
	return &engineError{err: fmt.Errorf("the KV cache of %d tokens%s is too small for one request of %d prompt and %d output tokens", tokens, where, isl, osl)}
}

// alone measures n requests in flight by themselves, their prompts filled into the
// prefix cache first so that prefill is skipped, over the part where all stream.
func (r *runner) alone(ctx context.Context, s *trial, isl, osl, n int) (profile.Point, []profile.Request, error) {
	w := profile.Workload{
		ISL: cachedISL(s.facts, isl, osl), OSL: osl, Requests: n, InFlight: n,
		Seed: r.opts.Seed, SharedPrompts: true, Timeout: r.opts.RequestTimeout,
	}
	warm := w
	warm.OSL, warm.Warmup = 1, true
	if err := r.warmUp(ctx, s, warm); err != nil {
		return profile.Point{}, nil, err
	}
	p, m, err := r.undisturbed(ctx, s, w, Measurement{}, attempts, func(m Measurement) profile.Point { return summarizeDecode(m, s.cfg, s.facts) })
	p.ISL, p.OSL, p.Asked = isl, osl, n
	return p, m.Requests, err
}

// cachedISL is a prompt length near isl that the prefix cache leaves little of uncached, and
// that takes no more KV blocks; isl if there is none.
func cachedISL(f profile.EngineFacts, isl, osl int) int {
	slack, block := max(sliceTokens/2, int(contextSeen*float64(isl))), max(f.BlockSize, 1)
	high := min(isl+slack, (isl+osl+block-1)/block*block-osl)
	if f.MaxModelLen > 0 {
		high = min(high, f.MaxModelLen-osl)
	}
	return f.CachedPrompt(isl, max(1, isl-slack), high)
}

// unskipped reports whether the prefix cache served clearly less of prompts of isl tokens than
// it can hold; false if that is unknown.
func unskipped(f profile.EngineFacts, isl int, cached float64) bool {
	return cached < profile.PrefillUnskip*float64(f.Cacheable(isl))/float64(isl)
}

// fastestToken is a gap that no engine reaches and that only chunks of one
// buffer have.
const fastestToken = 20 * time.Microsecond

// summarizeDecode makes a point of the part in which every request streams, or
// of the one that the measurer cut.
// InFlight, Context and KVUsage are what was seen there; where the engine's own
// running count is lower than the client's, the engine is believed.
func summarizeDecode(m Measurement, cfg engine.Config, f profile.EngineFacts) profile.Point {
	w, ok := m.Window, true
	cut := w != profile.Window{} // streams whose prefill was over before
	if !cut {
		w, ok = profile.Steady(m.Requests)
	}
	s := m.summarize(m.Requests, w)
	p := profile.Point{TTFT: s.TTFT, TokensPerChunk: s.TokensPerChunk, Requests: s.Requests, Failures: s.Failures, Warnings: s.Warnings, Invalid: s.Invalid}
	switch good := s.Requests - s.Failures; {
	case good == 0:
		return p
	case !ok || 10*s.Streaming < 9*good:
		p.Warnings = append(p.Warnings, profile.Warnf("no_steady_part",
			"the %d requests never streamed together for long enough to measure. Raise "+field.OSL+" or enable the engine's prefix cache; if it runs fewer than %[1]d at once, raise its limit", len(m.Requests)))
		return p
	case s.ITL.P50 < fastestToken:
		p.Warnings = append(p.Warnings, profile.Warnf("buffered",
			"half of all chunks came within %v of the one before. A proxy or server option buffers the stream, so ITL cannot be measured; turn the buffering off", fastestToken))
		return p
	}
	p.ITL, p.TPOT, p.InFlight, p.Context = s.ITL, s.TPOT, s.InFlight, s.Context
	p.ThroughputPerGPU = s.TokensPerSec / float64(cfg.GPUs())
	if h := s.ITL.Half; h > 0 {
		ratio := func(d time.Duration) float64 { return float64(s.ITL.Mean) / float64(d) }
		p.Throughput95 = profile.Interval{Low: p.ThroughputPerGPU * ratio(s.ITL.Mean+h), High: p.ThroughputPerGPU * ratio(max(s.ITL.Mean-h, s.ITL.Mean/100))}
	}
	var untold []string
	if seen, n := runningIn(m.Running, w); n == 0 || !(seen > 0) { // a gauge that says 0 while streams run says nothing
		untold = append(untold, "how many requests it runs")
	} else if seen < 0.95*p.InFlight {
		p.Warnings = append(p.Warnings, profile.Warnf("in_flight_short", "the engine ran only %.1f requests at once (%.1f were sent). This point counts as %.1[1]f in flight", seen, p.InFlight).By(1-seen/p.InFlight))
		p.InFlight = seen
	} else {
		p.Warnings = append(p.Warnings, foreignLoad(seen, p.InFlight)...)
	}
	switch {
	case cut:
	case math.IsNaN(s.Cached):
		untold = append(untold, cachedShare)
	case unskipped(f, m.Requests[0].ISL, s.Cached):
		p.Warnings = append(p.Warnings, profile.Warnf("prefill_not_skipped", "only %.0f %% of prompt tokens came from the prefix cache, so prefill slows this decode measurement", 100*s.Cached).By(1-s.Cached))
	}
	p.Warnings = append(p.Warnings, unverified(untold...)...)
	p.KVUsage = f.KVUse(p.InFlight, p.Context)
	return p
}

// cachedShare is what an engine may not tell of a prompt.
const cachedShare = "how much of a prompt came from its prefix cache"

// unverified says what an engine does not tell of itself: it is as it was asked for, by
// the client's word alone.
func unverified(untold ...string) []profile.Warning {
	if len(untold) == 0 {
		return nil
	}
	return []profile.Warning{profile.Warnf("unverified", "the engine does not report %s. The requested value is assumed", strings.Join(untold, " or "))}
}

// foreignLoad warns where the engine runs clearly more than was sent to it.
func foreignLoad(seen, sent float64) []profile.Warning {
	if seen <= 1.05*sent+0.5 {
		return nil
	}
	return []profile.Warning{profile.Warnf("foreign_load", "the engine ran %.1f requests at once, but we sent %.1f. Other load distorts this number; stop it and measure again", seen, sent).By(seen - sent)}
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

// has reports whether the sweep measured this load, or one so near that another
// would be no news.
func (r *runner) has(s *trial, isl, osl, n int) bool {
	return slices.ContainsFunc(r.swept(s, isl, osl), func(m int) bool {
		return float64(max(m, n)) < sameLoad*float64(min(m, n))
	})
}

// swept are the in-flight counts of the sweep's usable points at some lengths.
func (r *runner) swept(s *trial, isl, osl int) (counts []int) {
	for _, p := range r.sweepPoints(profile.Decode) {
		if p.Config == s.cfg && p.ISL == isl && p.OSL == osl && usable(p) && p.ITL.Mean > 0 {
			counts = append(counts, p.Asked)
		}
	}
	return counts
}

// near reports whether two lengths are within 2 %: two rows there would only
// measure their noise.
func near(a, b int) bool { return 50*abs(a-b) <= max(a, b) }

func abs(a int) int { return max(a, -a) }
