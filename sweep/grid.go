package sweep

import (
	"context"
	"fmt"

	"plimsoll/engine"
	"plimsoll/profile"
)

// The grid is the plan of Dynamo's profiler, point for point (ai-dynamo/dynamo,
// components/src/dynamo/profiler, 2026-08): each configuration is launched without
// prefix caching for one prefill point and with it for the decode points at the
// target lengths, each pick again for its surface. What is sent for a point is
// the list that gridPoint.loads has. TestGridAgainstUpstream holds it against a
// transcription of upstream's arithmetic.
//
// It is here to be compared with, and for who wants upstream's surfaces. Where it
// is not upstream's, it is because upstream's would not be a measurement:
//   - No more at once than the engine's own sequence limit, and as many as its KV
//     cache holds in whole blocks: more would wait, or be preempted, and be counted.
//   - Steps of 0 and granularities of 1, at which upstream fails, are steps of 1
//     and the largest count.
//   - Contexts of 2000 tokens and less, of which upstream's 500 output tokens and
//     512 reserved ones leave little or nothing: a quarter of the context each.
//   - A point of the surface that the sweep has already is not measured again.
//   - A percentile in the SLA is measured, by as many prefill requests as it takes;
//     upstream has one request and its mean. The list of what is sent then differs.
//   - ITL is of the part in which all requests stream, not of the whole run.

const (
	// gridWarmups is how many requests come before each load, on every attention
	// replica; gridPrefillOSL is the output length of prefill's.
	gridWarmups    = 3
	gridPrefillOSL = burstOSL
	// gridMost is the most that is in flight at once.
	gridMost = 2000
	// gridReserved is what prefill's longest prompt leaves of the context, tokens,
	// and gridOSL the output length of the decode surface.
	gridReserved, gridOSL = 512, 500
	// gridLeast is how many points a curve needs to be interpolated.
	gridLeast = 3
)

// gridPoint is one point of the grid.
type gridPoint struct {
	id       string
	stage    profile.Stage
	isl, osl int
	asked    int
	loads    []profile.Workload // sent in this order; the last is measured
}

// gridPoints are the points of a trial in a stage, by what is known of its engine.
func (o Options) gridPoints(s *trial, stage profile.Stage, f profile.EngineFacts) []gridPoint {
	var out []gridPoint
	switch {
	case stage == profile.StageSweep && s.phase == profile.Prefill:
		return []gridPoint{o.gridPrefill(s, stage, o.ISL)}
	case stage == profile.StageSweep:
		osl := o.decodeOSL(f)
		for _, n := range o.gridCounts(s.cfg, f, o.ISL, osl) {
			out = append(out, o.gridDecode(s, stage, o.ISL, osl, n))
		}
	case s.phase == profile.Prefill:
		for _, isl := range gridPrefillISLs(o.context(f), o.PrefillGranularity) {
			out = append(out, o.gridPrefill(s, stage, isl))
		}
	default:
		osl := gridShare(gridOSL, o.context(f))
		for _, isl := range gridDecodeISLs(o.context(f), osl, o.DecodeGranularity) {
			counts := o.gridCounts(s.cfg, f, isl, osl)
			if len(counts) == 0 {
				break // longer ones have no room either
			}
			for _, n := range counts {
				out = append(out, o.gridDecode(s, stage, isl, osl, n))
			}
		}
	}
	return out
}

// gridPrefill is one request after the warm-up, alone, every prompt new to the
// engine; with attention replicas one burst.
func (o Options) gridPrefill(s *trial, stage profile.Stage, isl int) gridPoint {
	g := gridPoint{id: fmt.Sprintf("%s/%s/isl%d", stage, s.key(), isl), stage: stage, isl: isl, osl: gridPrefillOSL, asked: 1}
	w := profile.Workload{
		ISL: isl, OSL: gridPrefillOSL, Requests: 1, InFlight: 1,
		Seed: o.seed(g.id), Timeout: o.RequestTimeout,
	}
	if stage == profile.StageSweep && o.SLA.Stat != profile.Mean {
		w.Requests = SamplesFor(o.SLA.Stat)
	}
	warm := w
	warm.Requests = gridWarmups
	switch dp := attentionReplicas(s.cfg); {
	case bursts(s.cfg):
		w.Requests, w.InFlight = perRank*dp, perRank*dp
		warm.Requests, warm.InFlight = gridWarmups*dp, gridWarmups*dp
	case dp > 1:
		w.InFlight, warm.InFlight = o.beside(s.cfg), o.beside(s.cfg)
		w.Requests, warm.Requests = w.Requests*w.InFlight, gridWarmups*w.InFlight
	}
	g.asked = w.InFlight
	g.loads = []profile.Workload{warm, w}
	return g
}

// gridDecode is two equal runs, each with its own warm-up: the first leaves the
// prompts in the prefix cache, the second is measured.
func (o Options) gridDecode(s *trial, stage profile.Stage, isl, osl, n int) gridPoint {
	g := gridPoint{id: fmt.Sprintf("%s/%s/isl%d/n%d", stage, s.key(), isl, n), stage: stage, isl: isl, osl: osl, asked: n}
	w := profile.Workload{
		ISL: isl, OSL: osl, Requests: n, InFlight: n,
		Seed: o.seed(g.id), SharedPrompts: true, Timeout: o.RequestTimeout,
	}
	warm := w
	warm.Requests = gridWarmups * attentionReplicas(s.cfg)
	warm.InFlight = min(n, warm.Requests)
	g.loads = []profile.Workload{warm, w, warm, w}
	return g
}

// gridCounts are the in-flight counts at some lengths: DecodeGranularity of them,
// evenly spaced in rounds of one request on each attention replica.
func (o Options) gridCounts(c engine.Config, f profile.EngineFacts, isl, osl int) []int {
	room := o.rounds(f, c, isl, osl)
	room.top = min(room.top, gridMost/room.each)
	return room.counts(spaced(room.top, o.DecodeGranularity))
}

// gridPrefillISLs are the prompt lengths of the prefill surface: from 100 tokens
// on, a granularity-th of the context apart.
func gridPrefillISLs(context, granularity int) []int {
	hi := context - gridShare(gridReserved, context)
	lo := min(100, (hi+1)/2)
	return stepped(lo, hi, (hi-lo)/granularity)
}

// gridDecodeISLs are the prompt lengths of the decode surface, likewise; the step
// is of the whole length, as upstream's.
func gridDecodeISLs(context, osl, granularity int) []int {
	hi := context - osl
	return stepped(min(100, (hi+1)/2), hi, hi/granularity)
}

// gridShare is that many tokens of a context, at most a quarter of it.
func gridShare(tokens, context int) int { return min(tokens, max(2, context/4)) }

// stepped are lo, lo+step and so on, below hi.
func stepped(lo, hi, step int) (v []int) {
	for x := lo; x < hi; x += max(step, 1) {
		v = append(v, x)
	}
	return v
}

// gridSweep measures one configuration at the target lengths.
func (r *runner) gridSweep(ctx context.Context, s *trial) error {
	if err := r.facts(ctx, s); err != nil {
		return err
	}
	o := r.opts
	if err := o.holds(s.facts); err != nil {
		return err
	}
	points := o.gridPoints(s, profile.StageSweep, s.facts)
	if len(points) == 0 {
		return tooSmall(s, o.ISL, o.decodeOSL(s.facts))
	}
	for _, g := range points {
		if _, err := r.gridPoint(ctx, s, g); err != nil {
			return err
		}
	}
	return nil
}

// gridSurface measures around a pick.
func (r *runner) gridSurface(ctx context.Context, s *trial) error {
	if err := r.facts(ctx, s); err != nil {
		return err
	}
	usable := 0
	for _, g := range r.opts.gridPoints(s, profile.StageSurface, s.facts) {
		if r.gridHas(s, g) {
			usable++
			continue
		}
		p, err := r.gridPoint(ctx, s, g)
		if err != nil {
			return err
		}
		if !p.FailsTooOften && p.Invalid == "" && p.Latency(profile.SLA{}) > 0 {
			usable++
		}
	}
	if usable < gridLeast {
		r.book.missing(s, fmt.Sprintf("the %s surface is incomplete: it has %d grid points, a curve needs %d", s.key(), usable, gridLeast))
	}
	return nil
}

// gridHas reports whether the sweep measured this very point.
func (r *runner) gridHas(s *trial, g gridPoint) bool {
	for _, p := range r.sweepPoints(s.phase) {
		if p.Config == s.cfg && p.ISL == g.isl && p.OSL == g.osl && p.Asked == g.asked {
			return true
		}
	}
	return false
}

// gridPoint sends what the point takes, once: upstream repeats nothing.
func (r *runner) gridPoint(ctx context.Context, s *trial, g gridPoint) (profile.Point, error) {
	return r.point(ctx, s, g.stage, g.id, r.opts.gridTime(s, g), func(ctx context.Context) (profile.Point, []profile.Request, error) {
		last := len(g.loads) - 1
		for _, w := range g.loads[:last] {
			if err := r.warmUp(ctx, s, w); err != nil {
				return profile.Point{}, nil, err
			}
		}
		p, m, err := r.measured(ctx, s, g.loads[last], func(m Measurement) profile.Point { return summarizeGrid(m, s, g.asked) })
		p.ISL, p.OSL, p.Asked = g.isl, g.osl, g.asked
		return p, m.Requests, err
	})
}

func summarizeGrid(m Measurement, s *trial, n int) profile.Point {
	switch {
	case s.phase == profile.Decode:
		return summarizeDecode(m, s.cfg, s.facts)
	case bursts(s.cfg):
		return summarizeBurst(m, s.cfg)
	}
	return summarizePrefill(m, s.cfg, n)
}
