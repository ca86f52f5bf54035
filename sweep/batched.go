package sweep

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"plimsoll/engine"
	"plimsoll/profile"
)

// batchRounds is how many times over the prompts of a batched point are sent, the
// first and the last round besides what counts.
const batchRounds = 5

// together is how many prompts of isl tokens fill a step within what the engine
// and the client take at once; below 2 there is nothing to batch. An engine with
// attention replicas is prefilled with one sequence for each (newTrial), which
// batches none; the grid is upstream's, which has no such points.
func (o Options) together(c engine.Config, f profile.EngineFacts, isl int) int {
	if o.Search == Grid || attentionReplicas(c) > 1 {
		return 0
	}
	budget, _ := c.StepTokens(o.GPUMemory, f.Version)
	k := budget / max(isl, 1)
	for _, most := range []int{f.MaxNumSeqs, c.Limits.MaxNumSeqs, o.MaxInFlight} {
		if most > 0 {
			k = min(k, most)
		}
	}
	if f.KVTokens > 0 {
		k = min(k, f.MaxInFlight(isl, 1, o.MaxInFlight))
	}
	return k
}

// batchedISLs are the lengths of the prefill surface at which prompts are
// batched: the target, and those at least three times as long as the one before, since
// k prompts of any length below the knee are the same number of tokens.
func (o Options) batchedISLs(c engine.Config, f profile.EngineFacts, isls []int) (out []int) {
	last := 0
	for _, isl := range isls {
		if target := near(isl, o.ISL); o.together(c, f, isl) > 1 && (target || isl >= 3*last) {
			out, last = append(out, isl), isl
		}
	}
	return out
}

// batchGain is by how much several prompts at once have to be faster than one at
// a time for longer ones to be batched too. What they share is a step's fixed
// time, and the longer they are the less of it that is.
const batchGain = 1.05

// batchedPrefill measures, at lengths of the prefill surface so far, as many
// prompts at once as fill a step, from the shortest, as long as that makes a
// difference: one at a time leaves most of a step empty where they are short.
func (r *runner) batchedPrefill(ctx context.Context, s *trial) error {
	var isls []int
	alone := map[int]float64{} // throughput, by ISL
	for _, one := range prefillSurfaceOf(r.book.points(), s.cfg).Samples {
		isls = append(isls, one.ISL)
		alone[one.ISL] = one.ThroughputPerGPU
	}
	for _, isl := range r.opts.batchedISLs(s.cfg, s.facts, isls) {
		p, err := r.batchedPoint(ctx, s, isl, r.opts.together(s.cfg, s.facts, isl))
		if err != nil {
			return err
		}
		if p.Invalid == "" && p.ThroughputPerGPU > 0 && p.ThroughputPerGPU < batchGain*alone[isl] {
			return nil
		}
	}
	return nil
}

// batchedPoint measures k prompts of isl tokens at once, each that ends followed
// by another.
func (r *runner) batchedPoint(ctx context.Context, s *trial, isl, k int) (profile.Point, error) {
	id := fmt.Sprintf("surface/%s/isl%d/k%d", s.key(), isl, k)
	return r.point(ctx, s, profile.StageSurface, id, r.opts.at(profile.StageSurface).batchedCost(s.cfg, isl, k), func(ctx context.Context) (profile.Point, []profile.Request, error) {
		w := batchedLoad(isl, k)
		w.Seed, w.Timeout = r.seed(id), r.opts.RequestTimeout
		p, m, err := r.undisturbed(ctx, s, w, Measurement{}, attempts, func(m Measurement) profile.Point { return summarizeBatched(m, s.cfg, k) })
		p.ISL, p.OSL = isl, 1
		return p, m.Requests, err
	})
}

// batchedLoad is what a batched point sends.
func batchedLoad(isl, k int) profile.Workload {
	return profile.Workload{ISL: isl, OSL: 1, InFlight: k, Requests: batchRounds * k}
}

// summarizeBatched makes a point of k prompts at once. What counts lies between
// the first and the last but one round: from the k-th first token until the one
// after which no new prompt was sent, k were in flight all the time.
func summarizeBatched(m Measurement, cfg engine.Config, k int) profile.Point {
	s := m.summarize(m.Requests, profile.Whole(m.Requests))
	p := profile.Point{Asked: k, Batch: k, Requests: s.Requests, Failures: s.Failures, Warnings: s.Warnings, Invalid: s.Invalid}
	var done []profile.Request
	for _, q := range m.Requests {
		if q.OK() {
			done = append(done, q)
		}
	}
	if len(done) < batchRounds*k {
		return p
	}
	slices.SortFunc(done, func(a, b profile.Request) int { return cmp.Compare(a.First, b.First) })
	counted := done[k : len(done)-k]
	ttfts, tokens := firstTokens(counted)
	var rounds []time.Duration
	for i := k; i < len(done)-k; i += k {
		rounds = append(rounds, done[i+k-1].First-done[i-1].First)
	}
	round := profile.Describe(rounds)
	if round.Mean <= 0 {
		return p // there is no rate in that
	}
	rate := func(d time.Duration) float64 { return float64(k) * tokens / d.Seconds() / float64(cfg.GPUs()) }
	p.TTFT, p.Context, p.InFlight, p.ThroughputPerGPU = profile.Describe(ttfts), tokens, float64(k), rate(round.Mean)
	if h := round.Half; h > 0 {
		p.Throughput95 = profile.Interval{Low: rate(round.Mean + h), High: rate(max(round.Mean-h, round.Mean/100))}
	}
	doubtPrompts(&p, m, s, float64(k))
	return p
}

// batchedPrefillOf collects the usable batched points of a configuration whose steps take
// so many tokens.
func batchedPrefillOf(points []profile.Point, cfg engine.Config, stepTokens int) profile.BatchedPrefill {
	b := profile.BatchedPrefill{MaxBatchedTokens: stepTokens}
	for _, p := range points {
		if p.Phase == profile.Prefill && p.Config == cfg && p.Batch > 1 && p.Failures == 0 && p.Invalid == "" && p.ThroughputPerGPU > 0 {
			b.Samples = append(b.Samples, profile.BatchedSample{ISL: p.ISL, K: p.Batch, TTFT: p.TTFT.Mean, ThroughputPerGPU: p.ThroughputPerGPU})
			b.Provenance = profile.Weakest(b.Provenance, p.Provenance)
		}
	}
	slices.SortFunc(b.Samples, func(x, y profile.BatchedSample) int { return cmp.Compare(x.ISL, y.ISL) })
	return b
}

// batchedCost is the expected duration of a batched point: each round at most as
// long as one prompt of all its tokens.
func (o Options) batchedCost(c engine.Config, isl, k int) time.Duration {
	if o.Virtual {
		return time.Duration(batchRounds*k) * virtualRequest
	}
	if e, ok := o.expect(c); ok {
		return batchRounds * e.TTFT(k*isl)
	}
	return time.Second
}
