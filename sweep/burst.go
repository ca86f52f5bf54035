package sweep

import (
	"context"
	"slices"
	"time"

	"plimsoll/engine"
	"plimsoll/profile"
)

// An engine with attention replicas (DP) prefills as many prompts at once as it
// has replicas, and one prompt alone would leave all but one of them idle. A server that
// already runs has one prompt for each of them at a time (beside). One that is launched is
// measured by one burst of perRank prompts for each, as Dynamo's profiler does
// (ai-dynamo/dynamo, DEP prefill, 2026-08):
//
//	TTFT = (max TTFT − ITL·(OSL−1)·(perRank−1)) / perRank
//
// A replica takes one sequence at a time (newTrial asks for that, as upstream
// does), so that its prompts follow each other: the last one's first token comes
// after perRank prefills and, for each of the prompts before it, the OSL−1 steps
// in which the rest of that answer was decoded. What is left is one prefill
// while every replica has one. TTFT is counted from sending, so a perRank-th of
// the time outside of the engine's steps is in it, not all.
//
// That is more than a prompt takes which has the engine to itself, as one is
// measured on an engine without replicas: the others' tokens pass through the
// same experts and links. By the latency model, for DeepSeek-R1 in FP8 at DEP:8
// on H200-SXM, 1.1 times as much at 100 tokens, 1.6 at 1000 to 3000 and 1.5 at
// 9000 (TestBurstAgainstTheModel in cmd/plimsoll).
//
// In real time the first request may be under way, alone, when the others come,
// and all replicas wait for that step: up to a perRank-th too much. The embedded
// engine at DEP:4 (Qwen3-30B-A3B, H100-SXM, 500 tokens) gave 20.0 ms over HTTP and
// 15.1 ms in virtual time, where all come at once. Then the warning is there too.
const (
	perRank  = 4
	burstOSL = 5
)

// uneven is by how much the burst's TTFT may differ from that of the prompts
// that were first, relative to it, before the formula's premise is in doubt.
const uneven = 0.25

// attentionReplicas is DP.
func attentionReplicas(c engine.Config) int { return c.Parallelism.Normal().DP }

// bursts reports whether prefill is measured by bursts: of an engine whose replicas can be
// told to take one sequence at a time.
func bursts(c engine.Config) bool {
	return attentionReplicas(c) > 1 && c.Kind != engine.KindEndpoint
}

// beside is how many prompts are prefilled at a time where there are no bursts.
func (o Options) beside(c engine.Config) int {
	n := attentionReplicas(c)
	if o.MaxInFlight > 0 {
		n = min(n, o.MaxInFlight)
	}
	return n
}

// prefillOSL is how many output tokens a request of a prefill point has.
func prefillOSL(c engine.Config) int {
	if bursts(c) {
		return burstOSL
	}
	return 1
}

// prefillLoad is how many requests a prefill point of n takes, and how many
// before it are thrown away.
func (o Options) prefillLoad(c engine.Config, n int) (requests, warmups int) {
	dp := attentionReplicas(c)
	if bursts(c) {
		n = perRank
	}
	return n * dp, o.PrefillWarmups * dp
}

// burstPoint measures a prefill point of an engine with attention replicas.
func (r *runner) burstPoint(ctx context.Context, s *trial, id string, isl int) (profile.Point, []profile.Request, error) {
	requests, warmups := r.opts.prefillLoad(s.cfg, 0)
	w := profile.Workload{
		ISL: isl, OSL: burstOSL, Requests: requests, InFlight: requests,
		Seed: r.seed(id), Timeout: r.opts.RequestTimeout,
	}
	warm := w
	warm.Requests, warm.InFlight = warmups, attentionReplicas(s.cfg)
	if err := r.warmUp(ctx, s, warm); err != nil {
		return profile.Point{}, nil, err
	}
	p, m, err := r.undisturbed(ctx, s, w, Measurement{}, attempts, func(m Measurement) profile.Point { return summarizeBurst(m, s.cfg) })
	p.ISL, p.OSL = isl, burstOSL
	return p, m.Requests, err
}

// summarizeBurst makes a point of a burst: throughput = replicas · prompt tokens
// / TTFT / GPUs. One burst gives one TTFT, and no interval.
func summarizeBurst(m Measurement, cfg engine.Config) profile.Point {
	dp, n := attentionReplicas(cfg), len(m.Requests)
	s := m.summarize(m.Requests, profile.Whole(m.Requests))
	p := profile.Point{Asked: n, InFlight: float64(dp), Requests: s.Requests, Failures: s.Failures, Warnings: s.Warnings, Invalid: s.Invalid}
	ttfts, tokens := firstTokens(m.Requests)
	if len(ttfts) < dp {
		return p
	}
	ttft := (slices.Max(ttfts) - (burstOSL-1)*(perRank-1)*s.ITL.Mean) / perRank
	if ttft <= 0 {
		p.Warnings = append(p.Warnings, profile.Warnf("burst_order",
			"at an ITL of %v, decoding between a replica's prompts would take longer than the whole burst. The prompts did not run one after another, so this TTFT is not usable", s.ITL.Mean))
		return p
	}
	p.TTFT, p.Context = profile.Describe([]time.Duration{ttft}), tokens
	p.ThroughputPerGPU = float64(dp) * tokens / ttft.Seconds() / float64(cfg.GPUs())
	slices.Sort(ttfts)
	var first time.Duration // of those that were first, one for each replica
	for _, t := range ttfts[:dp] {
		first += t / time.Duration(dp)
	}
	if off := float64(ttft-first) / float64(first); off > uneven || off < -uneven {
		p.Warnings = append(p.Warnings, profile.Warnf("burst_order",
			"TTFT is %v by the last of %d prompts and %v by the first %d. The replicas did not share the prompts evenly, or did not run them one after another",
			ttft.Round(10*time.Microsecond), n, first.Round(10*time.Microsecond), dp))
	}
	doubtPrompts(&p, m, s, float64(n))
	return p
}

// firstTokens are the TTFT of the requests that succeeded, and their mean prompt.
func firstTokens(rs []profile.Request) (ttfts []time.Duration, tokens float64) {
	for _, q := range rs {
		if !q.OK() {
			continue
		}
		ttfts = append(ttfts, q.TTFT())
		if q.PromptTokens > 0 {
			tokens += float64(q.PromptTokens)
		} else {
			tokens += float64(q.ISL)
		}
	}
	return ttfts, tokens / float64(max(len(ttfts), 1))
}
